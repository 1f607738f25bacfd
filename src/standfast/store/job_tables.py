"""The tables that make up jobs and keys, the same in every engine: a promotion copies them from one to the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

Row = tuple[Any, ...]
Rows = list[Row]


class Table(NamedTuple):
    """A table as both stores have it. `times` are time columns; `timed` are JSON columns and the path of a time inside.

    A path such as `history.at` leads into nested fields; for a list it applies to each item. `source` is what SQLite
    reads the table from, if the name differs there.
    """

    name: str
    key: tuple[str, ...]
    rest: tuple[str, ...]
    times: frozenset[str] = frozenset()
    timed: tuple[tuple[str, str], ...] = ()
    source: str = ""
    numbers: frozenset[str] = frozenset()
    """The key columns that are numbers; the others are text, sorted by its bytes."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column, in the order of a row."""
        return self.key + self.rest

    @property
    def select(self) -> str:
        """The beginning of a query that reads rows of this table."""
        return f"SELECT {', '.join(self.columns)} FROM"

    def shifted(self, rows: Iterable[Row], by: float) -> Rows:
        """Return the rows with their times shifted."""
        times = [place for place, column in enumerate(self.columns) if column in self.times]
        timed = [(self.columns.index(column), path.split(".")) for column, path in self.timed]
        return [self._shift(list(row), times, timed, by) for row in rows]

    @staticmethod
    def _shift(row: list[Any], times: list[int], timed: list[tuple[int, list[str]]], by: float) -> Row:
        for place in times:
            if row[place] is not None:
                row[place] += by
        for place, path in timed:
            if row[place]:
                value = msgspec.json.decode(row[place])
                moved = _shifted_inside(value, path, by)
                row[place] = row[place] if moved == value else msgspec.json.encode(moved).decode()
        return tuple(row)


def _shifted_inside(value: Any, path: Sequence[str], by: float) -> Any:
    """Return a value with the time at a path shifted, in each item of a list. A value without one is unchanged."""
    if not path:
        return value + by
    if isinstance(value, list):
        return [_shifted_inside(each, path, by) for each in value]
    field, *rest = path
    if value.get(field) is None:
        return value
    return value | {field: _shifted_inside(value[field], rest, by)}


def words(text: str) -> tuple[str, ...]:
    """Split names that are separated by spaces."""
    return tuple(text.split())


BODY = Table(
    "body",
    ("n",),
    words(
        "id payload idempotency_key details created_at first_seen_at thread_key generation workflow coalesced"
        " step parents children"
    ),
    frozenset({"created_at", "first_seen_at"}),
)
JOB = Table(
    "job",
    ("n",),
    words(
        "queue handler priority state ready_at due_at entered_at attempts round_start budget max_attempts deferrals"
        " token worker claimed_at asked_lease lease timeout replay_mode asked_expiry expires_at finished_at cancelling"
        " landed thread_gate parked_on occupies pending progress_start failed_looks suspect"
    ),
    frozenset(words("ready_at due_at entered_at claimed_at asked_expiry expires_at finished_at")),
)
ENDING = Table(
    "ending",
    ("n",),
    words(
        "result warning failure triage fingerprint superseded_by policy_snapshot replays replay_at refused_under"
        " refused_at"
    ),
    frozenset({"replay_at", "refused_at"}),
    timed=(("triage", "replay_at"),),
)
HISTORY = Table("history", ("n", "line"), ("entry",), timed=(("entry", "at"),))
EFFECT = Table("effect", ("n", "name"), words("state receipt verdict token at late attempt done_in"), frozenset({"at"}))
TRACEBACK = Table("traceback", ("n",), words("attempt text"))
LOOK = Table("look", ("n", "line"), words("name verdict receipt at attempt"), frozenset({"at"}))
PROGRESS = Table("job_progress", ("n",), words("token attempt fraction note at"), frozenset({"at"}))
BY_NUMBER = (JOB, BODY, ENDING, HISTORY, EFFECT, TRACEBACK, LOOK, PROGRESS)
"""The tables that make up a job."""

KEYS = Table("idempotency", ("queue", "key"), words("id fingerprint until"), frozenset({"until"}))

Jobs = dict[str, Rows]
"""Rows of the tables that make up jobs, by table name."""
