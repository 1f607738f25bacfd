"""From a plan to what is stored: a job that will run, or a letter."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.errors import PayloadRejected
from standfast.failure import Failure, Landed, reason
from standfast.failure.fingerprint import fingerprint as cause_of
from standfast.job import Details, NewJob, may_repeat
from standfast.rules import ReplayMode
from standfast.spine.accept import Acceptor
from standfast.spine.payload import encode_value, sha256
from standfast.store.steps import text
from standfast.views import Attempt, Triage
from standfast.wings.audit.words import Decision
from standfast.wings.imports.rules import Plan
from standfast.wings.imports.scripts import Incoming
from standfast.wings.imports.words import Meaning
from standfast.wings.letters.arrivals import Arrival

UNREPEATABLE = "it was tried in its old store, its effect may exist, and it must not be repeated without a look"
RULE = "import"
"""The rule on imported letters: nothing replays them automatically."""

Modes = dict[tuple[str, str], ReplayMode]


def new_job(acceptor: Acceptor, plan: Plan, job_id: str) -> NewJob:
    """Check a plan as `enqueue` checks a call, and build the job under its record's id.

    A payload that does not fit its handler is accepted: it was accepted before, and as a letter it is seen here.
    """
    [job] = acceptor.jobs(plan.queue, (plan.payload,), from_outside=True, **plan.options)
    details = msgspec.json.decode(job.details, type=Details)
    described = msgspec.structs.replace(details, queue_reason=plan.queue_reason)
    return msgspec.structs.replace(job, id=job_id, details=text(described))


def guarded(plan: Plan, job: NewJob, modes: Modes, *, tried_are_letters: bool = False) -> Plan:
    """Make a letter of a job that must not run again automatically, because an earlier attempt may have done it.

    A `manual` handler runs once automatically, and an HTTP request without a key may be one that its receiver cannot
    recognise as a repeat.
    """
    if not plan.tried or plan.landed != Landed.MAYBE:
        return plan
    by_itself = modes.get((job.queue, job.handler)) != "manual"
    if by_itself and may_repeat(job.handler, job.idempotency_key, job.payload) and not tried_are_letters:
        return plan
    why = reason("unknown_commit_state")
    last = plan.history[-1].message if plan.history else None
    message = f"{UNREPEATABLE}; its last error: {last}" if last else UNREPEATABLE
    failure = Failure(cls=why.cls, landed=Landed.MAYBE, reason_code=why.code, message=message, advice=why.advice)
    return msgspec.structs.replace(plan, meaning=Meaning.IN_DOUBT, failure=failure)


def runnable(plan: Plan, job: NewJob, skew: float) -> Incoming:
    """Return a job that will run. Its last history line says whether it may repeat what is done."""
    lines = [*plan.history]
    if lines and plan.landed == Landed.MAYBE:
        lines[-1] = msgspec.structs.replace(lines[-1], possible_duplicate=True)
    history = tuple(_line(each, skew) for each in lines)
    return Incoming(job=job, attempts=plan.attempts, landed=plan.landed, history=history)


def finished(plan: Plan, job: NewJob) -> Incoming:
    """Return a job that was done elsewhere, with its result if that can be stored."""
    try:
        result = None if plan.result is None else encode_value(plan.result)
    except PayloadRejected:
        result = None
    return Incoming(job=job, result=result)


def letter(plan: Plan, job: NewJob, actor: dict[str, Any], *, now: float, skew: float) -> Arrival:
    """Return a letter: dead, whole, for a person to decide about."""
    failure = plan.failure
    if failure is None:
        raise TypeError("a record without a failure is not a letter")
    seen = now if job.first_seen_at is None else min(job.first_seen_at - skew, now)
    ended = now if plan.ended_at is None else min(plan.ended_at - skew, now)
    triage = Triage(action=reason(failure.reason_code).action, rule=RULE)
    decision = Decision(kind="import", job=job.id, queue=job.queue, payload_sha256=sha256(job.payload), **actor)
    return Arrival(
        id=job.id,
        queue=job.queue,
        handler=job.handler,
        priority=job.priority or 0,
        payload=job.payload,
        details=job.details,
        created_at=seen,
        first_seen_at=seen,
        entered_at=seen,
        finished_at=max(seen, ended),
        failure=text(failure),
        triage=text(triage),
        cause=cause_of(job.queue, job.handler, failure),
        attempts=plan.attempts,
        generation=0,
        replays=0,
        decision=msgspec.structs.replace(decision, outcome="imported"),
        landed=plan.landed,
        key=job.idempotency_key,
        fingerprint=job.fingerprint,
        thread_key=job.thread_key,
        history=tuple(_line(each, skew) for each in plan.history),
    )


def _line(attempt: Attempt, skew: float) -> str:
    return text({**msgspec.to_builtins(attempt), "at": attempt.at.timestamp() - skew})
