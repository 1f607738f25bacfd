"""Notices: what was committed, told in commit order, from every process, resumable by number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from standfast.approval import TOLD as APPROVALS
from standfast.errors import ConfigurationError
from standfast.store.reads import JournalRow
from standfast.store.store import Store
from standfast.workflow import STARTED, TOLD, WORKFLOW

SCHEDULE = "schedule_"
"""What the notices about schedules begin with; they name the schedule, not a job."""
REDRIVE = "redrive_"
"""What the notices about redrives begin with; they name the redrive, not a job."""
REGISTRY = "registry_"
"""What the notices about handlers begin with, which a probe disabled or brought back; they name the handler."""
KINDS = (
    *("enqueued", "coalesced", "claimed", "completed", "retry", "snoozed", "given_back", "dead_letter", "held"),
    *("released", "replayed", "resolved", "cancelled", "cancel_asked", "hurried", "paused", "resumed"),
    *("discarded", "quarantined", "amended", "purged", "evicted", "imported"),
    *("depth_warning", "depth_normal", "gap"),
    *("breaker_opened", "breaker_closed", "gate_closed", "gate_broken", "gate_opened"),
    *(f"{REGISTRY}{word}" for word in ("disabled", "auto_recovered")),
    *("policy_changed", "policy_broken", "replay_denied", "gave_up", "inbox"),
    *("consent_asked", "consent_given", "consent_denied", "consent_revoked"),
    *APPROVALS.values(),
    *(f"{REDRIVE}{word}" for word in ("started", "approval_required", "paused", "resumed", "cancelled")),
    *(f"{REDRIVE}{word}" for word in ("halted", "finished")),
    *(STARTED, *TOLD.values()),
    *(f"{SCHEDULE}{word}" for word in ("added", "changed", "removed", "paused", "resumed", "missed", "ended")),
)
ABOUT = {REDRIVE: "redrive", SCHEDULE: "schedule", WORKFLOW: "workflow", REGISTRY: "handler"}
"""What notices are about that name no job, by how they begin."""
ROWS_AT_ONCE = 200
LOOK_EVERY = 0.1

_PLACES = 20
"""Bits of a notice's number for its place inside its transaction; the bits above are the journal row."""
_entries = msgspec.json.Decoder(list[tuple[str, str, list[str]]])


class Notice(NamedTuple):
    """Something that happened to a job, or to a queue (`job` is None). Pass `seq` as `after` to go on behind it.

    A `gap` says that notices between the last one and the next were pruned before they were read; everybody gets it.
    """

    seq: int
    kind: str
    at: datetime
    job: str | None
    queue: str
    data: dict[str, Any]


async def subscribe(
    store: Store, kinds: Collection[str] | None, queue: str | None, after: int | None
) -> AsyncIterator[Notice]:
    """Give notices as they are committed, from now on or from behind a number, without end.

    Behind 0 is everything there still is. Behind any other number, what was pruned meanwhile is told as a `gap`.
    """
    unknown = sorted(set(kinds or ()) - set(KINDS))
    if unknown:
        raise ConfigurationError(f"unknown notice {unknown[0]!r}; known are {', '.join(KINDS)}")
    seen = after if after is not None else ((await store.last_journal_number() + 1) << _PLACES) - 1
    row = (seen >> _PLACES) - 1
    known = seen >> _PLACES
    while True:
        rows = await store.journal(row, ROWS_AT_ONCE)
        for found in rows:
            if 0 < known < found.seq - 1:
                yield _gap(known, found, store.skew())
            known = found.seq
            for notice in _told(found, store.skew()):
                if notice.seq > seen and (kinds is None or notice.kind in kinds) and queue in (None, notice.queue):
                    yield notice
            row = found.seq
        if not rows:
            await asyncio.sleep(LOOK_EVERY)


def _gap(known: int, row: JournalRow, skew: float) -> Notice:
    """Tell that transactions between the last known one and this row are not there any more."""
    at = datetime.fromtimestamp(row.at + skew, UTC)
    return Notice((row.seq << _PLACES) - 1, "gap", at, None, "", {"transactions": row.seq - known - 1})


def _told(row: JournalRow, skew: float) -> Iterator[Notice]:
    at = datetime.fromtimestamp(row.at + skew, UTC)
    places = iter(range(1 << _PLACES))
    for kind, queue, ids in _entries.decode(row.entries):
        for job_id in ids:
            whose = {name: job_id for about, name in ABOUT.items() if kind.startswith(about)}
            yield Notice(row.seq << _PLACES | next(places), kind, at, (not whose and job_id) or None, queue, whose)
