"""Statements that are sent without waiting: their failures are told in time, and never taken for an unknown commit."""

from __future__ import annotations

import ast
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import standfast
from standfast.application.wings import store_at
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import Connection, connect, opening, rolled_back_on_failure
from standfast.store.postgres.driver import NUMBERED
from standfast.store.postgres.session import CommitUnanswered, Numbered, Session
from tests import postgres
from tests.faults.proxy import Proxy

ADD = Numbered("add", b"INSERT INTO kept VALUES ($1)", ("word",))
READ = Numbered("read", b"SELECT word FROM kept ORDER BY word", ())
ECHO = Numbered("echo", b"SELECT $1::text, $2::bigint, $3::double precision, $4::boolean, $5::text", tuple("abcde"))
PLAIN = Numbered("plain", b"SELECT 1", ())
SLEEP = Numbered("sleep", b"SELECT pg_sleep(3)", ())
SOURCES = list(Path(standfast.__file__).parent.rglob("*.py"))


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


@pytest.mark.usefixtures("connection")
def test_a_commit_is_doubted_if_a_pooler_has_the_last_word(postgres_url):
    """It says that the server's connection is gone, in place of all that the server answered: of the COMMIT too."""
    crashed = b"SERROR\0VERROR\0C58000\0Mserver conn crashed?\0\0"
    last_words = b"E" + struct.pack("!I", len(crashed) + 4) + crashed + b"Z\0\0\0\5I"
    with Proxy(postgres_url) as proxy, connect(Address.read(f"{proxy.url}&prepare=yes")) as pooled:
        assert pooled.session is not None
        pooled.begin(opening(Address.read(postgres_url)))
        pooled.session.ask(PLAIN, {})
        pooled.session.tell(ADD, {"word": "a"})
        proxy.swallow_answer(b"COMMIT", last_words=last_words)
        with pytest.raises(CommitUnanswered):
            pooled.session.commit()
    assert words(postgres_url) == [("a",)]


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
    asked = [(path.name, name) for path in SOURCES for name in _asked(ast.parse(path.read_text(encoding="utf-8")))]
    assert ("intake.py", "insert_bodies") in asked, "the scripts are elsewhere by now"
    assert [(file, name) for file, name in asked if name in unanswered] == []


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


def test_two_clients_that_a_pooler_gives_one_session_do_not_run_each_others_statements(connection, session):
    """Such a pooler passes for a server when it gives its clients the session number of the first."""
    other = Session(connection, 5.0)
    assert session.ask(PLAIN, {}) == [(1,)]
    assert other.ask(READ, {}) == []
    assert session.ask(PLAIN, {}) == [(1,)]


def test_a_notice_goes_out_with_the_commit(postgres_url, session):
    with postgres.connect(postgres_url) as beside:
        beside.execute("LISTEN told")
        session.tell(ADD, {"word": "a"})
        session.commit(("told", "work"))
        assert [each.payload for each in beside.notifies(timeout=5, stop_after=1)] == ["work"]
    assert words(postgres_url) == [("a",)]


def test_a_notice_of_what_failed_is_not_sent_and_leaves_no_doubt(postgres_url, connection, session):
    """It is planned before the first commit that has one, and that waits for everything that was sent before."""
    session.tell(ADD, {"word": "a"})
    session.tell(ADD, {"word": "a"})
    with postgres.connect(postgres_url) as beside:
        beside.execute("LISTEN told")
        with pytest.raises(psycopg.errors.UniqueViolation):
            session.commit(("told", "work"))
        assert list(beside.notifies(timeout=0.2)) == []
    assert words(postgres_url) == []
    connection.begin("BEGIN; SELECT 1")
    session.commit()


def test_a_notice_that_is_refused_does_not_make_the_commit_doubtful(postgres_url, session):
    session.tell(ADD, {"word": "a"})
    session.commit(("told", "x" * 9000))
    assert words(postgres_url) == [("a",)]
