"""What becomes of a job whose attempt is over. Worker, sweeper and operators all ask here."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.failure import Class, Failure, Landed, reason
from standfast.failure.retry_after import postponed
from standfast.job import Claim
from standfast.lifecycle import Move, Standing, State, Transition
from standfast.outcome import (
    Cancel,
    Drained,
    Failed,
    Lapsed,
    Look,
    LookFailed,
    Misfit,
    NotEntered,
    Outcome,
    Recovered,
    Snooze,
    Succeeded,
    TimedOut,
    Unconsented,
    Undetermined,
    Unfinished,
)
from standfast.printable import printable
from standfast.rules import QueueRules
from standfast.spine.backoff import delay, honour_retry_after
from standfast.wings.effects.rules import closes, doubted, sightings, with_looks
from standfast.wings.limits.breaker import heard
from standfast.wings.policy.facts import UNKNOWN, Facts, facts_of_claim, facts_of_failure
from standfast.wings.policy.triage import PRESENT, Present, judged
from standfast.wings.sessions.words import DEFERRED, Origin

UNPROVEN = (Lapsed, NotEntered, Drained)
"""The ends of an attempt that do not show whether it would have killed its worker: a suspect stays one."""
RECOVERED = "post_write_recovery"
"""The warning of a job that was found done before it was repeated."""
LOOK_FAILED = "look_failed"
LOOK_AGAIN = (
    "Mend what the check needs, then replay: it looks first, and runs only what is missing. If you know that the "
    "effect is there, resolve the letter; with a result of yours that is your word, and nothing is looked at."
)


def settle(claim: Claim, outcome: Outcome, rules: QueueRules, roll: float, present: Present = PRESENT) -> Transition:
    """Turn how an attempt ended into the one change that follows. `roll` in [0, 1) is the jitter's chance.

    Whether somebody cancelled the job meanwhile is known where this is written: see `lifecycle.unwanted`.
    """
    if isinstance(outcome, Succeeded) and claim.plain and not rules.regulated:
        return completed(claim, outcome)
    if claim.progressed and isinstance(outcome, Failed) and outcome.doubts is not None:
        claim = msgspec.structs.replace(claim, progressed=0)  # what a handler takes back is no progress
    decided = postponed(claim, outcome, rules, _settled(claim, outcome, rules, roll))
    decided = _counted(claim, heard(claim, outcome, rules, decided))
    if claim.suspect is not None and not isinstance(outcome, UNPROVEN):
        decided = msgspec.structs.replace(decided, suspect=False)
    return _judged(claim, decided, roll, present)


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


def _counted(claim: Claim, decided: Transition) -> Transition:
    """Let an attempt that made progress open a round, if the job goes on."""
    if not claim.progressed or decided.target != State.QUEUED:
        return decided
    return msgspec.structs.replace(decided, progress=True)


def _judged(claim: Claim, decided: Transition, roll: float, present: Present) -> Transition:
    if decided.failure is None:
        return decided
    return judged(decided, facts_of_claim(claim, decided.failure, present.now), present, roll)


def _settled(claim: Claim, outcome: Outcome, rules: QueueRules, roll: float) -> Transition:
    match outcome:
        case Succeeded(result, warning):
            return _move(claim, Move.COMPLETE, result=result, warning=warning)
        case Failed(failure, retry_after, said, doubts):
            decided = _failed(claim, _by_ledger(claim, failure, said=said), retry_after, rules, roll)
            reopened = doubted(claim, doubts)
            return msgspec.structs.replace(decided, reopens=reopened) if reopened else decided
        case Snooze(seconds):
            landed = Landed.MAYBE if claim.open_intents else None
            again = {"landed": landed, "possible_duplicate": landed is not None and claim.replay_mode == "replay"}
            return _move(claim, Move.SNOOZE, delay=max(0.0, seconds), spends=-1, defers=1, **again)
        case Cancel(why):
            return _move(claim, Move.CANCEL, warning=printable(why) or None)
        case Misfit() | Unconsented():
            return _kept_out(claim, outcome)
        case NotEntered():
            return _move(claim, Move.GIVE_BACK, spends=-1, defers=1)
        case Recovered() | Undetermined() | LookFailed() | Unfinished():
            return _looked(claim, outcome, rules, roll)
        case Drained() if claim.replay_mode == "replay" and claim.repeatable and not claim.open_intents:
            landed = claim.told_by_ledger or Landed.MAYBE
            again = {"landed": landed, "possible_duplicate": landed == Landed.MAYBE}
            return _move(claim, Move.GIVE_BACK, spends=-1, defers=1, **again)
        case Drained():
            return _failed(claim, _cut(claim, "drained", "the worker stopped while this ran"), None, rules, roll)
        case TimedOut():
            return _failed(claim, _timed_out(claim), None, rules, roll)
        case Lapsed(alone):
            return _lost(claim, rules, roll, alone=alone)


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
    # What is verified before it is repeated is no possible duplicate; a step cannot be.
    twice = maybe and (claim.replay_mode == "replay" or claim.open_steps)
    return _move(claim, Move.RETRY, delay=wait, failure=failure, possible_duplicate=twice)


def _lost(claim: Claim, rules: QueueRules, roll: float, *, alone: bool) -> Transition:
    """Decide about a job whose worker died: from now on it runs alone. What ran beside others has spent nothing.

    Whether its effect may exist is another matter: what may not be repeated by itself dies all the same.
    """
    failure = _cut(claim, "worker_lost", f"the worker vanished while this {'' if alone else 'and others '}ran")
    spared = claim if alone else msgspec.structs.replace(claim, max_attempts=claim.attempts + 1)
    decided = msgspec.structs.replace(_failed(spared, failure, None, rules, roll), suspect=True)
    if alone or decided.move is not Move.RETRY:
        return decided
    return msgspec.structs.replace(decided, delay=0.0, spends=-1, in_place=True)


def _by_ledger(claim: Claim, failure: Failure, *, said: bool = False) -> Failure:
    """Let the ledger tell whether an effect may exist: an open intent means maybe, none means no.

    What the handler itself said stands where no intent is open.
    """
    known = claim.told_by_ledger
    if known is None or (known == Landed.NO and said):
        return failure
    begun = f"begun, and not known to be done: {', '.join(claim.open_intents)}" if claim.open_intents else ""
    message = "; ".join(part for part in (failure.message, begun) if part)
    return msgspec.structs.replace(failure, landed=known, message=message)


def _looked(
    claim: Claim, outcome: Recovered | Undetermined | LookFailed | Unfinished, rules: QueueRules, roll: float
) -> Transition:
    """Decide by what a look saw."""
    match outcome:
        case Recovered(looks, entered, result):
            found = {"result": result, "looks": sightings(looks)}
            return _move(claim, Move.COMPLETE, spends=entered - 1, warning=RECOVERED, **found)
        case Undetermined(looks, message, entered):
            return _hold(claim, looks, message, spends=entered - 1)
        case LookFailed():
            return _look_again(claim, outcome, rules, roll)
        case Unfinished():
            return _unfinished(claim, outcome, rules, roll)


def _hold(claim: Claim, looks: tuple[Look, ...], message: str, *, spends: int) -> Transition:
    """Keep a job for whoever can tell what its checks could not."""
    code = "unknown_commit_state"
    failure = Failure(cls=Class.UNKNOWN, landed=Landed.MAYBE, reason_code=code, message=message, advice=LOOK_AGAIN)
    return _move(claim, Move.HOLD, spends=spends, failure=failure, looks=sightings(looks))


def _look_again(claim: Claim, failed: LookFailed, rules: QueueRules, roll: float) -> Transition:
    """Put a job off whose look failed for now, as often as it may be tried; then keep it for a person."""
    if claim.failed_looks >= claim.allowed:
        return _hold(claim, failed.looks, failed.message, spends=-1)
    again = claim.failed_looks + 1
    wait = delay(rules.backoff, again, roll) if failed.retry_after is None else honour_retry_after(failed.retry_after)
    what = {"reason_code": LOOK_FAILED, "message": failed.message, "advice": reason(LOOK_FAILED).advice}
    failure = Failure(cls=Class.TRANSIENT, landed=Landed.MAYBE, **what)
    put_off = {"delay": wait, "spends": -1, "defers": 1, "failure": failure, "look_failed": True}
    return _move(claim, Move.GIVE_BACK, looks=sightings(failed.looks), **put_off)


def _unfinished(claim: Claim, outcome: Unfinished, rules: QueueRules, roll: float) -> Transition:
    """Have the rest of a handler run whose effects are all there: it fails as it did, but nothing is in doubt.

    That the look found what was begun is progress.
    """
    progressed = claim.progressed or int(closes(claim.ledger, outcome.looks))
    known = msgspec.structs.replace(claim, ledger=with_looks(claim.ledger, outcome.looks), progressed=progressed)
    retry_after = None if isinstance(outcome.ended, TimedOut) else outcome.ended.retry_after
    failure = _timed_out(known) if isinstance(outcome.ended, TimedOut) else outcome.ended.failure
    landed = Landed.MAYBE if known.open_steps else Landed.NO
    decided = _failed(known, msgspec.structs.replace(failure, landed=landed), retry_after, rules, roll)
    more = {"looks": sightings(outcome.looks), "progress": bool(progressed) and decided.target == State.QUEUED}
    return msgspec.structs.replace(decided, **more)


def _kept_out(claim: Claim, outcome: Misfit | Unconsented) -> Transition:
    """Let a job die that may not enter its handler, or keep it until its session consents. Nothing was tried."""
    match outcome:
        case Misfit(message):
            return _die(claim, _never("schema_invalid", message), spends=-1)
        case Unconsented(message, denied=True):
            return _die(claim, _never("consent_denied", message), spends=-1)
        case Unconsented(message):
            return _move(claim, Move.HOLD, spends=-1, failure=_never("consent_required", message))


def too_old(
    claim: Claim, rules: QueueRules, now: float, roll: float = 0.0, present: Present = PRESENT
) -> Transition | None:
    """Let a job that is claimed too late die without entering its handler; its attempt is given back."""
    code = age_reason(claim.entered_at, claim.expires_at, rules.max_age, now)
    return None if code is None else _judged(claim, _die(claim, _never(code), spends=-1), roll, present)


def age_reason(entered_at: float, expires_at: float | None, max_age: float | None, now: float) -> str | None:
    """Name why a job may no longer start, if so. `max_age` counts from the last entry into the queue."""
    if max_age is not None and entered_at + max_age <= now:
        return "max_age"
    return "expired" if expires_at is not None and expires_at <= now else None


def given_back(job: Standing) -> Transition:
    """Return a job that its worker was given without ever learning of it."""
    return Transition(job.n, job.token, job.id, job.queue, Move.GIVE_BACK, spends=-1, defers=1, gate=job.gate)


def outlived(
    job: Standing,
    code: str,
    facts: Facts = UNKNOWN,
    roll: float = 0.0,
    present: Present = PRESENT,
    *,
    message: str = "",
) -> Transition:
    """Let a job die that waited too long, or in vain; `facts` is what else is known of it."""
    failure = _never(code, message)
    said = {name: value for name, value in msgspec.structs.asdict(facts_of_failure(failure)).items() if value}
    at = (job.n, job.token, job.id, job.queue)
    decided = Transition(*at, Move.DIE, job.state, attempt=facts.attempts, failure=failure, gate=job.gate)
    return judged(decided, msgspec.structs.replace(facts, **said), present, roll)


def _never(code: str, message: str = "") -> Failure:
    """Word the failure of a job that never entered its handler and never will by itself."""
    return Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code=code, message=message, advice=reason(code).advice)


def _cut(claim: Claim, code: str, message: str) -> Failure:
    """Word the failure of an attempt that was cut off: nobody knows how far it came, but the ledger may."""
    advice = reason(code).advice
    failure = Failure(cls=Class.TRANSIENT, landed=Landed.MAYBE, reason_code=code, message=message, advice=advice)
    return _by_ledger(claim, failure)


def _timed_out(claim: Claim) -> Failure:
    return _cut(claim, "timeout", "the attempt took longer than its timeout")


def _as(failure: Failure, code: str) -> Failure:
    """Give a letter its reason; the attempt's own stays known as its cause."""
    cause = failure.reason_code if failure.reason_code != code else failure.cause
    return msgspec.structs.replace(failure, reason_code=code, cause=cause, advice=reason(code).advice)


def _die(claim: Claim, failure: Failure, *, spends: int = 0, last: Failure | None = None) -> Transition:
    return _move(claim, Move.DIE, failure=failure, last_failure=last, spends=spends)


def _move(claim: Claim, move: Move, **what: Any) -> Transition:
    what |= {"attempt": claim.attempts, "worker": claim.worker, "gate": claim.gate}
    if claim.details.session is not None:
        what["origin"] = _origin(claim, claim.details.session)
    return Transition(claim.n, claim.token, claim.id, claim.queue, move, **what)


def _origin(claim: Claim, session: str) -> Origin:
    """Say for whom a job is done, and what lies behind it."""
    deferred = claim.details.queue_reason == DEFERRED
    repeated = claim.entered_before or claim.replays > 0
    return Origin(session, claim.handler, deferred, tried=True, repeated=repeated, maybe=claim.landed == Landed.MAYBE)
