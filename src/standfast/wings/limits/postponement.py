"""If a receiver refuses temporarily and says when to come back, that is no failure: the job waits until then."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from standfast.failure import Class, Landed
from standfast.job import HTTP, Claim
from standfast.lifecycle import AttemptFailure, Carried, Move, PossibleDuplicate, Transition, duplicate_if
from standfast.outcome import Failed, Outcome
from standfast.printable import span
from standfast.rules import QueueRules
from standfast.wings.limits import holds
from standfast.wings.limits.holds import MOST_IN_A_ROW, HoldRequest

_read = msgspec.json.Decoder().decode


class Refused(Carried, frozen=True):
    """The job's receiver refused it temporarily and said when to come back."""

    @property
    def history_marks(self) -> Mapping[str, Any]:
        """Mark the line of the history."""
        return {"refused": True}

    def next_step(self, end: Transition) -> tuple[int, str]:
        """Say how long the job waits."""
        return logging.INFO, f"its receiver asked to wait {span(end.delay)}, and no attempt is spent"


def postponed(claim: Claim, outcome: Outcome, rules: QueueRules, decided: Transition) -> Transition:
    """Give a refused attempt back, with the time its receiver named; return any other decision unchanged.

    After `MOST_IN_A_ROW` refusals in a row the attempt counts, so that a receiver which never accepts is noticed.
    """
    if not isinstance(outcome, Failed) or not outcome.refused or claim.refusals >= MOST_IN_A_ROW:
        return decided
    failure = decided.attempt_failure
    if failure is None or failure.cls is Class.PERMANENT:
        return decided
    maybe = failure.landed == Landed.MAYBE
    if maybe and (claim.replay_mode == "manual" or not claim.repeatable):
        return decided
    wait = outcome.retry_after or 0.0
    hold = _hold(claim, rules, wait)
    put_off = msgspec.structs.replace(
        decided.without(PossibleDuplicate),
        move=Move.GIVE_BACK,
        delay=wait,
        spends=-1,
        defers=1,
        failure=None,
        landed=failure.landed,
    )
    twice = duplicate_if(maybe and claim.replay_mode == "replay")
    return put_off.carrying(Refused(), AttemptFailure(failure), *twice, *(() if hold is None else (hold,)))


def _hold(claim: Claim, rules: QueueRules, wait: float) -> HoldRequest | None:
    """Return the request that the queue's other jobs for the same destination wait too."""
    request = claim.handler == HTTP
    if not wait or not (request or holds.names_destinations(rules)):
        return None
    gate = holds.gate_of(claim.queue, rules, _read(claim.payload), request=request)
    return None if gate is None else HoldRequest(gate, wait)
