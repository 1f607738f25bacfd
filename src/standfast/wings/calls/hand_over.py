"""Calls that failed before, outside standfast: judged as if they had failed here, and stored with that attempt."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.failure import classify
from standfast.job import Claim, Details, NewJob, Receipt
from standfast.lifecycle import State, Transition
from standfast.outcome import Failed
from standfast.rules import QueueRules
from standfast.spine.accept import receipt
from standfast.spine.settle import Settle
from standfast.store.store import Store
from standfast.wings.approvals.rules import filed
from standfast.wings.calls import scripts as calls
from standfast.wings.calls.scripts import AttemptElsewhere, HandedOver
from standfast.wings.calls.verbs import belongs_to_other
from standfast.wings.policy.known_policy import KnownPolicy
from standfast.wings.policy.triage import PolicyNow
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.records import reads
from standfast.wings.records.reads import JobRow
from standfast.wings.records.view import job_view
from standfast.wings.tracebacks.rules import with_traceback

_details = msgspec.json.Decoder(Details).decode


def judge(error: object) -> Failed:
    """Judge how a call failed from what its caller has: the exception, the result it returned, or a text.

    A result that does not say that it failed counts as failed, because the caller hands it over as a failure.
    """
    if isinstance(error, BaseException):
        return classify.of_exception(error)
    if isinstance(error, dict):
        if error.get("success") is True and not classify.of_result(error):
            raise ConfigurationError(
                "hand_over takes a call that failed, and this result says that it succeeded; nothing was written, and "
                "nothing is run again"
            )
        found = classify.of_result(error) or classify.of_result({**error, "success": False})
    elif isinstance(error, str):
        found = classify.of_result({"success": False, "error": error})
    else:
        raise ConfigurationError(
            f"hand_over takes the error of a call that failed: its exception, its result (a dict) or a text, not "
            f"{type(error).__name__}; nothing was written"
        )
    return found or Failed(classify.of_exception(RuntimeError()).failure)


async def hand_over(
    store: Store,
    policy: KnownPolicy,
    settle: Settle[PolicyNow],
    job: NewJob,
    failed: Failed,
    *,
    error: object,
    requester: str | None = None,
) -> Receipt:
    """Store a job with the attempt that failed and its consequences, as a worker would have decided them.

    If the key belongs to a job that still waits for its first attempt, this counts as that attempt.
    """
    rules = await store.read(queue_scripts.rules(job.queue))
    mode, timeout, risk = await store.read(calls.declared(job.queue, job.handler))
    timeout = rules.timeout if timeout is None else timeout
    claim = as_claimed(job, rules, store.now(), replay_mode=mode, timeout=timeout, handler_risk=risk)

    def attempt(claim: Claim) -> AttemptElsewhere:
        end = settle(claim, failed, rules, random.random(), policy.policy_now(store))  # noqa: S311 - jitter
        end = with_traceback(end, error if isinstance(error, BaseException) else None)
        return AttemptElsewhere(_with_filing(store, claim, end), job.handler, rules, mode, timeout)

    answer = receipt(await store.write(calls.hand_over, HandedOver(job, attempt(claim))), job)
    if answer.outcome == "duplicate" and answer.state == State.QUEUED:
        await _record_for_owner(store, str(answer.id), job, requester, lambda row: attempt(_claim_of(row, claim)))
    return answer


async def _record_for_owner(
    store: Store, owner: str, job: NewJob, requester: str | None, attempt: Callable[[JobRow], AttemptElsewhere]
) -> None:
    """Spend the first attempt of the job that has the key, unless it has begun or belongs to another caller.

    A job that other jobs were folded into does other work than the call that failed.
    """
    record = await store.read(reads.job(owner))
    if record is None or record.row.token or record.row.state != State.QUEUED or record.row.coalesced is not None:
        return
    if belongs_to_other(job_view(record, now=store.now(), skew=store.skew()), job, requester):
        return
    made = attempt(record.row)
    wait = record.row.due_at - store.now()
    if made.end.target == State.QUEUED and wait > made.end.delay:  # a job that is due later does not start sooner
        made = msgspec.structs.replace(made, end=msgspec.structs.replace(made.end, delay=wait))
    await store.write(calls.record_first_attempt, made)


def _claim_of(row: JobRow, like: Claim) -> Claim:
    """Return the claim that a waiting job's first attempt would have had."""
    return msgspec.structs.replace(
        like,
        n=row.n,
        id=row.id,
        payload=row.payload,
        details=_details(row.details),
        max_attempts=like.max_attempts if row.budget is None else row.budget,
        entered_at=row.entered_at,
        expires_at=row.expires_at,
        first_seen_at=row.first_seen_at or row.created_at,
        gate=row.thread_gate,
    )


def as_claimed(job: NewJob, rules: QueueRules, now: float, **declared: Any) -> Claim:
    """Return the claim that the job's only attempt so far would have had; the job has no number yet."""
    return Claim(
        n=0,
        token=1,
        id=job.id,
        queue=job.queue,
        handler=job.handler,
        worker=f"{socket.gethostname()}-{os.getpid()}",
        payload=job.payload,
        attempts=1,
        max_attempts=rules.attempts,
        round_start=0,
        lease=rules.lease,
        claimed_at=now,
        entered_at=now,
        expires_at=None,
        idempotency_key=job.idempotency_key,
        details=_details(job.details),
        first_seen_at=now,
        **declared,
    )


def _with_filing(store: Store, claim: Claim, end: Transition) -> Transition:
    return filed(end, store, handler=claim.handler, payload=claim.payload, details=claim.details)
