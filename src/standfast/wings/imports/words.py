"""Imports as values: a record of another store, what it means here, and its outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import msgspec

from standfast.errors import StandfastError


class Meaning(StrEnum):
    """What a record's state means here."""

    QUEUED = "queued"
    IN_DOUBT = "in_doubt"
    """An old worker was running it when the old store was left: its effect may exist."""
    DEAD = "dead"
    FINISHED = "finished"


Outcome = Literal[
    "queued", "tried", "in_doubt", "dead", "completed", "coalesced", "finished", "known", "duplicate", "rejected"
]
"""The outcome of a record. `tried`: queued, after attempts in the old store. `finished`: left out, because it is done.

`known`: an earlier import brought it. `duplicate`: a job here has its idempotency key.
"""


class Unreadable(StandfastError):
    """A record that cannot become a job. It is rejected, and the import goes on."""


class Record(NamedTuple):
    """One record of another store."""

    number: int
    """Its line, row or place, from 1."""
    name: str
    """Its place as a person reads it: `line 7`, `op_12.json`."""
    value: dict[str, Any]
    raw: str
    """The record as text, for the file of rejects."""
    own_id: str | None = None
    """The id it has in its store, if that is not one of its fields."""
    content: str | None = None
    """Its text, if only its text and its place among equal records identify it."""


class BadRecord(NamedTuple):
    """Something that is not a record, and why."""

    number: int
    name: str
    raw: str
    why: str


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where records come from."""

    kind: Literal["jsonl", "sqlite", "ops", "redis"]
    name: str
    """Identifies this source among others of its kind, if its records' ids do not: a path, or a server and its list."""
    shown: str
    """Its name for people."""
    read: Callable[[], Iterator[Record | BadRecord]]
    """Reads it from the beginning. This blocks."""
    count: Callable[[], int | None]
    """Counts its records, for the progress bar; None if that is unknown. This blocks."""
    rejects: str
    """The file for records that cannot be brought in."""
    may_contradict: bool = False
    """Whether several records may share an id and differ, like lines of a log; the source is then read twice."""
    table: str = ""
    """The name of a part of the source, if ids are unique only within that part."""


class Rejected(NamedTuple):
    """A record that was not brought in, and why."""

    name: str
    why: str


class Report(msgspec.Struct):
    """What an import did, or would do."""

    source: str
    dry_run: bool = False
    records: int = 0
    queues: dict[str, Counter[str]] = {}
    """How many records, by queue and outcome."""
    rejected: int = 0
    first_rejected: list[Rejected] = []
    rejects_file: str | None = None

    def add(self, queue: str, outcome: Outcome) -> None:
        """Count one record."""
        self.queues.setdefault(queue, Counter())[outcome] += 1

    @property
    def outcomes(self) -> Counter[str]:
        """How many of each outcome, over all queues."""
        return sum(self.queues.values(), Counter({"rejected": self.rejected} if self.rejected else {}))


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How records are read, and which of them are brought in."""

    fields: Mapping[str, str] = {}
    """For each field of a job, where a record has it: see `--map`."""
    states: Mapping[str, str] = {}
    """The meaning of words that are not known: queued, in_doubt, dead or finished."""
    queue: str | None = None
    """The queue of records that name none."""
    source: str | None = None
    """A name for the source, if its path does not identify it. Another name brings every record in again."""
    finished: bool = False
    """Whether finished records come in as completed jobs; otherwise they are counted and left out."""
    tried_are_letters: bool = False
    """Whether a record that was tried before becomes a letter, instead of running again."""
    rejects: str | None = None
    """The file for rejected records; by default it is next to the source."""
    dry_run: bool = False
