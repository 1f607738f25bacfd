"""Statements that are sent without waiting: their failures are told in time, and never taken for an unknown commit."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import standfast.store
from standfast.application.wings import store_at
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import Connection, connect, opening, rolled_back_on_failure
from standfast.store.postgres.driver import NUMBERED
from standfast.store.postgres.session import CommitUnanswered, Numbered, Session
from tests import postgres

ADD = Numbered("add", b"INSERT INTO kept VALUES ($1)", ("word",))
READ = Numbered("read", b"SELECT word FROM kept ORDER BY word", ())
ECHO = Numbered("echo", b"SELECT $1::text, $2::bigint, $3::double precision, $4::boolean, $5::text", tuple("abcde"))
PLAIN = Numbered("plain", b"SELECT 1", ())
SLEEP = Numbered("sleep", b"SELECT pg_sleep(3)", ())
SOURCES = list(Path(standfast.store.__file__).parent.glob("*.py"))


@pytest.fixture
def connection(postgres_url: str) -> Iterator[Connection]:
    """Give a connection to a schema with a table, in a transaction."""
    address = Address.read(postgres_url)
    with connect(address) as made:
        made.execute(f"CREATE SCHEMA {address.schema}".encode())
        made.execute(f"CREATE TABLE {address.schema}.kept (word text PRIMARY KEY)".encode())
        made.execute(f"CREATE TABLE {address.schema}.schema AS SELECT 1 AS readable_by".encode())
        made.begin(opening(address))
        yield made


@pytest.fixture
def session(connection: Connection) -> Session:
    assert connection.session is not None
    return connection.session


def words(url: str) -> list[tuple[Any, ...]]:
    with postgres.connect(url) as beside:
        return beside.execute("SELECT word FROM kept ORDER BY word").fetchall()


@pytest.mark.parametrize("given", [("a", 1, 1.5, True, "ä\n"), ("", -(1 << 60), -0.0, False, None)])
def test_values_cross_as_they_are(session, given):
    assert session.ask(ECHO, dict(zip("abcde", given, strict=True))) == [given]


def test_a_text_crosses_whatever_encoding_the_environment_names(postgres_url, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with connect(Address.read(postgres_url)) as made:
        assert made.session is not None
        [(found, *_)] = made.session.ask(ECHO, {"a": "ä€", "b": 1, "c": 1.0, "d": True, "e": None})
    assert found == "ä€"


def test_a_text_is_never_cut_short(session):
    with pytest.raises(psycopg.DataError, match="NUL"):
        session.tell(ADD, {"word": "a\0b"})


def test_what_is_told_runs_in_order_and_before_the_next_question(session, postgres_url):
    for word in ("a", "b"):
        session.tell(ADD, {"word": word})
    assert session.ask(ADD, {"word": "c"}) == [(1,)]
    session.tell(ADD, {"word": "d"})
    assert session.ask(READ, {}) == [("a",), ("b",), ("c",), ("d",)]
    assert words(postgres_url) == []
    session.tell(ADD, {"word": "e"})
    session.commit()
    assert [word for (word,) in words(postgres_url)] == ["a", "b", "c", "d", "e"]


def test_a_batch_that_fills_every_buffer_is_sent_and_read(session):
    """Whoever only writes, while the other side only writes too, waits for ever."""
    large = "x" * (1 << 20)
    for word in "abc":
        session.tell(ECHO, {"a": f"{word}{large}", "b": 1, "c": 1.0, "d": True, "e": large})
    [(found, *_)] = session.ask(ECHO, {"a": large, "b": 1, "c": 1.0, "d": True, "e": None})
    assert found == large


@contextmanager
def key_taken(connection: Connection) -> Iterator[None]:
    """Expect a plain failure: nothing is unknown, and the transaction is undone."""
    with pytest.raises(psycopg.errors.UniqueViolation), rolled_back_on_failure(connection):
        yield


def test_the_failure_of_what_was_told_is_said_by_the_next_question(connection, session):
    assert session.ask(PLAIN, {}) == [(1,)]
    session.tell(ADD, {"word": "a"})
    with key_taken(connection):
        session.tell(ADD, {"word": "a"})
        session.tell(ADD, {"word": "b"})
        session.ask(READ, {})
    assert session.ask(PLAIN, {}) == [(1,)], "the session can be used again"


def test_a_script_that_breaks_off_takes_back_what_it_told(connection, session, postgres_url):
    assert session.ask(PLAIN, {}) == [(1,)]
    session.tell(ADD, {"word": "a"})
    with pytest.raises(ValueError, match="ours"), rolled_back_on_failure(connection):
        raise ValueError("ours")
    assert session.ask(PLAIN, {}) == [(1,)], "the session can be used again"
    assert words(postgres_url) == []


def test_a_commit_after_a_failure_is_refused_not_doubted(connection, session, postgres_url):
    session.tell(ADD, {"word": "a"})
    with key_taken(connection):
        session.tell(ADD, {"word": "a"})
        session.commit()
    assert words(postgres_url) == []


def test_a_commit_that_was_skipped_leaves_no_transaction_open(connection, session, postgres_url):
    """The next transaction was refused otherwise, and whoever handed it in was told of a failure not their own."""
    session.tell(ADD, {"word": "a"})
    session.tell(ADD, {"word": "a"})
    with pytest.raises(psycopg.errors.UniqueViolation):
        session.commit()
    connection.begin(opening(Address.read(postgres_url)))
    session.tell(ADD, {"word": "b"})
    session.commit()
    assert words(postgres_url) == [("b",)]


def test_a_commit_on_a_lost_connection_is_doubted(connection, session, postgres_url):
    with postgres.connect(postgres_url) as beside:
        beside.execute("SELECT pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
    with pytest.raises(CommitUnanswered):
        session.commit()
    assert connection.broken


def test_a_commit_that_is_answered_with_an_error_is_doubted(connection, session):
    """What the server says at this moment may also be said while the commit waits for a standby."""
    connection.execute("CREATE TABLE late (word text UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    for _ in range(2):
        session.tell(Numbered("late", b"INSERT INTO late VALUES ('a')", ()), {})
    with pytest.raises(CommitUnanswered, match="duplicate key"):
        session.commit()


def test_what_is_not_answered_in_time_closes_the_connection(connection):
    hurried = Session(connection, 0.2)
    with pytest.raises(psycopg.OperationalError, match="did not answer within 0 s"):
        hurried.ask(SLEEP, {})
    assert connection.closed


def test_no_script_uses_an_answer_that_it_does_not_get():
    """It would be given no rows, on PostgreSQL alone."""
    unanswered = {name for name, statement in NUMBERED.items() if not statement.answers}
    assert "move_jobs" in unanswered
    used = [
        f"{path.name}: {name}"
        for path in SOURCES
        for name in _asked(ast.parse(path.read_text(encoding="utf-8")))
        if name in unanswered
    ]
    assert used == []


def _asked(tree: ast.Module) -> list[str]:
    """Name the statements whose answers are used."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Yield) and id(node) not in alone]
    named = [node.value.elts[0] for node in used if isinstance(node.value, ast.Tuple)]
    return [name.value for name in named if isinstance(name, ast.Constant) and isinstance(name.value, str)]


def test_a_new_store_is_written_by_its_indexes(postgres_url):
    """Plans are made once: one that reads whole tables, because they are small yet, would stay when they are not."""
    store = store_at(postgres_url)
    store.open()
    store.close()
    address = Address.read(postgres_url)
    with connect(address) as made:
        made.begin(opening(address))
        for name in (
            "insert_jobs",
            "take_jobs",
            "take_lane",
            "complete_jobs",
            "move_jobs",
            "release_keys",
            "held_claims",
            "lock_jobs",
        ):
            made.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            made.execute(b"PREPARE planned AS " + NUMBERED[name].sql)
            nothing = ", ".join(["NULL"] * len(NUMBERED[name].names))
            plan = [line for (line,) in made.execute(f"EXPLAIN EXECUTE planned({nothing})".encode())]
            made.execute("DEALLOCATE planned")
            assert [line for line in plan if "Seq Scan on job" in line or "Seq Scan on body" in line] == [], name
