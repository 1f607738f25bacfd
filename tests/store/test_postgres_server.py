"""The PostgreSQL that tests are given is a real one, with the settings the product insists on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.postgres import (
    PostgresServer,
    connect,
    drop_schema,
    fresh_schema,
    in_schema,
    split_schema,
)
from tests.waiting import seen

OWNER = """
import sys
from tests.postgres import PostgresServer

server = PostgresServer().start()
print(server.url, flush=True)
sys.stdin.read()
"""


def ask(url: str, question: str) -> list[tuple[Any, ...]]:
    with connect(url) as connection:
        return connection.execute(question.encode()).fetchall()


def tell(url: str, *statements: str) -> None:
    with connect(url) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def make_table(url: str) -> None:
    tell(url, f"CREATE SCHEMA {split_schema(url)[1]}", "CREATE TABLE kept (word text)")


def schemas_like(url: str) -> list[tuple[Any, ...]]:
    return ask(url, f"SELECT nspname FROM pg_namespace WHERE nspname = '{split_schema(url)[1]}'")  # noqa: S608


def test_the_shared_server_answers(postgres_url: str):
    assert ask(postgres_url, "SELECT 1") == [(1,)]
    assert schemas_like(postgres_url) == []  # making it is up to the product


def test_what_it_has_committed_is_on_disk(own_url: str):
    asked = ("fsync", "full_page_writes", "synchronous_commit", "listen_addresses")
    assert [ask(own_url, f"SHOW {setting}") for setting in asked] == [[("on",)], [("on",)], [("on",)], [("",)]]
    assert ask(own_url, "SELECT pg_is_in_recovery()") == [(False,)]


def test_a_committed_row_survives_a_crash_and_an_open_transaction_does_not(own_server: PostgresServer, own_url: str):
    make_table(own_url)
    tell(own_url, "INSERT INTO kept VALUES ('committed')")
    with closing(connect(own_url)) as hanging:
        hanging.autocommit = False
        hanging.execute("INSERT INTO kept VALUES ('open')")
        own_server.stop("immediate")
        with pytest.raises(psycopg.OperationalError):
            connect(own_url)
        own_server.start()
    assert ask(own_url, "SELECT word FROM kept") == [("committed",)]


def test_an_orderly_stop_keeps_rows_too(own_server: PostgresServer, own_url: str):
    make_table(own_url)
    tell(own_url, "INSERT INTO kept VALUES ('committed')")
    own_server.stop("fast")
    own_server.start()
    assert ask(own_url, "SELECT word FROM kept") == [("committed",)]


def test_terminated_backends_are_gone(own_server: PostgresServer, own_url: str):
    with closing(connect(own_url)) as first, closing(connect(own_url)) as second:
        assert own_server.terminate_backends() >= 2  # the one that asked whether the server is up may still be there
        for connection in (first, second):
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
    assert ask(own_url, "SELECT 1") == [(1,)]


def test_two_schemas_are_separate(shared_server: str, postgres_url: str):
    other = in_schema(shared_server, fresh_schema())
    for url, word in ((postgres_url, "here"), (other, "there")):
        make_table(url)
        tell(url, f"INSERT INTO kept VALUES ('{word}')")  # noqa: S608
    assert ask(postgres_url, "SELECT word FROM kept") == [("here",)]
    drop_schema(other)
    assert schemas_like(other) == []
    assert ask(postgres_url, "SELECT word FROM kept") == [("here",)]


@contextmanager
def owner() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that owns a server, and the server's URL."""
    command = [sys.executable, "-c", OWNER]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()


@pytest.mark.usefixtures("own_server")  # where no server may be started, none is
async def test_a_server_ends_with_its_owner_however_that_ends():
    with owner() as (process, url):
        place = Path(str(conninfo_to_dict(url)["host"]))
        assert ask(url, "SELECT 1") == [(1,)]
        process.kill()
    # Whoever clears up waits 10 s for the server's end before it gives up.
    await seen(lambda: not place.exists(), within=9.0)
