"""Jobs that come into the store as letters: what a relay could not hand over, and what a backup brings back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from standfast.failure import Failure
from standfast.job import NewJob
from standfast.lifecycle import Move, State, Transition, Triage
from standfast.store import redrives
from standfast.store.intake import enqueue
from standfast.store.orders import Full
from standfast.store.reads import JobRow
from standfast.store.scripts import apply
from standfast.store.steps import Round, Script, text


class Burial(NamedTuple):
    """A job that must not run, and why."""

    job: NewJob
    failure: Failure
    triage: Triage


def bury(round_: Round, burials: Sequence[Burial]) -> Script:
    """Store jobs as dead ones, without their keys, which belong to others; False where the queue is full."""
    answers = []
    for job, failure, triage in burials:
        bare = msgspec.structs.replace(job, idempotency_key=None, fingerprint=None, thread_key=None)
        [answer] = yield from enqueue(round_, [bare])
        if not isinstance(answer, Full):
            [row] = yield "job_by_id", {"id": job.id}
            n, token = JobRow(*row).n, JobRow(*row).token
            death = Transition(n, token, job.id, job.queue, Move.DIE, State.QUEUED, failure=failure, triage=triage)
            yield from apply(round_, [death])
        answers.append(not isinstance(answer, Full))
    return answers


class Holding(NamedTuple):
    """Why restored jobs are held, and how many at once."""

    failure: Failure
    triage: Triage
    limit: int = 1000


def hold_restored(round_: Round, holdings: Sequence[Holding]) -> Script:
    """Hold what was queued or running when the backup was made; answer whether there is more.

    Nobody runs it any more, so threads are free and workers are gone.
    """
    answers = []
    for failure, triage, limit in holdings:
        rows = yield "restored_jobs", {"limit": limit}
        numbers = text([n for n, *_ in rows])
        yield "hold_jobs", {"numbers": numbers, "now": round_.now, "landed": failure.landed}
        if rows:
            yield (
                "write_endings",
                [(n, None, None, text(failure), text(triage), None, None, None, None) for n, *_ in rows],
            )
            line = {"at": round_.now, **msgspec.to_builtins(failure)}
            del line["advice"]
            yield "write_history", [(n, text({**line, "attempt": attempts})) for n, _, _, attempts in rows]
        for _, job_id, queue, _ in rows:
            round_.told["held", queue].append(job_id)
        yield "drop_gates", {}
        yield from redrives.rest()
        yield "delete_workers", {"before": round_.now + 1}
        answers.append(len(rows) == limit)
    return answers
