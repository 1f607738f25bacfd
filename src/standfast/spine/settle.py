"""What becomes of a job whose attempt is over.

Worker, sweeper and calls all ask one `Settle`, which wings have their part in: `worker/settling.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from standfast.failure import Class, Failure, Landed, reason
from standfast.failure.retry_after import honour_retry_after
from standfast.job import Claim
from standfast.lifecycle import JobRef, Move, Transition
from standfast.outcome import Cancel, Drained, Failed, Lapsed, Misfit, NotEntered, Outcome, Snooze, Succeeded, TimedOut
from standfast.printable import printable
from standfast.rules import QueueRules
from standfast.spine.backoff import delay

UNPROVEN = (Lapsed, NotEntered, Drained)
"""The ends of an attempt that do not show whether it would have killed its worker: a suspect stays one."""
Present = TypeVar("Present")
"""What jobs that stop are judged by."""


class Settle(msgspec.Struct, Generic[Present], frozen=True, kw_only=True):
    """Turns how an attempt ended into the one change that follows: by the rules below, and by what wings add to them.

    Whether the job was cancelled meanwhile is known where this is written: see `wings.jobs.rules.unwanted`.
    """

    decides: Mapping[type, Callable[[Claim, Any, QueueRules, float], Transition]] = {}
    """Decide about an end that only a wing knows, by its type."""
    adds: tuple[Callable[[Claim, Outcome, QueueRules, Transition], Transition], ...] = ()
    """Add to what was decided, or decide otherwise."""
    judges: Callable[[Claim, Transition, float, Present | None], Transition] | None = None
    """Say what becomes of a job that stops."""

    def __call__(
        self, claim: Claim, outcome: Outcome, rules: QueueRules, roll: float, present: Present | None = None
    ) -> Transition:
        """Decide. `roll` in [0, 1) is the jitter's chance."""
        if claim.plain and isinstance(outcome, Succeeded):
            return completed(claim, outcome)
        if claim.progressed and isinstance(outcome, Failed) and outcome.doubts is not None:
            claim = msgspec.structs.replace(claim, progressed=0)  # what a handler takes back is no progress
        decided = self.decides.get(type(outcome), _settle)(claim, outcome, rules, roll)
        for add in self.adds:
            decided = add(claim, outcome, rules, decided)
        if claim.suspect is not None and not isinstance(outcome, UNPROVEN):
            decided = msgspec.structs.replace(decided, suspect=False)
        return decided if self.judges is None else self.judges(claim, decided, roll, present)


def completed(claim: Claim, outcome: Succeeded) -> Transition:
    """Complete a plain job: no wing has anything to say about that."""
    return Transition(
        claim.n,
        claim.token,
        claim.id,
        claim.queue,
        Move.COMPLETE,
        attempt=claim.attempts,
        worker=claim.worker,
        result=outcome.result,
        warning=outcome.warning,
        plain=True,
    )


def _settle(claim: Claim, outcome: Outcome, rules: QueueRules, roll: float) -> Transition:
    match outcome:
        case Succeeded(result, warning):
            return move(claim, Move.COMPLETE, result=result, warning=warning)
        case Failed(failure, retry_after, said):
            return failed(claim, _by_ledger(claim, failure, explicit=said), retry_after, rules, roll)
        case Snooze(seconds):
            landed = Landed.MAYBE if claim.open_intents else None
            again = {"landed": landed, "possible_duplicate": landed is not None and claim.replay_mode == "replay"}
            return move(claim, Move.SNOOZE, delay=max(0.0, seconds), spends=-1, defers=1, **again)
        case Cancel(why):
            return move(claim, Move.CANCEL, warning=printable(why) or None)
        case Misfit(message):
            return die(claim, never("schema_invalid", message), spends=-1)
        case NotEntered():
            return move(claim, Move.GIVE_BACK, spends=-1, defers=1)
        case Drained() if claim.replay_mode == "replay" and claim.repeatable and not claim.open_intents:
            landed = claim.landed_by_ledger or Landed.MAYBE
            again = {"landed": landed, "possible_duplicate": landed == Landed.MAYBE}
            return move(claim, Move.GIVE_BACK, spends=-1, defers=1, **again)
        case Drained():
            return failed(claim, _cut(claim, "drained", "the worker stopped while this ran"), None, rules, roll)
        case TimedOut():
            return failed(claim, timed_out(claim), None, rules, roll)
        case Lapsed(alone):
            return _lost(claim, rules, roll, alone=alone)
        case _:
            raise TypeError(f"nothing decides what follows from {outcome!r}")


def failed(claim: Claim, failure: Failure, retry_after: float | None, rules: QueueRules, roll: float) -> Transition:
    """Repeat a job whose attempt failed, or let it die."""
    maybe = failure.landed == Landed.MAYBE
    if claim.replay_mode == "manual":
        return die(claim, _with_reason(failure, "unknown_commit_state") if maybe else failure, last=failure)
    if failure.cls == Class.PERMANENT:
        return die(claim, failure)
    if maybe and not claim.repeatable:
        return die(claim, _with_reason(failure, "unknown_commit_state"))
    if claim.exhausted:
        lost = failure.reason_code == "worker_lost"
        return die(claim, failure if lost else _with_reason(failure, "max_attempts"), last=failure)
    wait = delay(rules.backoff, claim.repeat, roll) if retry_after is None else honour_retry_after(retry_after)
    # What is verified before it is repeated is no possible duplicate; a step cannot be.
    twice = maybe and (claim.replay_mode == "replay" or claim.open_steps)
    return move(claim, Move.RETRY, delay=wait, failure=failure, possible_duplicate=twice)


def _lost(claim: Claim, rules: QueueRules, roll: float, *, alone: bool) -> Transition:
    """Decide about a job whose worker died: from now on it runs alone. What ran beside others has spent nothing.

    Whether its effect may exist is another matter: what may not be repeated by itself dies all the same.
    """
    failure = _cut(claim, "worker_lost", f"the worker vanished while this {'' if alone else 'and others '}ran")
    spared = claim if alone else msgspec.structs.replace(claim, max_attempts=claim.attempts + 1)
    decided = msgspec.structs.replace(failed(spared, failure, None, rules, roll), suspect=True)
    if alone or decided.move is not Move.RETRY:
        return decided
    return msgspec.structs.replace(decided, delay=0.0, spends=-1, in_place=True)


def _by_ledger(claim: Claim, failure: Failure, *, explicit: bool = False) -> Failure:
    """Let the ledger tell whether an effect may exist: an open intent means maybe, none means no.

    What the handler itself said stands where no intent is open.
    """
    known = claim.landed_by_ledger
    if known is None or (known == Landed.NO and explicit):
        return failure
    begun = f"begun, and not known to be done: {', '.join(claim.open_intents)}" if claim.open_intents else ""
    message = "; ".join(part for part in (failure.message, begun) if part)
    return msgspec.structs.replace(failure, landed=known, message=message)


def too_old(claim: Claim, rules: QueueRules, now: float) -> Transition | None:
    """Let a job that is claimed too late die without entering its handler; its attempt is given back."""
    code = age_reason(claim.entered_at, claim.expires_at, rules.max_age, now)
    return None if code is None else die(claim, never(code), spends=-1)


def age_reason(entered_at: float, expires_at: float | None, max_age: float | None, now: float) -> str | None:
    """Name why a job may no longer start, if so. `max_age` counts from the last entry into the queue."""
    if max_age is not None and entered_at + max_age <= now:
        return "max_age"
    return "expired" if expires_at is not None and expires_at <= now else None


def given_back(job: JobRef) -> Transition:
    """Return a job that its worker was given without ever learning of it."""
    return Transition(job.n, job.token, job.id, job.queue, Move.GIVE_BACK, spends=-1, defers=1, gate=job.gate)


def never(code: str, message: str = "") -> Failure:
    """Word the failure of a job that never entered its handler and never will by itself."""
    return Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code=code, message=message, advice=reason(code).advice)


def _cut(claim: Claim, code: str, message: str) -> Failure:
    """Word the failure of an attempt that was cut off: how far it came is unknown, unless the ledger tells."""
    advice = reason(code).advice
    failure = Failure(cls=Class.TRANSIENT, landed=Landed.MAYBE, reason_code=code, message=message, advice=advice)
    return _by_ledger(claim, failure)


def timed_out(claim: Claim) -> Failure:
    """Word the failure of an attempt that took too long."""
    return _cut(claim, "timeout", "the attempt took longer than its timeout")


def _with_reason(failure: Failure, code: str) -> Failure:
    """Give a letter its reason; the attempt's own stays known as its cause."""
    cause = failure.reason_code if failure.reason_code != code else failure.cause
    return msgspec.structs.replace(failure, reason_code=code, cause=cause, advice=reason(code).advice)


def die(claim: Claim, failure: Failure, *, spends: int = 0, last: Failure | None = None) -> Transition:
    """Let a job die."""
    return move(claim, Move.DIE, failure=failure, last_failure=last, spends=spends)


def move(claim: Claim, how: Move, **what: Any) -> Transition:
    """Move a job that an attempt holds."""
    what |= {"attempt": claim.attempts, "worker": claim.worker, "gate": claim.gate}
    return Transition(claim.n, claim.token, claim.id, claim.queue, how, **what)
