"""Calls: store a job and claim it for its caller in one transaction, or store a job whose call already failed.

A call is stored like any new job, in its turn. It is started once every script of its round has its locks, like a
claim: the gates before it are only tried, and never waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Literal

import msgspec

from standfast.job import Claim, NewJob, Receipt
from standfast.lifecycle import State, Transition
from standfast.rules import QueueRules
from standfast.spine.apply import apply, apply_decided, gates_of
from standfast.spine.claim import handler_stamps, held_claims, read_rules, with_risks
from standfast.spine.claim_requests import Accepted, QueueDemand
from standfast.spine.intake import enqueue
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.scripts import writes
from standfast.store.steps import Round, RoundState, Script, lock_jobs, text
from standfast.wings.limits.claiming import claim_this
from standfast.wings.limits.words import Closing
from standfast.wings.policy import scripts as policies
from standfast.wings.policy.scripts import StoredPolicy


class Call(msgspec.Struct, frozen=True):
    """A job that `worker` wants to run at once. It does not start if its queue has a gate the caller did not ask."""

    job: NewJob
    worker: str
    admission: Literal["open"] | Closing | None = None
    policy: str | None = None
    """The mark of the policy that the caller believes to be in force."""
    ready: dict[str, str | None] | None = None
    """The answers of the handler's probes, if it has any: why not, or None for a yes."""


class Called(msgspec.Struct):
    """The outcome of a call: how it was stored, and the claim under which its caller runs it, if it may start."""

    answer: Accepted
    claim: Claim | None = None
    rules: QueueRules | None = None
    """The rules in force; None if nothing was to be started."""
    policy: StoredPolicy | None = None
    """The policy in force, if it is not the one that the caller knew."""


class Starts(RoundState):
    """Calls that are started once every script of their round has its locks."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Round], Script[None]]] = []

    def absorb(self, other: Starts) -> None:
        """Add the calls of a part of the round."""
        self.waiting += other.waiting


def start(round_: Round) -> Script[None]:
    """Start the calls that callers run themselves, before a worker's claim could take them."""
    starts = round_.state(Starts)
    waiting, starts.waiting = starts.waiting, []
    for each in waiting:
        yield from each(round_)


@writes(room=ROOM_TO_ACCEPT, newcomers=lambda calls: (each.job for each in calls))
def call(round_: Round, calls: Sequence[Call]) -> Script[list[Called]]:
    """Store calls. A call that may start is started before the round ends, and its answer has the claim."""
    answers = yield from enqueue(round_, [each.job for each in calls])
    called = [Called(answer) for answer in answers]
    for each, answer in zip(calls, called, strict=True):
        if isinstance(answer.answer, Receipt) and answer.answer.outcome == "accepted":
            round_.state(Starts).waiting.append(partial(_start, each, answer))
    return called


def _start(call: Call, called: Called, round_: Round) -> Script[None]:
    """Claim a call for its caller. A call repeated after an unacknowledged commit may be its caller's already."""
    job = call.job
    known = yield "queue_rules", {"queues": text([job.queue])}
    [(_, _, paused, *_, mark)] = known
    called.rules = read_rules([job.queue], known)[0][job.queue]
    called.policy = (yield from policies.stored_policy()) if mark != call.policy else None
    for n, state, worker, token, ready in (yield "called_job", {"id": job.id}):
        if state == State.RUNNING and worker == call.worker:
            called.claim = yield from _held_claim(round_, n, job.queue)
        elif state == State.QUEUED and not token and ready and not paused and _may_start(round_):
            demand = QueueDemand(job.queue, (job.handler,), 1, call.admission, call.ready)
            for claim in (yield from claim_this(round_, call.worker, demand, called.rules, n)):
                called.claim = claim


def _may_start(round_: Round) -> bool:
    return not round_.claims_frozen and round_.starts_left != 0


def _held_claim(round_: Round, n: int, queue: str) -> Script[Claim]:
    [claim] = with_risks((yield from held_claims(round_, [n])), (yield from handler_stamps(queue)))
    return claim


class AttemptElsewhere(msgspec.Struct, frozen=True):
    """An attempt that was made outside and failed: what was decided about it, and what its claim would have had."""

    end: Transition
    handler: str
    rules: QueueRules
    replay_mode: str
    timeout: float | None


class HandedOver(msgspec.Struct, frozen=True):
    """A call that failed elsewhere: the job, and its first attempt, as if it had run here."""

    job: NewJob
    attempt: AttemptElsewhere


@writes(room=ROOM_TO_ACCEPT)
def hand_over(round_: Round, handed: Sequence[HandedOver]) -> Script[list[Accepted]]:
    """Store calls that already failed, with the attempt they spent; answer how each was stored."""
    answers = yield from enqueue(round_, [each.job for each in handed])
    for each, answer in zip(handed, answers, strict=True):
        if isinstance(answer, Receipt) and answer.outcome == "accepted":
            for n, _, _, token, _ in (yield "called_job", {"id": each.job.id}):
                if not token:  # else it was stored before, by an unacknowledged commit
                    yield from _take(round_, each.attempt, n)
                    yield from apply_decided(round_, [msgspec.structs.replace(each.attempt.end, n=n, token=1)])
    return answers


@writes(
    gates=lambda attempts: gates_of([each.end for each in attempts]),
    number=attrgetter("end.n"),
)
def record_first_attempt(round_: Round, attempts: Sequence[AttemptElsewhere]) -> Script[list[bool]]:
    """Record the first attempt of waiting jobs; answer for each whether it was recorded, or a worker was first."""
    yield from lock_jobs(round_, (each.end.n for each in attempts))
    answers = []
    for each in attempts:
        waits = bool((yield "job_not_begun", {"n": each.end.n}))
        if waits:
            yield from _take(round_, each, each.end.n)
            yield from apply.run(round_, [each.end])
        answers.append(waits)
    return answers


def _take(round_: Round, attempt: AttemptElsewhere, n: int) -> Script[None]:
    """Claim a job for the attempt that was made elsewhere, so that the end of that attempt can be applied."""
    stamps = {"attempts": attempt.rules.attempts, "lease": attempt.rules.lease}
    how = {"replay_mode": attempt.replay_mode, "timeout": attempt.timeout}
    taken = {"n": n, "worker": attempt.end.worker, "now": round_.now}
    yield "take_handed_over", {**taken, **stamps, **how}


def declared(queue: str, handler: str) -> Script[tuple[str, float | None, Any]]:
    """Read a handler's replay mode, timeout and risk, as published."""
    return (yield from handler_stamps(queue)).get(handler, ("replay", None, None))
