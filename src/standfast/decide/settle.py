"""What becomes of a job whose attempt is over. Worker, sweeper and operators all ask here."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.decide.backoff import delay, honour_retry_after
from standfast.decide.triage import triage
from standfast.failure import Class, Failure, Landed, reason
from standfast.job import Claim
from standfast.lifecycle import Move, Standing, Transition
from standfast.outcome import Cancel, Drained, Failed, Lapsed, Misfit, NotEntered, Outcome, Snooze, Succeeded, TimedOut
from standfast.printable import printable
from standfast.rules import QueueRules


def settle(claim: Claim, outcome: Outcome, rules: QueueRules, roll: float) -> Transition:
    """Turn how an attempt ended into the one change that follows. `roll` in [0, 1) is the jitter's chance.

    Whether somebody cancelled the job meanwhile is known where this is written: see `lifecycle.unwanted`.
    """
    match outcome:
        case Succeeded(result, warning):
            return _move(claim, Move.COMPLETE, result=result, warning=warning)
        case Failed(failure, retry_after):
            return _failed(claim, failure, retry_after, rules, roll)
        case Snooze(seconds):
            return _move(claim, Move.SNOOZE, delay=max(0.0, seconds), spends=-1, defers=1)
        case Cancel(why):
            return _move(claim, Move.CANCEL, warning=printable(why) or None)
        case Misfit(message):
            return _die(claim, _never("schema_invalid", message), spends=-1)
        case NotEntered():
            return _move(claim, Move.GIVE_BACK, spends=-1, defers=1)
        case Drained() if claim.replay_mode == "replay" and claim.repeatable:
            return _move(claim, Move.GIVE_BACK, spends=-1, defers=1, landed=Landed.MAYBE, possible_duplicate=True)
        case Drained():
            return _failed(claim, _maybe("drained", "the worker stopped while this ran"), None, rules, roll)
        case TimedOut():
            return _failed(claim, _maybe("timeout", "the attempt took longer than its timeout"), None, rules, roll)
        case Lapsed():
            return _failed(claim, _maybe("worker_lost", "the worker vanished while this ran"), None, rules, roll)


def _failed(claim: Claim, failure: Failure, retry_after: float | None, rules: QueueRules, roll: float) -> Transition:
    maybe = failure.landed == Landed.MAYBE
    if claim.replay_mode == "manual":
        return _die(claim, _as(failure, "unknown_commit_state") if maybe else failure, last=failure)
    if failure.cls == Class.PERMANENT:
        return _die(claim, failure)
    if maybe and not claim.repeatable:
        return _die(claim, _as(failure, "unknown_commit_state"))
    if claim.exhausted:
        lost = failure.reason_code == "worker_lost"
        return _die(claim, failure if lost else _as(failure, "max_attempts"), last=failure)
    wait = delay(rules.backoff, claim.repeat, roll) if retry_after is None else honour_retry_after(retry_after)
    return _move(claim, Move.RETRY, delay=wait, failure=failure, possible_duplicate=maybe)


def too_old(claim: Claim, rules: QueueRules, now: float) -> Transition | None:
    """Let a job that is claimed too late die without entering its handler; its attempt is given back."""
    code = age_reason(claim.entered_at, claim.expires_at, rules.max_age, now)
    return None if code is None else _die(claim, _never(code), spends=-1)


def age_reason(entered_at: float, expires_at: float | None, max_age: float | None, now: float) -> str | None:
    """Name why a job may no longer start, if so. `max_age` counts from the last entry into the queue."""
    if max_age is not None and entered_at + max_age <= now:
        return "max_age"
    return "expired" if expires_at is not None and expires_at <= now else None


def given_back(job: Standing) -> Transition:
    """Return a job that its worker was given without ever learning of it."""
    return Transition(job.n, job.token, job.id, job.queue, Move.GIVE_BACK, spends=-1, defers=1, gate=job.gate)


def outlived(job: Standing, code: str) -> Transition:
    """Let a job die that waited too long in its queue."""
    failure = _never(code)
    at = (job.n, job.token, job.id, job.queue)
    return Transition(*at, Move.DIE, job.state, failure=failure, triage=triage(failure), gate=job.gate)


def _never(code: str, message: str = "") -> Failure:
    """Word the failure of a job that never entered its handler and never will by itself."""
    return Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code=code, message=message, advice=reason(code).advice)


def _maybe(code: str, message: str) -> Failure:
    return Failure(
        cls=Class.TRANSIENT, landed=Landed.MAYBE, reason_code=code, message=message, advice=reason(code).advice
    )


def _as(failure: Failure, code: str) -> Failure:
    return msgspec.structs.replace(failure, reason_code=code, advice=reason(code).advice)


def _die(claim: Claim, failure: Failure, *, spends: int = 0, last: Failure | None = None) -> Transition:
    return _move(claim, Move.DIE, failure=failure, last_failure=last, triage=triage(failure), spends=spends)


def _move(claim: Claim, move: Move, **what: Any) -> Transition:
    what |= {"attempt": claim.attempts, "worker": claim.worker, "gate": claim.gate}
    return Transition(claim.n, claim.token, claim.id, claim.queue, move, **what)
