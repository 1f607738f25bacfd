"""Named SQL from a file: `-- name: take_jobs` opens a statement, which ends where the next one begins."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import msgspec

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_WRITES = re.compile(r"^(INSERT|UPDATE|DELETE)\b", re.MULTILINE)


class Statement(msgspec.Struct, frozen=True):
    """One statement of a dialect. `gives_rows` is false for a write that returns none: it answers with their number."""

    sql: str
    gives_rows: bool

    def for_rows(self, rows: int, columns: int) -> str:
        """Write the statement out for a batch of so many rows."""
        return _for_rows(self.sql, rows, columns)


@cache
def _for_rows(sql: str, rows: int, columns: int) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return sql.replace(":rows", ",".join([row] * rows))


def load(dialect: str) -> dict[str, Statement]:
    """Read the statements of `store/<dialect>/queries.sql`."""
    text = (files(f"standfast.store.{dialect}") / "queries.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    return {name: _statement(sql) for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def _statement(sql: str) -> Statement:
    bare = "\n".join(line for line in sql.strip().splitlines() if not line.startswith("--"))
    return Statement(bare, not _WRITES.search(bare) or "RETURNING" in bare)
