"""What becomes of a job because of what looks found of its effects."""

from __future__ import annotations

from msgspec.structs import replace

from standfast.failure import Class, Failure, Landed, reason
from standfast.failure.retry_after import honour_retry_after
from standfast.job import Claim
from standfast.lifecycle import Move, State, Transition
from standfast.outcome import Failed, Look, LookFailed, Outcome, Recovered, TimedOut, Undetermined, Unfinished
from standfast.rules import QueueRules
from standfast.spine.backoff import delay
from standfast.spine.settle import failed, move, timed_out
from standfast.wings.effects.findings import with_findings
from standfast.wings.effects.rules import closes, doubted, sightings, with_looks

RECOVERED = "post_write_recovery"
"""The warning of a job that was found to be done before it was repeated."""
LOOK_FAILED = "look_failed"
LOOK_AGAIN = (
    "Fix what the check needs, then replay: standfast checks first, and runs only what is missing. If you know "
    "that the effect exists, resolve the letter; if you give a result, nothing is checked."
)


def recovered(claim: Claim, found: Recovered, _rules: QueueRules, _roll: float) -> Transition:
    """Complete a job whose effects all exist."""
    entered = {"spends": found.entered - 1, "begun": found.entered}
    done = move(claim, Move.COMPLETE, **entered, warning=RECOVERED, result=found.result)
    return with_findings(done, looks=sightings(found.looks))


def undetermined(claim: Claim, outcome: Undetermined, _rules: QueueRules, _roll: float) -> Transition:
    """Hold a job for a person, because its checks could not determine its effects."""
    return _hold(claim, outcome.looks, outcome.message, begun=outcome.entered)


def look_again(claim: Claim, look: LookFailed, rules: QueueRules, roll: float) -> Transition:
    """Postpone a job whose look failed temporarily, as often as it may be tried; then hold it for a person."""
    if claim.failed_looks >= claim.allowed:
        return _hold(claim, look.looks, look.message, begun=False)
    again = claim.failed_looks + 1
    wait = delay(rules.backoff, again, roll) if look.retry_after is None else honour_retry_after(look.retry_after)
    what = {"reason_code": LOOK_FAILED, "message": look.message, "advice": reason(LOOK_FAILED).advice}
    failure = Failure(cls=Class.TRANSIENT, landed=Landed.MAYBE, **what)
    put_off = move(claim, Move.GIVE_BACK, delay=wait, spends=-1, defers=1, begun=False, failure=failure)
    return with_findings(put_off, looks=sightings(look.looks), look_failed=True)


def _hold(claim: Claim, looks: tuple[Look, ...], message: str, *, begun: bool) -> Transition:
    code = "unknown_commit_state"
    failure = Failure(cls=Class.UNKNOWN, landed=Landed.MAYBE, reason_code=code, message=message, advice=LOOK_AGAIN)
    held = move(claim, Move.HOLD, spends=begun - 1, begun=begun, failure=failure)
    return with_findings(held, looks=sightings(looks))


def unfinished(claim: Claim, outcome: Unfinished, rules: QueueRules, roll: float) -> Transition:
    """Let the rest of a handler run whose effects all exist: it fails as it did, but no effect is in doubt.

    If the look found an effect that was begun, that is progress.
    """
    progressed = claim.progressed or int(closes(claim.ledger, outcome.looks))
    known = replace(claim, ledger=with_looks(claim.ledger, outcome.looks), progressed=progressed)
    retry_after = None if isinstance(outcome.ended, TimedOut) else outcome.ended.retry_after
    failure = timed_out(known) if isinstance(outcome.ended, TimedOut) else outcome.ended.failure
    landed = Landed.MAYBE if known.open_steps else Landed.NO
    decided = failed(known, replace(failure, landed=landed), retry_after, rules, roll)
    goes_on = bool(progressed) and decided.target == State.QUEUED
    return with_findings(decided, looks=sightings(outcome.looks), progress=goes_on)


def reopen(claim: Claim, outcome: Outcome, _rules: QueueRules, decided: Transition) -> Transition:
    """Reopen the effects that, by the handler's own result, do not exist."""
    reopened = doubted(claim, outcome.doubts) if isinstance(outcome, Failed) else ()
    return with_findings(decided, reopens=reopened) if reopened else decided


def count_progress(claim: Claim, _outcome: Outcome, _rules: QueueRules, decided: Transition) -> Transition:
    """Let an attempt that made progress open a new round, if the job goes on."""
    if not claim.progressed or decided.target != State.QUEUED:
        return decided
    return with_findings(decided, progress=True)
