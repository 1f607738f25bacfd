"""Schemas that tests use one after the other: emptied in between, which costs a fifth of making and dropping one.

Only a schema that looks as the product makes it is used again: one that a test changed, filled or still has open is
dropped, and so is one whose emptying would have to wait for somebody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
from psycopg import sql

from standfast.application.wings import store_at
from standfast.store import shared
from tests.postgres import connect, drop_schema, fresh_schema, in_schema, split_schema

RELATION = 4
"""Columns that tell of a table, index or sequence; the rows behind those have fewer."""
LARGEST = 1 << 20
"""Bytes of a table that is worth emptying: what was deleted still takes room, and reading goes through it."""

LOOK = """
SELECT c.relname, c.relkind, c.relnatts, c.relhastriggers,
  CASE WHEN c.relkind = 'r' THEN pg_relation_size(c.oid) ELSE 0 END
FROM pg_class AS c WHERE c.relnamespace = to_regnamespace(current_setting('search_path')) ORDER BY 1
"""
OTHERS = "SELECT count(*) FROM pg_proc WHERE pronamespace = to_regnamespace(current_setting('search_path'))"

Look = tuple[tuple[object, ...], ...]


class Schemas:
    """The schemas of one process of the run."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._free: list[str] = []
        self._new: Look | None = None
        self._beside = connect(server)  # kept: a new connection costs the server more than what it is asked here

    @contextmanager
    def lent(self) -> Iterator[str]:
        """Give an empty store that was used before, or will be."""
        url = self._free.pop() if self._free else self._made()
        yield url
        if self._emptied(url):
            self._free.append(url)
        else:
            drop_schema(url)

    def close(self) -> None:
        """Drop them all: the server may be somebody's."""
        for url in self._free:
            drop_schema(url)
        self._beside.close()

    def _made(self) -> str:
        url = in_schema(self._server, fresh_schema())
        with closing(store_at(url)) as store:
            store.open()
        if self._new is None:
            self._new, _ = _look(self._in(url))
        return url

    def _emptied(self, url: str) -> bool:
        if any(url.rpartition("=")[2] in key for key in shared._engines):  # noqa: SLF001 - somebody left it open
            return False
        connection = self._in(url)
        found, size = _look(connection)
        if found != self._new or size > LARGEST:
            return False
        try:
            _empty(connection, found)
        except psycopg.errors.DeadlockDetected:  # with the server's own upkeep, which was at its tables
            return False
        return True

    def _in(self, url: str) -> psycopg.Connection[tuple[object, ...]]:
        """Give the connection, with bare names those of the schema that the URL names."""
        self._beside.execute("SELECT set_config('search_path', %s, false)", (split_schema(url)[1],))
        return self._beside


def _look(connection: psycopg.Connection[tuple[object, ...]]) -> tuple[Look, int]:
    """Give what a schema is made of, and the size of its largest table."""
    rows = connection.execute(LOOK).fetchall()
    functions = connection.execute(OTHERS).fetchall()
    known = any(row[0] == "schema" for row in rows)
    versions = connection.execute("SELECT version, readable_by FROM schema").fetchall() if known else []
    return (*(row[:4] for row in rows), *functions, *versions), max((int(str(row[4])) for row in rows), default=0)


def _empty(connection: psycopg.Connection[tuple[object, ...]], found: Look) -> None:
    """Delete every row and count from the beginning; fail if somebody does not let go."""
    relations = [row for row in found if len(row) == RELATION]
    tables = [sql.Identifier(str(name)) for name, kind, *_ in relations if kind == "r" and name != "schema"]
    numbers = [str(name) for name, kind, *_ in relations if kind == "S"]
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '10s'")
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.SQL(", ").join(tables)))
        connection.execute(sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(table) for table in tables))
        for name in numbers:
            connection.execute("SELECT setval(%s, 1, false)", (name,))
