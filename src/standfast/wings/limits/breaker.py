"""What the end of an attempt says about the job's dependency, and what becomes of a probe that was not answered."""

from __future__ import annotations

import msgspec

from standfast.failure import Class, Landed
from standfast.job import HTTP, Claim
from standfast.lifecycle import AttemptFailure, Move, Transition
from standfast.outcome import Failed, Outcome, Succeeded, TimedOut, Unfinished
from standfast.rules import QueueRules
from standfast.wings.limits import words as gates

ANSWERS = "rate_limited"
"""A receiver that says "slow down" is up: a rate or the time it names slows the jobs, and no breaker is needed."""

_read = msgspec.json.Decoder().decode


def report_dependency(claim: Claim, outcome: Outcome, rules: QueueRules, decided: Transition) -> Transition:
    """Add to a decided change what it says about the job's dependency. A probe that did not arrive is free."""
    if rules.breaker is None or (claim.handler != HTTP and rules.breaker.dependency is None):
        return decided
    gate = gates.breaker_of(rules.breaker, _read(claim.payload) if claim.handler == HTTP else None)
    if gate is None:
        return decided
    answers = dependency_answered(outcome)
    word = gates.DependencyAnswer(answers, rules.breaker.failures, rules.breaker.open_for)
    if answers is False and gate in (claim.occupies or ()) and decided.effect == Landed.NO:
        return _given_back(decided).carrying(gates.Report(gate, word, waits=True))
    return decided.carrying(gates.Report(gate, word))


def dependency_answered(outcome: Outcome) -> bool | None:
    """Return whether the dependency answered; None if the attempt does not say. A refusal is an answer."""
    match outcome:
        case Succeeded():
            return True
        case Unfinished(ended):
            return dependency_answered(ended)
        case TimedOut():
            return False
        case Failed(refused=True):
            return True
        case Failed(failure) if failure.cls == Class.TRANSIENT:
            return failure.reason_code == ANSWERS
        case Failed(failure) if failure.cls == Class.PERMANENT:
            return True
        case _:
            return None


def _given_back(decided: Transition) -> Transition:
    """Let a probe that found the dependency still away wait on: it was only meant to look, so it spends no attempt."""
    failure = decided.attempt_failure
    again = msgspec.structs.replace(decided, move=Move.GIVE_BACK, delay=0.0, spends=-1, defers=1, failure=None)
    return again if failure is None else again.carrying(AttemptFailure(failure))
