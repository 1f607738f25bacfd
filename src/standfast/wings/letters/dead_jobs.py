"""Jobs that come into the store as letters, because they must not run: why, and what becomes of them."""

from __future__ import annotations

from functools import partial

import msgspec

from standfast.failure import Failure, Landed, reason
from standfast.job import Details, NewJob
from standfast.lifecycle import Transition
from standfast.settings import APPROVAL_TTL
from standfast.spine.claim_requests import Conflict
from standfast.store.steps import Round
from standfast.wings.approvals.rules import with_filing
from standfast.wings.letters.insert_dead import DeadJob
from standfast.wings.policy.facts import facts_of_failure
from standfast.wings.policy.policy_in_force import of_store
from standfast.wings.policy.scripts import StoredPolicy
from standfast.wings.policy.triage import PolicyNow, judge

_details = msgspec.json.Decoder(Details).decode


def in_conflict(job: NewJob, conflict: Conflict, ttl: float = APPROVAL_TTL) -> DeadJob:
    """Return the dead job of one that was accepted elsewhere, and whose key turned out to be another job's."""
    message = f"key {job.idempotency_key!r} belongs to job {conflict.job_id} with another payload"
    return dead_job(job, "idempotency_conflict", message, ttl)


def unknown(job: NewJob, ttl: float = APPROVAL_TTL) -> DeadJob:
    """Return the dead job of one that the store may have run and pruned while its host could not ask."""
    message = "its answer was lost, and so long ago that its job would be pruned: it may have run"
    return dead_job(job, "unknown_commit_state", message, ttl, Landed.MAYBE)


def refused(job: NewJob, message: str, ttl: float = APPROVAL_TTL) -> DeadJob:
    """Return the dead job of one that the store cannot accept: its work, without the options on when and how to run."""
    bare = NewJob(id=job.id, queue=job.queue, handler=job.handler, payload=job.payload, details=job.details)
    return dead_job(bare, "parse_error", f"the store cannot take it as it was asked for: {message}", ttl)


def dead_job(job: NewJob, code: str, message: str, ttl: float = APPROVAL_TTL, landed: Landed = Landed.NO) -> DeadJob:
    """Return a dead job with a reason of the catalogue. `ttl` is how long an approval waits, if one is needed."""
    why = reason(code)
    failure = Failure(cls=why.cls, landed=landed, reason_code=why.code, message=message, advice=why.advice)
    return DeadJob(job, failure, partial(_judge, job=job, failure=failure, ttl=ttl))


def _judge(
    death: Transition, stored: StoredPolicy, round_: Round, *, job: NewJob, failure: Failure, ttl: float
) -> Transition:
    """Decide what becomes of a letter by the policy in force in the transaction that stores it."""
    details = _details(job.details)
    facts = msgspec.structs.replace(
        facts_of_failure(failure),
        queue=job.queue,
        handler=job.handler,
        risk=details.risk,
        labels=details.labels or {},
        session=details.session,
        requester=details.requester,
    )
    present = PolicyNow(of_store(stored.rules, stored.problem).policy, round_.now)
    decided = judge(death, facts, present, roll=0.0)
    wall = round_.now + round_.skew
    return with_filing(decided, wall, ttl, handler=job.handler, payload=job.payload, details=details)
