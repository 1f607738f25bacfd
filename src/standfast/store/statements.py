"""Named SQL, in a file for the spine and one for each wing. What both dialects share is written once.

    -- name: take_keys                     a statement, of each dialect that has none of its own
    -- name: take_keys (postgres)          PostgreSQL's own
    -- name: lock_gates (postgres only)    SQLite does nothing here, and answers with no rows

A statement ends where the next one begins. Lines that begin with `--` are comments, but for these, which stand
right after the name and are said once for all dialects:

    -- locks: jobs        which of RANKS its locks belong to: whatever writes or locks says so, or is not loaded
    -- waits: no          it takes those of the locks that are free, and leaves the others alone
    -- answers: none      no script uses what it answers, so PostgreSQL is not asked to wait for that
    -- remembered: yes    what it reads changes only with statements that say so; SQLite's writer asks once
    -- changes: rules     what is remembered is read again
    -- assumes: same      it nearly always answers as before: PostgreSQL is not waited for, and checks that it is so
    -- assumes: all       likewise, it nearly always writes all the rows, or moves all the numbers, that it is given

`dialects.py` says how a statement is written for both, `columns.py` how `:columns(…)` are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec

from standfast.store import columns
from standfast.store.columns import Columns, expand
from standfast.store.dialects import TRANSLATED

DIALECTS = tuple(TRANSLATED)
FILE = "statements.sql"

RANKS = (
    *("upkeep", "schedules"),
    *("gates", "queues", "keys", "jobs", "aliases"),
    *("approvals", "policy", "redrives", "consent", "workflows"),
    *("messages", "journal", "workers", "followers", "alerts", "tokens"),
    *("limits", "chain"),
)
"""The order in which a transaction locks, so that none waits for one that waits for it; the tests check it."""
UNRANKED = "none"
"""Said by what writes rows that no other transaction waits for: they are new, or its own."""

SAYINGS = {
    "locks": {*RANKS, UNRANKED},
    "waits": {"no"},
    "answers": {"none"},
    "remembered": {"yes"},
    "changes": {"rules"},
    "assumes": {"same", "all"},
}
WAYS: tuple[set[str], ...] = ({""}, {"", "postgres"}, {"", "sqlite"}, {"sqlite", "postgres"}, {"postgres only"})
"""For which dialects a statement may be written."""

_OPENING = "\n-- name: "
_NAME = re.compile(r"(\w+)(?: \((sqlite|postgres|postgres only)\))?")
_SAID = re.compile(r"-- ([a-z]+): (.*)")
_WRITES = re.compile(r"^(INSERT|UPDATE|DELETE)\b", re.MULTILINE)
_LOCKING = ("INSERT INTO", "UPDATE", "DELETE FROM", "FOR SHARE", "LOCK TABLE", "advisory_xact_lock")


class Statement(msgspec.Struct, frozen=True):
    """One statement of a dialect. `gives_rows` is false for a write that returns none: it answers with their number."""

    sql: str
    gives_rows: bool
    rank: str = UNRANKED
    waits: bool = True
    answers: bool = True
    remembered: bool = False
    changes_rules: bool = False
    assumes: str | None = None

    def for_rows(self, rows: int, width: int) -> str:
        """Write the statement out for a batch of so many rows."""
        return _for_rows(self.sql, rows, width)


@cache
def _for_rows(sql: str, rows: int, width: int) -> str:
    row = "(" + ",".join("?" * width) + ")"
    return sql.replace(":rows", ",".join([row] * rows))


class StatementSource(NamedTuple):
    """A statement as its file has it: its text for each dialect, or for those without their own, and what it says."""

    texts: dict[str, str]
    says: dict[str, str]

    def in_dialect(self, dialect: str, known: dict[str, Columns]) -> Statement:
        """Give it as a dialect runs it."""
        text = self.texts.get(dialect, self.texts.get("", ""))
        sql = TRANSLATED[dialect](expand(text, known, dialect))
        return Statement(
            sql,
            gives_rows=not _WRITES.search(sql) or "RETURNING" in sql,
            rank=self.says.get("locks", UNRANKED),
            waits="waits" not in self.says,
            answers="answers" not in self.says,
            remembered="remembered" in self.says,
            changes_rules="changes" in self.says,
            assumes=self.says.get("assumes"),
        )


class Collection(NamedTuple):
    """All that stands in some files of statements, by name."""

    statements: dict[str, StatementSource]
    columns: dict[str, Columns]

    def in_dialect(self, dialect: str) -> dict[str, Statement]:
        """Give the statements as a dialect runs them."""
        return {name: each.in_dialect(dialect, self.columns) for name, each in self.statements.items()}


def load(dialect: str) -> dict[str, Statement]:
    """Give every statement of a dialect, by name."""
    return _collected().in_dialect(dialect)


@cache
def _collected() -> Collection:
    return collect(*_texts())


def _texts() -> Iterator[str]:
    package = files("standfast")
    wings = sorted((package / "wings").iterdir(), key=lambda wing: wing.name)
    for folder in (package / "spine", *wings):
        file = folder / FILE
        if file.is_file():
            yield file.read_text(encoding="utf-8")


def collect(*texts: str) -> Collection:
    """Take files of statements apart; refuse what would be loaded otherwise than its writer thought."""
    found = Collection({}, {})
    for text in texts:
        before, *parts = f"\n{text}".split(_OPENING)
        before, *lists = before.split(columns.OPENING)
        if _bare(before.splitlines()):
            raise ValueError(f"this stands before the first `-- name:` of its file: {before.strip()}")
        for part in lists:
            columns.read(found.columns, part)
        for part in parts:
            _add(found.statements, part)
    for name, each in found.statements.items():
        _check(name, each)
    return found


def _add(found: dict[str, StatementSource], part: str) -> None:
    if "\n-- name" in part or columns.OPENING in part:
        raise ValueError(f"unknown header: {part.strip()}")
    lines = part.strip().splitlines()
    header = _NAME.fullmatch(lines[0])
    if header is None:
        raise ValueError(f"unknown header `-- name: {lines[0]}`")
    name, dialect = header[1], header[2] or ""
    texts, says = found.setdefault(name, StatementSource({}, {}))
    if dialect in texts:
        raise ValueError(f"the statement {name} is written twice")
    texts[dialect] = _bare(lines[1:])
    for line in lines[1:]:
        match = _SAID.fullmatch(line)
        if match is None:
            break
        if match[1] in says:
            raise ValueError(f"the statement {name} says twice what it {match[1]}")
        says[match[1]] = match[2]


def _check(name: str, each: StatementSource) -> None:
    texts, says = each
    if texts.keys() not in WAYS:
        raise ValueError(f"the statement {name} is not written for each dialect once: {sorted(texts)}")
    if "postgres only" in texts:
        texts["postgres"] = texts.pop("postgres only")
    wrong = [f"-- {key}: {value}" for key, value in says.items() if value not in SAYINGS.get(key, ())]
    if wrong:
        raise ValueError(f"the statement {name} has an unknown option: {wrong}")
    if "locks" not in says and any(word in text for text in texts.values() for word in _LOCKING):
        raise ValueError(f"the statement {name} locks or writes, and does not say what it `-- locks:`")


def _bare(lines: list[str]) -> str:
    """Give a text without its comments."""
    return "\n".join(line for line in lines if not line.startswith("--")).strip()
