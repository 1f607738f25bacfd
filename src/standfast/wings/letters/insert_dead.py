"""Jobs that come into the store as letters: those a relay could not hand over, and those a backup brings back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.failure import Failure
from standfast.job import NewJob
from standfast.lifecycle import Move, NoticeKind, State, Transition
from standfast.spine.apply import Ending, apply
from standfast.spine.claim_requests import Full
from standfast.spine.intake import enqueue
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.scripts import Patience, writes
from standfast.store.steps import Round, Script, text
from standfast.views import Triage
from standfast.wings.policy import scripts as policies
from standfast.wings.policy.scripts import StoredPolicy
from standfast.wings.policy.triage import Judgement
from standfast.wings.records.reads import JobRow
from standfast.wings.redrives import scripts as redrives
from standfast.wings.sessions import scripts as sessions

Judge = Callable[[Transition, StoredPolicy, Round], Transition]


class DeadJob(NamedTuple):
    """A job that must not run, and why."""

    job: NewJob
    failure: Failure
    judge: Judge
    """Decides what becomes of it, by the policy in force."""


@writes(room=ROOM_TO_ACCEPT)
def insert_dead(round_: Round, dead: Sequence[DeadJob]) -> Script[list[bool]]:
    """Store jobs as dead, without their keys, which belong to other jobs; return False for each whose queue is full."""
    answers = []
    policy = yield from policies.stored_policy()
    for job, failure, judge in dead:
        bare = msgspec.structs.replace(job, idempotency_key=None, fingerprint=None, thread_key=None, body_key=None)
        [answer] = yield from enqueue(round_, [bare])
        if not isinstance(answer, Full):
            [row] = yield "job_by_id", {"id": job.id}
            n, token = JobRow(*row).n, JobRow(*row).token
            death = Transition(n, token, job.id, job.queue, Move.DIE, State.QUEUED, failure=failure)
            yield from apply(round_, [judge(death, policy, round_)])
        answers.append(not isinstance(answer, Full))
    return answers


insert_dead_accepted = writes()(insert_dead.run)
"""The same for jobs that were accepted elsewhere: they are stored, however little room is left."""


class RestoredHold(NamedTuple):
    """Why restored jobs are held, and how many at once."""

    failure: Failure
    triage: Triage
    limit: int = 1000
    name: Callable[[str, str], str] | None = None
    """Returns the fingerprint of this cause for a queue and a handler."""


@writes(patience=Patience.ENDLESS)
def hold_restored(round_: Round, holdings: Sequence[RestoredHold]) -> Script[list[bool]]:
    """Hold the jobs that were queued or running when the backup was made; return for each whether there are more.

    None of them runs any more, so threads are free and workers are gone.
    """
    answers = []
    for failure, triage, limit, name in holdings:
        rows = yield "restored_jobs", {"limit": limit}
        numbers = text([n for n, *_ in rows])
        yield "hold_jobs", {"numbers": numbers, "now": round_.now, "landed": failure.landed}
        if rows:
            yield (
                "write_endings",
                [
                    Ending(n, failure=text(failure), triage=text(triage), fingerprint=name and name(queue, handler))
                    for n, _, queue, handler, *_ in rows
                ],
            )
            line = {"at": round_.now, **msgspec.to_builtins(failure)}
            del line["advice"]
            yield "write_history", [(n, text({**line, "attempt": attempts})) for n, *_, attempts in rows]
        for _, job_id, queue, *_ in rows:
            round_.notices[NoticeKind.HELD, queue].append(job_id)
        yield from sessions.tell(round_, [_hold_transition(row, failure, triage) for row in rows])
        yield "drop_gates", {}
        yield "recount_workflows", {}
        yield from redrives.pause_after_restore()
        yield "delete_workers", {"before": round_.now + 1, "limit": limit}
        answers.append(len(rows) == limit)
    return answers


def _hold_transition(row: Sequence[Any], failure: Failure, triage: Triage) -> Transition:
    """Return what became of a restored job as a transition, for its session's message."""
    n, job_id, queue, _, token, _ = row
    return Transition(n, token, job_id, queue, Move.HOLD, State.QUEUED, failure=failure, carries=(Judgement(triage),))
