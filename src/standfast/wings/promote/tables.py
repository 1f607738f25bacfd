"""What a promotion copies from one kind of store to the other: the tables, and how the two differ.

Times are queue time, which differs between the stores: all of them are moved by that difference.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from standfast.store.job_tables import BY_NUMBER, JOB, Jobs, Row, Table, words
from standfast.worker.upkeep import SKEW

JOURNAL = Table("journal", ("seq",), words("at entries"), frozenset({"at"}))
AUDIT = Table("audit", ("seq",), words("at entries previous hash"))
"""Copied unchanged, times included: they are wall time, and hashed."""
WHOLE = (
    Table(
        "queue",
        ("name",),
        words("rules priority max_age max_depth declared_at paused declared overlay"),
        frozenset({"declared_at"}),
    ),
    Table(
        "tally",
        ("queue", "worker"),
        words("claims claimed_at"),
        frozenset({"claimed_at"}),
        source="(SELECT queue, '' AS worker, value AS claims, at AS claimed_at FROM counter"
        " WHERE name = 'claimed' AND at IS NOT NULL)",
    ),
    Table(
        "handler",
        ("queue", "name"),
        words("replay_mode risk timeout declared_at consent when_landed"),
        frozenset({"declared_at"}),
    ),
    Table("handler_card", ("queue", "name"), words("description input_schema effects")),
    Table(
        "message",
        ("id",),
        words("session kind job queue handler at read_at body"),
        frozenset({"at", "read_at"}),
        timed=(("body", "history.at"),),
    ),
    Table(
        "consent",
        ("id",),
        words("session queue handler mode given_by reason granted_at expires_at uses used revoked_at"),
        frozenset(words("granted_at expires_at revoked_at")),
    ),
    Table("consent_use", ("consent", "job"), ("at",), frozenset({"at"})),
    Table(
        "consent_ask",
        ("n",),
        words("job session queue handler first asked_at"),
        frozenset({"asked_at"}),
        numbers=frozenset({"n"}),
    ),
    Table("follower", ("name",), ("seq",)),
    Table("former_letter", ("id",), ("at",), frozenset({"at"})),
    Table(
        "alert",
        ("fingerprint",),
        words("surfaces sample opened_at tell_at number told"),
        frozenset({"opened_at", "tell_at"}),
    ),
    Table(
        "condition",
        ("id",),
        words("kind queue subject message value threshold started_at clear_since ended_at told"),
        frozenset(words("started_at clear_since ended_at")),
    ),
    Table("pain", ("kind", "queue", "subject"), ("at", "job"), frozenset({"at"})),
    Table("sink", ("name",), words("failing_since failed_at why"), frozenset({"failing_since", "failed_at"})),
    Table("timing", ("owner", "part", "queue"), ("counts",), numbers=frozenset({"part"})),
    Table(
        "gate",
        ("key",),
        words("kind holder capacity used opens_at detail"),
        frozenset({"opens_at"}),
        timed=(("detail", "since"), ("detail", "until"), ("detail", "denied_at")),
    ),
    Table("counter", ("queue", "name"), ("value",)),
    Table(
        "upkeep",
        ("name",),
        ("at",),
        frozenset({"at"}),
        # The skew is not a time, and belongs to a clock that stays behind.
        source=f"(SELECT name, at FROM upkeep WHERE name <> '{SKEW}')",  # noqa: S608 - ours
    ),
    Table("chain", ("store",), words("only_one seq hash")),
    Table(
        "policy",
        ("only_one",),
        words("snapshot source text rules published_by published_at problem problem_at"),
        frozenset({"published_at", "problem_at"}),
        numbers=frozenset({"only_one"}),
    ),
    Table(
        "approval",
        ("id",),
        words(
            "n redrive state asked_by reason requesters groups bound rule asked_at expires_at answered_by answered_at"
            " answer"
        ),
        frozenset(words("asked_at expires_at answered_at")),
    ),
    Table(
        "redrive",
        ("id",),
        words(
            "state wanted foreseen snapshot course asked_by reason approval note episode planned_at started_at ended_at"
            " next_at"
        ),
        frozenset(words("planned_at started_at ended_at next_at")),
    ),
    Table(
        "workflow",
        ("id",),
        words("name state first_n last_n total unfinished stopped dropped queues created_at finished_at kept_until"),
        frozenset(words("created_at finished_at kept_until")),
    ),
    Table(
        "redriven",
        ("redrive", "place"),
        words("n token generation fate state outcome episode at"),
        frozenset({"at"}),
        numbers=frozenset({"place"}),
    ),
    Table(
        "schedule",
        ("name",),
        words(
            "queue spec timing added_by anchor next_at next_wall paused last_tick last_job runs coalesced missed"
            " ended_at"
        ),
        frozenset(words("anchor next_at ended_at")),
    ),
    Table(
        "declared_schedule",
        ("name",),
        words("module queues declared_at gone_at"),
        frozenset(words("declared_at gone_at")),
    ),
    Table(
        "tick",
        ("schedule", "tick"),
        words("at job"),
        frozenset({"at"}),
        numbers=frozenset({"tick"}),
    ),
    Table(
        "token",
        ("id",),
        words("name hash person role groups queues created_by created_at expires_at revoked_at sessions created_with"),
        frozenset(words("created_at expires_at revoked_at")),
    ),
    Table("shared_setting", ("name",), words("value published_by published_at"), frozenset({"published_at"})),
)
"""Small tables, copied whole at the end."""

BLOCK = 1000
"""Jobs are copied and compared in blocks of this many numbers."""


def shifted(jobs: Jobs, by: float) -> Jobs:
    """Return jobs with their times moved."""
    return {table.name: table.shifted(jobs[table.name], by) for table in BY_NUMBER}


def digest(rows: Iterable[Row]) -> str:
    """Return the hash of rows, in their order."""
    found = hashlib.sha256()
    for row in rows:
        found.update(msgspec.json.encode(row))
    return found.hexdigest()


Digests = dict[str, tuple[int, str]]
"""The number of jobs in each state, and their hash."""


def by_state(jobs: Jobs) -> Digests:
    """Count and hash jobs by state, each with all its rows."""
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
    """Combine the counts and hashes of blocks, in their order."""
    counts: defaultdict[str, int] = defaultdict(int)
    hashes: defaultdict[str, list[str]] = defaultdict(list)
    for block in blocks:
        for state, (number, hashed) in block.items():
            counts[state] += number
            hashes[state].append(hashed)
    return {state: (counts[state], digest([tuple(hashes[state])])) for state in sorted(counts)}
