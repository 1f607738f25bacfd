"""Decides what becomes of a job whose attempt is over: the outcome goes in, one Transition comes out.

Workers, the sweeper and direct calls all ask the same `Settle`. It does no I/O: time and chance are arguments. What
wings add is listed in `worker/settling.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from standfast.failure import Class, Failure, Landed, reason
from standfast.failure.retry_after import honour_retry_after
from standfast.job import Claim
from standfast.lifecycle import AttemptFailure, Carried, JobRef, Move, Suspicion, Transition, duplicate_if
from standfast.outcome import Cancel, Drained, Failed, Lapsed, Misfit, NotEntered, Outcome, Snooze, Succeeded, TimedOut
from standfast.printable import printable
from standfast.rules import QueueRules
from standfast.spine.backoff import delay

UNPROVEN = (Lapsed, NotEntered, Drained)
"""Outcomes that do not prove that the job is harmless to its worker: after one of them, a suspect remains a suspect."""
Present = TypeVar("Present")
"""The type of what a job that stops is judged by: the policy in force."""


class Settle(msgspec.Struct, Generic[Present], frozen=True, kw_only=True):
    """Turns the outcome of an attempt into a Transition, by the rules below and by what wings add to them.

    It does not know whether the job was cancelled meanwhile. `apply` does; see `wings.jobs.rules.unwanted`.
    """

    decides: Mapping[type, Callable[[Claim, Any, QueueRules, float], Transition]] = {}
    """For each type of outcome that only a wing knows, the function that decides about it."""
    adds: tuple[Callable[[Claim, Outcome, QueueRules, Transition], Transition], ...] = ()
    """Functions that may add to the decision, or change it."""
    judges: Callable[[Claim, Transition, float, Present | None], Transition] | None = None
    """Decides what becomes of a job that stops: its triage."""

    def __call__(
        self, claim: Claim, outcome: Outcome, rules: QueueRules, roll: float, present: Present | None = None
    ) -> Transition:
        """Decide. `roll`, in [0, 1), is the random number for jitter."""
        if claim.plain and isinstance(outcome, Succeeded):
            return completed(claim, outcome)
        if claim.progressed and isinstance(outcome, Failed) and outcome.doubts is not None:
            claim = msgspec.structs.replace(claim, progressed=0)  # the handler doubts its own records: no progress
        decided = self.decides.get(type(outcome), _settle)(claim, outcome, rules, roll)
        for add in self.adds:
            decided = add(claim, outcome, rules, decided)
        if claim.suspect is not None and not isinstance(outcome, UNPROVEN):
            decided = decided.carrying(Suspicion(suspect=False))
        return decided if self.judges is None else self.judges(claim, decided, roll, present)


def completed(claim: Claim, outcome: Succeeded) -> Transition:
    """Complete a plain job, in which no wing has a part."""
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
            twice = duplicate_if(landed is not None and claim.replay_mode == "replay")
            return move(claim, Move.SNOOZE, *twice, delay=max(0.0, seconds), spends=-1, defers=1, landed=landed)
        case Cancel(why):
            return move(claim, Move.CANCEL, warning=printable(why) or None)
        case Misfit(message):
            return die(claim, never("schema_invalid", message), begun=False)
        case NotEntered():
            return move(claim, Move.GIVE_BACK, spends=-1, defers=1, begun=False)
        case Drained() if claim.replay_mode == "replay" and claim.repeatable and not claim.open_intents:
            landed = claim.landed_by_ledger or Landed.MAYBE
            twice = duplicate_if(landed == Landed.MAYBE)
            return move(claim, Move.GIVE_BACK, *twice, spends=-1, defers=1, landed=landed)
        case Drained():
            return failed(claim, _cut(claim, "drained", "the worker stopped while this ran"), None, rules, roll)
        case TimedOut():
            return failed(claim, timed_out(claim), None, rules, roll)
        case Lapsed(alone):
            return _lost(claim, rules, roll, alone=alone)
        case _:
            raise TypeError(f"nothing decides what follows from {outcome!r}")


def failed(claim: Claim, failure: Failure, retry_after: float | None, rules: QueueRules, roll: float) -> Transition:
    """Repeat a job whose attempt failed, or make it a letter."""
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
    # With verify_first, a look for the effect precedes the repeat. Steps cannot be looked for.
    twice = duplicate_if(maybe and (claim.replay_mode == "replay" or claim.open_steps))
    return move(claim, Move.RETRY, *twice, delay=wait, failure=failure)


def _lost(claim: Claim, rules: QueueRules, roll: float, *, alone: bool) -> Transition:
    """Decide about a job whose worker died. It may have killed the worker, so from now on it runs alone.

    If it ran beside other jobs, any of them may be to blame, so no attempt is spent. That does not make it safe to
    repeat: a `manual` job becomes a letter nevertheless.
    """
    failure = _cut(claim, "worker_lost", f"the worker vanished while this {'' if alone else 'and others '}ran")
    spared = claim if alone else msgspec.structs.replace(claim, max_attempts=claim.attempts + 1)
    decided = failed(spared, failure, None, rules, roll)
    if alone or decided.move is not Move.RETRY:
        return decided.carrying(Suspicion(suspect=True))
    again = msgspec.structs.replace(decided, delay=0.0, spends=-1)
    return again.carrying(Suspicion(suspect=True, in_place=True))


def _by_ledger(claim: Claim, failure: Failure, *, explicit: bool = False) -> Failure:
    """Decide by the ledger whether an effect may exist: maybe if an intent is open, else no.

    Without an open intent, what the handler itself said takes precedence.
    """
    known = claim.landed_by_ledger
    if known is None or (known == Landed.NO and explicit):
        return failure
    begun = f"begun, and not known to be done: {', '.join(claim.open_intents)}" if claim.open_intents else ""
    message = "; ".join(part for part in (failure.message, begun) if part)
    return msgspec.structs.replace(failure, landed=known, message=message)


def too_old(claim: Claim, rules: QueueRules, now: float) -> Transition | None:
    """Make a letter of a job that was claimed too late, without entering its handler or spending an attempt."""
    code = age_reason(claim.entered_at, claim.expires_at, rules.max_age, now)
    return None if code is None else die(claim, never(code), begun=False)


def age_reason(entered_at: float, expires_at: float | None, max_age: float | None, now: float) -> str | None:
    """Return the reason code if a job is too old to start. `max_age` counts from the last time it entered the queue."""
    if max_age is not None and entered_at + max_age <= now:
        return "max_age"
    return "expired" if expires_at is not None and expires_at <= now else None


def given_back(job: JobRef) -> Transition:
    """Give back a job whose claim never reached its worker."""
    back: dict[str, Any] = {"spends": -1, "defers": 1, "begun": False, "gate": job.gate}
    return Transition(job.n, job.token, job.id, job.queue, Move.GIVE_BACK, **back)


def never(code: str, message: str = "") -> Failure:
    """Return the failure of a job that cannot enter its handler, now or later."""
    return Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code=code, message=message, advice=reason(code).advice)


def _cut(claim: Claim, code: str, message: str) -> Failure:
    """Return the failure of an attempt that was cut off. How far it got is unknown, unless the ledger says."""
    advice = reason(code).advice
    failure = Failure(cls=Class.TRANSIENT, landed=Landed.MAYBE, reason_code=code, message=message, advice=advice)
    return _by_ledger(claim, failure)


def timed_out(claim: Claim) -> Failure:
    """Return the failure of an attempt that exceeded its timeout."""
    return _cut(claim, "timeout", "the attempt took longer than its timeout")


def _with_reason(failure: Failure, code: str) -> Failure:
    """Set the reason code of a letter. The attempt's own code becomes the cause."""
    cause = failure.reason_code if failure.reason_code != code else failure.cause
    return msgspec.structs.replace(failure, reason_code=code, cause=cause, advice=reason(code).advice)


def die(claim: Claim, failure: Failure, *, begun: bool = True, last: Failure | None = None) -> Transition:
    """Make a job a dead letter; `last` is how its attempt failed, if that is a different failure."""
    own = () if last is None else (AttemptFailure(last),)
    return move(claim, Move.DIE, *own, failure=failure, spends=begun - 1, begun=begun)


def move(claim: Claim, how: Move, *carries: Carried, **what: Any) -> Transition:
    """Build a Transition for a job that an attempt holds."""
    what |= {"attempt": claim.attempts, "worker": claim.worker, "gate": claim.gate, "carries": carries}
    return Transition(claim.n, claim.token, claim.id, claim.queue, how, **what)
