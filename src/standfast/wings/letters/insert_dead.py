"""Jobs that come into the store as letters, such as those a relay could not hand over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from standfast.failure import Failure
from standfast.job import NewJob
from standfast.lifecycle import Move, State, Transition
from standfast.spine.apply import apply
from standfast.spine.claim_requests import Full
from standfast.spine.intake import enqueue
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script
from standfast.wings.policy import scripts as policies
from standfast.wings.policy.scripts import StoredPolicy
from standfast.wings.records.reads import JobRow

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
