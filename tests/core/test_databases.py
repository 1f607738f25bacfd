"""What real databases and programs make their libraries raise, and how that is judged."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import apsw
import asyncpg  # type: ignore[import-untyped]
import psycopg
import psycopg_pool
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError, OperationalError

from standfast.failure.classify import of_exception
from tests.core.raised import UNCLASSIFIED, told

NOT_DONE = "transient no dependency_unavailable"
NOT_REACHED = "transient no timeout"
NO_ANSWER = "transient maybe timeout"
LOST = "transient maybe dependency_unavailable"
REJECTED = "permanent no request_rejected"
DENIED = "permanent no denied"
NOBODY = "postgresql://nobody@127.0.0.1:{port}/nothing"


@contextmanager
def judged_as(expected: str) -> Iterator[None]:
    """Let whatever is raised inside be judged so."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one it is, is the library's to say
        yield
    assert told(of_exception(caught.value)) == expected, repr(caught.value)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        return int(gone.getsockname()[1])


# PostgreSQL


@pytest.fixture
def connect(shared_server: str) -> Iterator[Callable[[], psycopg.Connection[Any]]]:
    opened: list[psycopg.Connection[Any]] = []

    def connected() -> psycopg.Connection[Any]:
        opened.append(psycopg.connect(shared_server, autocommit=True))
        return opened[-1]

    yield connected
    for each in opened:
        each.close()


PSYCOPG_ANSWERS = {
    "create temp table t (a int primary key); insert into t values (1), (1)": REJECTED,
    "create temp table t (a int not null); insert into t values (null)": REJECTED,
    "selec": REJECTED,
    "select * from nowhere": REJECTED,
    "select 1 / 0": REJECTED,
    "set statement_timeout = 20; select pg_sleep(5)": NOT_REACHED,
    "begin read only; create table nowhere.t (a int)": NOT_DONE,
    "set role pg_monitor; create schema forbidden": DENIED,
    "do $$ begin raise exception 'ours' using errcode = '40001'; end $$": NOT_DONE,
    "do $$ begin raise exception 'ours'; end $$": UNCLASSIFIED,
}


@pytest.mark.parametrize(("statement", "expected"), PSYCOPG_ANSWERS.items())
def test_what_postgres_answers(connect, statement, expected):
    with judged_as(expected):
        connect().execute(statement)


async def test_asyncpg_is_judged_alike(shared_server):
    connection = await asyncpg.connect(shared_server)
    try:
        for statement in ("create temp table t (a int primary key); insert into t values (1), (1)", "selec"):
            with judged_as(REJECTED):
                await connection.execute(statement)
        with judged_as(REJECTED):
            await connection.execute("select $1::int", "x")
        with judged_as(NO_ANSWER):
            await connection.execute("select pg_sleep(5)", timeout=0.02)
    finally:
        connection.terminate()


def test_who_loses_against_another_transaction_did_nothing(connect):
    first, second = connect(), connect()
    first.execute("create table if not exists public.raced (a int primary key, b int)")
    try:
        first.execute("insert into raced values (1, 0), (2, 0) on conflict do nothing")
        second.execute("begin isolation level serializable; select * from raced")
        first.execute("update raced set b = b + 1")
        with judged_as(NOT_DONE):
            second.execute("update raced set b = 7")
        second.execute("rollback")
        first.execute("begin; update raced set b = 1 where a = 1")
        with judged_as(NOT_DONE):
            second.execute("select * from raced where a = 1 for update nowait")
        first.execute("rollback")
    finally:
        first.execute("drop table raced")


@pytest.mark.parametrize("how", ["by the server", "on the wire"])
def test_a_connection_that_is_lost_may_have_done_it(connect, how):
    lost, other = connect(), connect()
    lost.pgconn.send_query(b"select pg_sleep(5)")
    if how == "by the server":
        other.execute("select pg_terminate_backend(%s)", [lost.info.backend_pid])
    else:
        with socket.socket(fileno=os.dup(lost.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)
    with judged_as(LOST):
        lost.execute("select 1")
    with judged_as(LOST):
        lost.execute("select 1")


async def test_a_connection_that_asyncpg_lost_may_have_done_it(shared_server, connect):
    lost = await asyncpg.connect(shared_server)
    waiting = asyncio.create_task(lost.execute("select pg_sleep(5)"))
    await asyncio.sleep(0)  # let it be sent
    connect().execute("select pg_terminate_backend(%s)", [lost.get_server_pid()])
    with judged_as(LOST):
        await waiting


async def test_who_never_connected_did_nothing():
    nobody = NOBODY.format(port=closed_port())
    with judged_as(NOT_DONE):
        psycopg.connect(nobody)
    with judged_as(NOT_DONE):
        await psycopg.AsyncConnection.connect(nobody)
    with judged_as(NOT_DONE):
        await asyncpg.connect(nobody)
    pool: psycopg_pool.ConnectionPool = psycopg_pool.ConnectionPool(nobody, min_size=0, max_size=1, open=True)
    with pool, judged_as(NOT_REACHED):
        pool.getconn(timeout=0.01)
    with judged_as(NOT_DONE):
        pool.getconn()


def test_sqlalchemy_is_judged_by_what_it_wraps(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with engine.connect() as one:
        one.execute(text("create table t (a integer primary key)"))
        with pytest.raises(IntegrityError) as caught:
            one.execute(text("insert into t values (1), (1)"))
    engine.dispose()
    assert told(of_exception(caught.value)) == REJECTED
    with pytest.raises(OperationalError) as refused:
        create_engine(NOBODY.format(port=closed_port()).replace("postgresql", "postgresql+psycopg")).connect()
    assert told(of_exception(refused.value)) == NOT_DONE


# SQLite


def by_sqlite3(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    mode = "ro" if read_only else "rwc"
    return sqlite3.connect(f"file:{path}?mode={mode}", uri=True, timeout=0, isolation_level=None)


def by_apsw(path: Path, *, read_only: bool = False) -> apsw.Connection:
    mode = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    return apsw.Connection(str(path), flags=mode)


@pytest.mark.parametrize("opened", [by_sqlite3, by_apsw])
def test_what_sqlite_answers(tmp_path, opened):
    path = tmp_path / "a.db"
    one, other = opened(path), opened(path)
    reader = None
    try:
        one.execute("create table t (a integer primary key, b text)")
        with judged_as(REJECTED):
            one.execute("insert into t values (1, ''), (1, '')")
        one.execute("begin immediate")
        with judged_as(NOT_DONE):
            other.execute("begin immediate")
        one.execute("rollback")
        one.execute("pragma max_page_count = 2")
        with judged_as(NOT_DONE):
            one.execute("insert into t values (2, zeroblob(50000))")
        reader = opened(path, read_only=True)
        with judged_as(DENIED):
            reader.execute("insert into t values (3, '')")
        with judged_as(UNCLASSIFIED):
            one.execute("selec")
        with judged_as(NOT_DONE):
            opened(tmp_path / "nowhere" / "b.db")
    finally:
        for each in (one, other, reader):
            if each is not None:
                each.close()


# Programs, processes and files


def test_a_program_that_takes_too_long_may_have_done_it():
    with judged_as(NO_ANSWER):
        subprocess.run(["/bin/sleep", "60"], timeout=0.01, check=True)


def test_a_program_that_fails_says_nothing_else():
    with judged_as(UNCLASSIFIED):
        subprocess.run(["/bin/false"], check=True)
    with judged_as(UNCLASSIFIED):
        subprocess.run(["/nowhere/to/be/found"], check=True)


def test_a_process_of_a_pool_that_dies_may_have_done_it():
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, pytest.raises(BrokenProcessPool) as caught:
        pool.submit(os._exit, 1).result()
    assert told(of_exception(caught.value)) == LOST


def test_a_full_disk_may_have_taken_some_of_it():
    with judged_as(LOST), Path("/dev/full").open("w") as full:
        full.write("x")
