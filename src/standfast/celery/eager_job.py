"""`self.job` of a task that no worker runs: in an eager run, and in a direct call, as unit tests make.

What a task tells its job is discarded, steps and effects are called and remembered from one eager attempt to the next,
and nothing cancels it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from standfast.job import Claim, Details, LedgerEntry, LedgerNote
from standfast.rules import QueueRules
from standfast.spine.payload import encode_value
from standfast.wings.effects.handler_job import Job
from standfast.wings.effects.ledger import Ledger
from standfast.wings.effects.words import Effect

if TYPE_CHECKING:
    from standfast.celery.task import Task


class Remembered(NamedTuple):
    """The answer of a ledger without a store, with the `result()` that plain functions call."""

    entry: LedgerEntry | None

    def result(self) -> LedgerEntry | None:
        """Return the effect's entry."""
        return self.entry


class EagerLedger(Ledger):
    """The ledger of an attempt that has no store."""

    def __init__(self, claim: Claim, declared: Sequence[str]) -> None:
        super().__init__(cast("Any", None), claim, encode_value, declared)

    def write(self, note: LedgerNote) -> Any:
        """Remember a note."""
        kept = None if note.state == "none" else LedgerEntry(note.name, note.state, note.receipt, note.verdict)
        return Remembered(kept)


def eager_job(task: Task, task_id: str, before: Job | None = None) -> Job:
    """Return the job of an attempt, with the steps that the attempt before it completed."""
    return _job_of(task, _first_claim(task, task_id) if before is None else _next_claim(before.handed_over))


def _job_of(task: Task, claim: Claim) -> Job:
    job: Job = Job(claim, QueueRules())
    job.keep(EagerLedger(claim, [effect.name for effect in _effects_of(task, job)]))
    return job


def _effects_of(task: Task, job: Job) -> Sequence[Effect]:
    found = task.effects(job) if callable(task.effects) else task.effects
    return (found,) if isinstance(found, Effect) else found


def _next_claim(last: Claim) -> Claim:
    return msgspec.structs.replace(last, attempts=last.attempts + 1, progressed=0)


def _first_claim(task: Task, task_id: str) -> Claim:
    return Claim(
        n=0,
        token=1,
        id=task_id,
        queue=task.app.conf.task_default_queue,
        handler=task.name,
        worker="",
        payload="{}",
        attempts=1,
        max_attempts=1,
        round_start=0,
        lease=0.0,
        timeout=None,
        replay_mode="replay",  # an effect may be begun twice: nothing here can look for it
        claimed_at=0.0,
        entered_at=0.0,
        expires_at=None,
        idempotency_key=None,
        details=Details(),
    )
