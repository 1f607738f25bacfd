"""What is behind the verbs, on every engine: rows that no verb shows, and damage that no verb does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import apsw

from standfast.store.scripts import writes
from standfast.store.sqlite.sqlite_engine import SqliteEngine
from standfast.store.steps import Round, Script
from standfast.store.store import Store
from standfast.wings.health.counting import sum_up
from standfast.wings.notices.scripts import number_journal
from tests.postgres import connect, in_schema


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    """Read rows by a plain SELECT, beside the writer, once what was told has its numbers and its sums."""
    engine = _engine(store)
    if isinstance(engine, SqliteEngine):
        return engine._files.read(sql, _select).result()  # type: ignore[no-any-return, arg-type]  # noqa: SLF001
    engine.call(_put_in_order, [None], seconds=5).result()
    return _outside(engine, sql)


def change(store: Store, sql: str) -> None:
    """Write what no verb writes."""
    engine = _engine(store)
    if isinstance(engine, SqliteEngine):
        assert engine._connection is not None  # noqa: SLF001
        engine._connection.execute(sql)  # noqa: SLF001
    else:
        _outside(engine, sql)


def _engine(store: Store) -> Any:
    return store._engine  # noqa: SLF001 - no verb shows these rows, and none should


@writes()
def _put_in_order(round_: Round, asked: Sequence[None]) -> Script[list[bool | None]]:
    yield from sum_up(round_, ())
    return (yield from number_journal(round_, asked))


def _outside(engine: Any, sql: str) -> list[tuple[Any, ...]]:
    address = engine._server.address  # noqa: SLF001
    with closing(connect(in_schema(address.server, address.schema))) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def _select(connection: apsw.Connection, sql: Any) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()
