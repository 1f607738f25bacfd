"""Named SQL, in a file for the spine and one for each wing. What both dialects share is written once.

    -- name: take_keys                     a statement, of each dialect that has none of its own
    -- name: take_keys (postgres)          PostgreSQL's own
    -- name: lock_gates (postgres only)    SQLite does nothing here, and answers with no rows

Several statements may share a part, which stands before the first name of its file, and is written once as well:

    -- part: letter_filter                 `:part(letter_filter)` stands for this text, in any file
    -- part: letter_label (postgres)       PostgreSQL's own; a part is there for both dialects, and holds no other part

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
PART_WAYS = WAYS[:-1]
"""For which dialects a part may be: a filter that SQLite left out would choose more rows there."""

_OPENING = "\n-- name: "
_PART_OPENING = "\n-- part: "
_MISPLACED = re.compile(r"\n-- (?:name|(?:part|columns):)")
_PART = re.compile(r":part\((\w+)\)")
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
    spanned: str = ""
    """Its text for an array of numbers without gaps, which crosses as the first and the last; SQLite's alone."""

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
            spanned=over_span(expand(text, known, dialect)) if dialect == "sqlite" else "",
        )


class Collection(NamedTuple):
    """All that stands in some files of statements, by name."""

    statements: dict[str, StatementSource]
    columns: dict[str, Columns]
    parts: dict[str, dict[str, str]]

    def in_dialect(self, dialect: str) -> dict[str, Statement]:
        """Give the statements as a dialect runs them."""
        return {name: each.in_dialect(dialect, self.columns) for name, each in self.statements.items()}


def load(dialect: str) -> dict[str, Statement]:
    """Give every statement of a dialect, by name."""
    return _collected().in_dialect(dialect)


class OnDemand(dict[str, Statement]):
    """The statements of a dialect, each from its first use on: no process uses all of them."""

    def __init__(self, dialect: str) -> None:
        super().__init__()
        self._dialect = dialect

    def __missing__(self, name: str) -> Statement:
        """Load a statement."""
        collected = _collected()
        found = self[name] = collected.statements[name].in_dialect(self._dialect, collected.columns)
        return found


def on_demand(dialect: str) -> dict[str, Statement]:
    """Give the statements of a dialect by name, to be asked for one by one; what lists them all asks `load`."""
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
    """Take files of statements apart; refuse what would be loaded otherwise than its writer thought."""
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
    """Write the parts of a statement out; from then on each dialect has a text of its own."""
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
    """Take a header apart: the name, the dialect it is written for, and the lines below it."""
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
    """Give a text without its comments."""
    return "\n".join(line for line in lines if not line.startswith("--")).strip()
