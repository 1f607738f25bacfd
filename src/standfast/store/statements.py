"""Named SQL, in a file for the spine and one for each wing. What both dialects share is written once.

    -- name: take_keys                     a statement, of each dialect that has none of its own
    -- name: take_keys (postgres)          PostgreSQL's own
    -- name: lock_gates (postgres only)    SQLite does nothing here, and answers with no rows

A statement ends where the next one begins. Lines that begin with `--` are comments.

`VALUES :rows` takes a batch of rows in SQLite; in PostgreSQL `:rows` is one JSON text, an array for each row.
`:numbers` and their like are JSON arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec

DIALECTS = ("sqlite", "postgres")
FILE = "statements.sql"

_OPENING = re.compile(r"^-- name:(.*)\n", re.MULTILINE)
_NAME = re.compile(r" (\w+)(?: \((sqlite|postgres|postgres only)\))?")
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


class Block(NamedTuple):
    """A statement as it stands in its file. `dialect` is empty where it is written for all that have no other."""

    name: str
    dialect: str
    text: str


def load(dialect: str) -> dict[str, Statement]:
    """Give every statement of a dialect, by name."""
    return chosen(written(), dialect)


@cache
def written() -> tuple[Block, ...]:
    """Read the files, once for all dialects."""
    return tuple(block for text in _texts() for block in blocks(text))


def _texts() -> Iterator[str]:
    package = files("standfast")
    wings = sorted((package / "wings").iterdir(), key=lambda wing: wing.name)
    for folder in (package / "spine", *wings):
        file = folder / FILE
        if file.is_file():
            yield file.read_text(encoding="utf-8")


def blocks(text: str) -> Iterator[Block]:
    """Take a file apart; refuse what no loader would find."""
    before, *parts = _OPENING.split(text)
    if bare(before):
        raise ValueError(f"this stands before the first `-- name:` of its file: {bare(before)}")
    for opening, body in zip(parts[::2], parts[1::2], strict=True):
        found = _NAME.fullmatch(opening)
        if found is None:
            raise ValueError(f"nobody knows the header `-- name:{opening}`")
        yield Block(found[1], found[2] or "", body)


def chosen(all_: Iterable[Block], dialect: str) -> dict[str, Statement]:
    """Choose the statement of each name that a dialect runs; refuse a name that is given twice, or not to each."""
    by_name: dict[str, dict[str, str]] = {}
    for block in all_:
        texts = by_name.setdefault(block.name, {})
        if block.dialect in texts:
            raise ValueError(f"the statement {block.name} is written twice")
        texts[block.dialect] = block.text
    return {name: _statement(_text_of(name, texts, dialect)) for name, texts in by_name.items()}


def _text_of(name: str, texts: dict[str, str], dialect: str) -> str:
    if "postgres only" in texts and len(texts) == 1:
        return texts["postgres only"] if dialect == "postgres" else ""
    text = texts.get(dialect, texts.get(""))
    if text is None or "postgres only" in texts or texts.keys() >= {"", *DIALECTS}:
        raise ValueError(f"the statement {name} is not written for each dialect once: {sorted(texts)}")
    return text


def _statement(text: str) -> Statement:
    sql = bare(text)
    return Statement(sql, not _WRITES.search(sql) or "RETURNING" in sql)


def bare(text: str) -> str:
    """Give a text without its comments."""
    return "\n".join(line for line in text.strip().splitlines() if not line.startswith("--"))
