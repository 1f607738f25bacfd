"""What a promotion copies from one kind of store to the other: the tables, and what differs between the two.

Times are queue time, which is another one in each store: all are moved by the difference between the two.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.worker.upkeep import SKEW

Row = tuple[Any, ...]
Rows = list[Row]


class Table(NamedTuple):
    """A table as both stores have it. `times` are columns, `timed` columns of JSON text with the field that is a time.

    A field inside others has a path, such as `history.at`: each of a list is meant. `source` is what it is read from,
    where SQLite has it elsewhere.
    """

    name: str
    key: tuple[str, ...]
    rest: tuple[str, ...]
    times: frozenset[str] = frozenset()
    timed: tuple[tuple[str, str], ...] = ()
    source: str = ""
    numbers: frozenset[str] = frozenset()
    """The columns of the key that are numbers; the others are text, in the order of its bytes."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column, in the order of a row."""
        return self.key + self.rest

    @property
    def select(self) -> str:
        """The beginning of a query that reads rows."""
        return f"SELECT {', '.join(self.columns)} FROM"

    def shifted(self, rows: Iterable[Row], by: float) -> Rows:
        """Give the rows with their times moved."""
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
    """Give a value with the time at a path in it moved, in each item of a list; without one it stays as it is."""
    if not path:
        return value + by
    if isinstance(value, list):
        return [_shifted_inside(each, path, by) for each in value]
    field, *rest = path
    if value.get(field) is None:
        return value
    return value | {field: _shifted_inside(value[field], rest, by)}


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


BODY = Table(
    "body",
    ("n",),
    _words(
        "id payload idempotency_key details created_at first_seen_at thread_key generation workflow coalesced"
        " step parents children"
    ),
    frozenset({"created_at", "first_seen_at"}),
)
JOB = Table(
    "job",
    ("n",),
    _words(
        "queue handler priority state ready_at due_at entered_at attempts round_start budget max_attempts deferrals"
        " token worker claimed_at asked_lease lease timeout replay_mode asked_expiry expires_at finished_at cancelling"
        " landed thread_gate parked_on occupies pending progress_start failed_looks suspect"
    ),
    frozenset(_words("ready_at due_at entered_at claimed_at asked_expiry expires_at finished_at")),
)
ENDING = Table(
    "ending",
    ("n",),
    _words(
        "result warning failure triage fingerprint superseded_by policy_snapshot replays replay_at refused_under"
        " refused_at"
    ),
    frozenset({"replay_at", "refused_at"}),
    timed=(("triage", "replay_at"),),
)
HISTORY = Table("history", ("n", "line"), ("entry",), timed=(("entry", "at"),))
EFFECT = Table(
    "effect", ("n", "name"), _words("state receipt verdict token at late attempt done_in"), frozenset({"at"})
)
BY_NUMBER = (JOB, BODY, ENDING, HISTORY, EFFECT)
"""The tables that make up a job."""

KEYS = Table("idempotency", ("queue", "key"), _words("id fingerprint until"), frozenset({"until"}))
JOURNAL = Table("journal", ("seq",), _words("at entries"), frozenset({"at"}))
AUDIT = Table("audit", ("seq",), _words("at entries previous hash"))
"""Copied letter by letter, times included: they are wall time, and hashed."""
WHOLE = (
    Table(
        "queue",
        ("name",),
        _words("rules priority max_age max_depth declared_at paused declared overlay"),
        frozenset({"declared_at"}),
    ),
    Table(
        "tally",
        ("queue", "worker"),
        _words("claims claimed_at"),
        frozenset({"claimed_at"}),
        source="(SELECT name AS queue, '' AS worker, claims, claimed_at FROM queue WHERE claimed_at IS NOT NULL)",
    ),
    Table(
        "handler",
        ("queue", "name"),
        _words("replay_mode risk timeout declared_at consent when_landed"),
        frozenset({"declared_at"}),
    ),
    Table(
        "message",
        ("id",),
        _words("session kind job queue handler at read_at body"),
        frozenset({"at", "read_at"}),
        timed=(("body", "history.at"),),
    ),
    Table(
        "consent",
        ("id",),
        _words("session queue handler mode given_by reason granted_at expires_at uses used revoked_at"),
        frozenset(_words("granted_at expires_at revoked_at")),
    ),
    Table("consent_use", ("consent", "job"), ("at",), frozenset({"at"})),
    Table(
        "consent_ask",
        ("n",),
        _words("job session queue handler first asked_at"),
        frozenset({"asked_at"}),
        numbers=frozenset({"n"}),
    ),
    Table("follower", ("name",), ("seq",)),
    Table("former_letter", ("id",), ("at",), frozenset({"at"})),
    Table(
        "alert",
        ("fingerprint",),
        _words("surfaces sample opened_at tell_at number told"),
        frozenset({"opened_at", "tell_at"}),
    ),
    Table(
        "condition",
        ("id",),
        _words("kind queue subject message value threshold started_at clear_since ended_at told"),
        frozenset(_words("started_at clear_since ended_at")),
    ),
    Table("pain", ("kind", "queue", "subject"), ("at", "job"), frozenset({"at"})),
    Table("sink", ("name",), _words("failing_since failed_at why"), frozenset({"failing_since", "failed_at"})),
    Table("timing", ("owner", "part", "queue"), ("counts",), numbers=frozenset({"part"})),
    Table(
        "gate",
        ("key",),
        _words("kind holder capacity used opens_at detail"),
        frozenset({"opens_at"}),
        timed=(("detail", "since"), ("detail", "until"), ("detail", "denied_at")),
    ),
    Table("counter", ("queue", "name"), ("value",)),
    Table(
        "upkeep",
        ("name",),
        ("at",),
        frozenset({"at"}),
        # The skew is no time, and that of a clock which stays behind.
        source=f"(SELECT name, at FROM upkeep WHERE name <> '{SKEW}')",  # noqa: S608 - ours
    ),
    Table("chain", ("store",), _words("only_one seq hash")),
    Table(
        "policy",
        ("only_one",),
        _words("snapshot source text rules published_by published_at problem problem_at"),
        frozenset({"published_at", "problem_at"}),
        numbers=frozenset({"only_one"}),
    ),
    Table(
        "approval",
        ("id",),
        _words(
            "n redrive state asked_by reason requesters groups bound rule asked_at expires_at answered_by answered_at"
            " answer"
        ),
        frozenset(_words("asked_at expires_at answered_at")),
    ),
    Table(
        "redrive",
        ("id",),
        _words(
            "state wanted foreseen snapshot course asked_by reason approval note episode planned_at started_at ended_at"
            " next_at"
        ),
        frozenset(_words("planned_at started_at ended_at next_at")),
    ),
    Table(
        "workflow",
        ("id",),
        _words("name state first_n last_n total unfinished stopped dropped queues created_at finished_at kept_until"),
        frozenset(_words("created_at finished_at kept_until")),
    ),
    Table(
        "redriven",
        ("redrive", "place"),
        _words("n token generation fate state outcome episode at"),
        frozenset({"at"}),
        numbers=frozenset({"place"}),
    ),
    Table(
        "schedule",
        ("name",),
        _words(
            "queue spec timing added_by anchor next_at next_wall paused last_tick last_job runs coalesced missed"
            " ended_at"
        ),
        frozenset(_words("anchor next_at ended_at")),
    ),
    Table(
        "tick",
        ("schedule", "tick"),
        _words("at job"),
        frozenset({"at"}),
        numbers=frozenset({"tick"}),
    ),
    Table(
        "token",
        ("id",),
        _words("name hash person role groups queues created_by created_at expires_at revoked_at sessions created_with"),
        frozenset(_words("created_at expires_at revoked_at")),
    ),
    Table("shared_setting", ("name",), _words("value published_by published_at"), frozenset({"published_at"})),
)
"""Small tables, copied whole at the end."""

Jobs = dict[str, Rows]
"""Rows of the tables that make up jobs, by the table's name."""

BLOCK = 1000
"""Jobs are copied and compared in blocks of so many numbers."""


def shifted(jobs: Jobs, by: float) -> Jobs:
    """Give jobs with their times moved."""
    return {table.name: table.shifted(jobs[table.name], by) for table in BY_NUMBER}


def digest(rows: Iterable[Row]) -> str:
    """Give the hash of rows, in their order."""
    found = hashlib.sha256()
    for row in rows:
        found.update(msgspec.json.encode(row))
    return found.hexdigest()


Digests = dict[str, tuple[int, str]]
"""The number of jobs in each state, and their hash."""


def by_state(jobs: Jobs) -> Digests:
    """Count and hash jobs, each with everything it is made of, by state."""
    state = JOB.columns.index("state")
    parts: defaultdict[int, list[Any]] = defaultdict(list)
    for table in BY_NUMBER:
        for row in jobs[table.name]:
            parts[row[0]].append((table.name, *row))
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for n in sorted(parts):
        of_job = parts[n][0]
        found[of_job[state + 1] if of_job[0] == "job" else "without a job"].append(tuple(parts[n]))
    return {name: (len(theirs), digest(theirs)) for name, theirs in found.items()}


def summed(blocks: Iterable[Digests]) -> Digests:
    """Put the counts and hashes of blocks together, in their order."""
    counts: defaultdict[str, int] = defaultdict(int)
    hashes: defaultdict[str, list[str]] = defaultdict(list)
    for block in blocks:
        for state, (number, hashed) in block.items():
            counts[state] += number
            hashes[state].append(hashed)
    return {state: (counts[state], digest([tuple(hashes[state])])) for state in sorted(counts)}
