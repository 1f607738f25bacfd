"""Named SQL, in one file for the spine and one for each wing. What both dialects share is written once.

    -- name: take_keys                     a statement, for each dialect that has none of its own
    -- name: take_keys (postgres)          PostgreSQL's own
    -- name: lock_gates (postgres only)    SQLite does nothing, and returns no rows

Several statements may share a part, which is written once, before the first name in its file:

    -- part: letter_filter                 `:part(letter_filter)` stands for this text, in any file
    -- part: letter_label (postgres)       PostgreSQL's own; a part exists for both dialects, and holds no other

A statement ends where the next one begins. Lines that begin with `--` are comments, except for these, which follow
the name directly and are written once for all dialects:

    -- locks: jobs        which of RANKS its locks belong to: whatever writes or locks must say so to be loaded
    -- waits: no          it takes those locks that are free, and skips the others
    -- answers: none      no script uses its answer, so there is no need to wait for PostgreSQL's
    -- remembered: yes    what it reads changes only by statements that say so; SQLite's writer reads it once
    -- changes: rules     remembered answers are read again
    -- assumes: same      its answer is nearly always the same: there is no wait for PostgreSQL, which checks it
    -- assumes: all       likewise, it nearly always writes all the rows, or moves all the numbers, that it is given

`dialects.py` explains how a statement is written for both, `columns.py` how `:columns(…)` are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from standfast.store import columns
from standfast.store.columns import Columns, expand
from standfast.store.dialects import TRANSLATED, over_span

DIALECTS = tuple(TRANSLATED)
FILE = "statements.sql"

RANKS = (
    *("upkeep", "schedules"),
    *("gates", "queues", "keys", "jobs", "aliases"),
    *("approvals", "policy", "redrives", "consent", "workflows"),
    *("messages", "journal", "followers", "alerts", "workers", "tokens"),
    *("limits", "chain"),
)
"""The order in which a transaction takes locks, so that no two wait for each other. The tests check it."""
UNRANKED = "none"
"""For statements that write only rows for which no other transaction waits: they are new, or its own."""

SAYINGS = {
    "locks": {*RANKS, UNRANKED},
    "waits": {"no"},
    "answers": {"none"},
    "remembered": {"yes"},
    "changes": {"rules"},
    "assumes": {"same", "all"},
}
WAYS: tuple[set[str], ...] = ({""}, {"", "postgres"}, {"", "sqlite"}, {"sqlite", "postgres"}, {"postgres only"})
"""The sets of dialects that a statement may be written for."""
PART_WAYS = WAYS[:-1]
"""The sets of dialects that a part may be written for: a filter that SQLite left out would choose more rows there."""

_OPENING = "\n-- name: "
_PART_OPENING = "\n-- part: "
_MISPLACED = re.compile(r"\n-- (?:name|(?:part|columns):)")
_PART = re.compile(r":part\((\w+)\)")
_NAME = re.compile(r"(\w+)(?: \((sqlite|postgres|postgres only)\))?")
_SAID = re.compile(r"-- ([a-z]+): (.*)")
_WRITES = re.compile(r"^(INSERT|UPDATE|DELETE)\b", re.MULTILINE)
_LOCKING = ("INSERT INTO", "UPDATE", "DELETE FROM", "FOR SHARE", "LOCK TABLE", "advisory_xact_lock")


class Statement(msgspec.Struct, frozen=True):
    """One statement in a dialect. If `gives_rows` is false, it is a write that returns the number of rows instead."""

    sql: str
    gives_rows: bool
    rank: str = UNRANKED
    waits: bool = True
    answers: bool = True
    remembered: bool = False
    changes_rules: bool = False
    assumes: str | None = None
    spanned: str = ""
    """SQLite only: its text for an array of numbers without gaps, which is passed as the first and the last."""

    def for_rows(self, rows: int, width: int) -> str:
        """Write the statement out for a batch of `rows` rows."""
        return _for_rows(self.sql, rows, width)


@cache
def _for_rows(sql: str, rows: int, width: int) -> str:
    row = "(" + ",".join("?" * width) + ")"
    return sql.replace(":rows", ",".join([row] * rows))


class StatementSource(NamedTuple):
    """A statement as in its file: a text for each dialect, or one for those without their own, and its options."""

    texts: dict[str, str]
    says: dict[str, str]

    def in_dialect(self, dialect: str, known: dict[str, Columns]) -> Statement:
        """Return it as a dialect runs it."""
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
            spanned=over_span(expand(text, known, dialect)) if dialect == "sqlite" else "",
        )


class Collection(NamedTuple):
    """The contents of one or more files of statements, by name."""

    statements: dict[str, StatementSource]
    columns: dict[str, Columns]
    parts: dict[str, dict[str, str]]

    def in_dialect(self, dialect: str) -> dict[str, Statement]:
        """Return the statements as a dialect runs them."""
        return {name: each.in_dialect(dialect, self.columns) for name, each in self.statements.items()}


def load(dialect: str) -> dict[str, Statement]:
    """Return every statement of a dialect, by name."""
    return _collected().in_dialect(dialect)


class OnDemand(dict[str, Statement]):
    """The statements of a dialect, each loaded on first use: no process uses all of them."""

    def __init__(self, dialect: str) -> None:
        super().__init__()
        self._dialect = dialect

    def __missing__(self, name: str) -> Statement:
        """Load a statement."""
        collected = _collected()
        found = self[name] = collected.statements[name].in_dialect(self._dialect, collected.columns)
        return found


def on_demand(dialect: str) -> dict[str, Statement]:
    """Return the statements of a dialect, each loaded when it is asked for; `load` lists them all."""
    return OnDemand(dialect)


@cache
def _collected() -> Collection:
    return collect(*_texts())


def _texts() -> Iterator[str]:
    package = Path(__file__).parents[1]
    wings = sorted((package / "wings").iterdir(), key=lambda wing: wing.name)
    for folder in (package / "spine", *wings):
        file = folder / FILE
        if file.is_file():
            yield file.read_text(encoding="utf-8")


def collect(*texts: str) -> Collection:
    """Parse files of statements; refuse what would be loaded differently from what its author meant."""
    found = Collection({}, {}, {})
    for text in texts:
        before, *parts = f"\n{text}".split(_OPENING)
        before, *shared = before.split(_PART_OPENING)
        before, *lists = before.split(columns.OPENING)
        if _bare(before.splitlines()):
            raise ValueError(f"this stands before the first `-- name:` of its file: {before.strip()}")
        for part in lists:
            columns.read(found.columns, part)
        for part in shared:
            _add_part(found.parts, part)
        for part in parts:
            _add(found.statements, part)
    for name, written in found.parts.items():
        _check_dialects(f"the part {name}", written, PART_WAYS)
    for name, each in found.statements.items():
        _check_dialects(f"the statement {name}", each.texts, WAYS)
        _include(name, each.texts, found.parts)
        _check_options(name, each)
    return found


def _add_part(found: dict[str, dict[str, str]], part: str) -> None:
    name, dialect, lines = _opened("part", part)
    texts = found.setdefault(name, {})
    if dialect in texts:
        raise ValueError(f"the part {name} is written twice")
    text = texts[dialect] = _bare(lines)
    if not text:
        raise ValueError(f"the part {name} is empty")
    if _PART.search(text):
        raise ValueError(f"the part {name} has a part of its own: write that out")


def _include(name: str, texts: dict[str, str], parts: dict[str, dict[str, str]]) -> None:
    """Insert the parts into a statement; from then on each dialect has its own text."""
    if not any(map(_PART.search, texts.values())):
        return
    if "" in texts:
        shared = texts.pop("")
        texts.update({dialect: shared for dialect in DIALECTS if dialect not in texts})
    for dialect, text in texts.items():
        texts[dialect] = _PART.sub(lambda found: _part(name, parts, found[1], dialect), text)  # noqa: B023 - used at once


def _part(name: str, parts: dict[str, dict[str, str]], wanted: str, dialect: str) -> str:
    if wanted not in parts:
        raise ValueError(f"the statement {name} has a part that is not there: {wanted}")
    texts = parts[wanted]
    return texts[dialect] if dialect in texts else texts[""]


def _add(found: dict[str, StatementSource], part: str) -> None:
    name, dialect, lines = _opened("name", part)
    texts, says = found.setdefault(name, StatementSource({}, {}))
    if dialect in texts:
        raise ValueError(f"the statement {name} is written twice")
    texts[dialect] = _bare(lines)
    for line in lines:
        match = _SAID.fullmatch(line)
        if match is None:
            break
        if match[1] in says:
            raise ValueError(f"the statement {name} says twice what it {match[1]}")
        says[match[1]] = match[2]


def _opened(kind: str, part: str) -> tuple[str, str, list[str]]:
    """Parse a header into its name, its dialect, and the lines below it."""
    if _MISPLACED.search(part):
        raise ValueError(f"unknown header: {part.strip()}")
    lines = part.strip().splitlines()
    header = _NAME.fullmatch(lines[0])
    if header is None:
        raise ValueError(f"unknown header `-- {kind}: {lines[0]}`")
    return header[1], header[2] or "", lines[1:]


def _check_dialects(what: str, texts: dict[str, str], ways: tuple[set[str], ...]) -> None:
    if texts.keys() not in ways:
        raise ValueError(f"{what} is not written for each dialect once: {sorted(texts)}")
    if "postgres only" in texts:
        texts["postgres"] = texts.pop("postgres only")


def _check_options(name: str, each: StatementSource) -> None:
    texts, says = each
    wrong = [f"-- {key}: {value}" for key, value in says.items() if value not in SAYINGS.get(key, ())]
    if wrong:
        raise ValueError(f"the statement {name} has an unknown option: {wrong}")
    if "locks" not in says and any(word in text for text in texts.values() for word in _LOCKING):
        raise ValueError(f"the statement {name} locks or writes, and does not say what it `-- locks:`")


def _bare(lines: list[str]) -> str:
    """Return a text without its comments."""
    return "\n".join(line for line in lines if not line.startswith("--")).strip()
