"""Claims from queues that something holds back: gates let candidates pass, or park them visibly."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from standfast.job import Claim
from standfast.rules import QueueRules
from standfast.spine.claim import (
    LOOK_AGAIN_AFTER,
    NOTHING,
    QueueClaims,
    Stamps,
    held_claims,
    lanes_of,
    pick,
    record_claims,
    take,
)
from standfast.spine.claim_requests import QueueDemand
from standfast.store.steps import Round, Rows, Script
from standfast.wings.limits import barriers
from standfast.wings.limits import probe_scripts as probes
from standfast.wings.limits.barriers import Barrier

PASSES = 16
"""How often one claim looks for more jobs in place of those it parked; then other claims have their turn."""


def claim_regulated(round_: Round, worker: str, demand: QueueDemand, rules: QueueRules) -> Script[QueueClaims]:
    """Claim from a queue whose jobs something may hold back."""
    if rules.gate is not None and not (yield from _admitted(round_, demand, rules)):
        held = demand.alone and bool((yield from lanes_of(demand)))
        return QueueClaims([], LOOK_AGAIN_AFTER if held else None)
    disabled: Mapping[str, str] = barriers.NONE
    if demand.ready is not None:
        disabled, left = yield from probes.record_probes(round_, demand.queue, demand.ready)
        if left:
            served = tuple(handler for handler in demand.handlers if handler not in left)
            demand = msgspec.structs.replace(demand, handlers=served)
    lanes = yield from lanes_of(demand)
    if not lanes:
        return NOTHING
    before = yield from barriers.barrier(round_, demand.queue, rules, {handler for handler, _ in lanes}, disabled)
    again: float | None = None
    if before is None:
        numbers = yield from pick(round_, demand, rules, lanes, wanted=demand.slots)
        stamps = yield from take(round_, worker, demand, rules, lanes=lanes, numbers=numbers)
    else:
        take_passing = _take_suspect if demand.alone else _take_what_passes
        numbers, again, stamps = yield from take_passing(round_, worker, demand, before)
        if not numbers:
            return QueueClaims([], again)
    claims = yield from held_claims(round_, numbers)
    return QueueClaims((yield from record_claims(round_, worker, demand.queue, claims, stamps)), again)


def claim_this(round_: Round, worker: str, demand: QueueDemand, rules: QueueRules, n: int) -> Script[list[Claim]]:
    """Claim one waiting job, unless a gate stands before it: then it stays or is parked, as for any claim.

    A disabled handler is still called: its own error decides.
    """
    if demand.ready is not None:
        yield from probes.record_probes(round_, demand.queue, demand.ready)
    if rules.gate is not None and not (yield from _admitted(round_, demand, rules)):
        return []
    before = yield from barriers.barrier(round_, demand.queue, rules, demand.handlers)
    if before is not None:
        room, _ = yield from barriers.room_for(round_, before)
        passed = (yield from barriers.pass_gates(round_, before, [n], 1)) if room > 0 else None
        if passed is None or not passed.places:
            return []
    lanes: Rows = [(handler, 0) for handler in demand.handlers]
    stamps = yield from take(round_, worker, demand, rules, lanes=lanes, numbers=[n])
    return (yield from record_claims(round_, worker, demand.queue, (yield from held_claims(round_, [n])), stamps))


def _admitted(round_: Round, demand: QueueDemand, rules: QueueRules) -> Script[bool]:
    """Apply the answer of the queue's admission gate; no job starts without asking it.

    The jobs that would start now are parked, once for each closing, so that people can see what they wait for. The
    rest stays.
    """
    if demand.admission == "open":
        yield from barriers.opened(round_, demand.queue)
        return True
    if demand.admission is not None:
        lanes = yield from lanes_of(demand)
        if (yield from barriers.closed(round_, demand.queue, demand.admission, holds_back=bool(lanes))):
            numbers = yield from pick(round_, demand, rules, lanes, wanted=demand.slots)
            yield from barriers.park_at_gate(demand.queue, numbers)
    return False


def _take_what_passes(
    round_: Round, worker: str, demand: QueueDemand, before: Barrier
) -> Script[tuple[list[int], float | None, Stamps]]:
    """Take the jobs that their gates let pass. The rest is parked and leaves the index, so it is not scanned again."""
    taken: list[int] = []
    again: list[float] = []
    stamps: Stamps = {}
    for _ in range(PASSES):
        room, wait = yield from barriers.room_for(round_, before)
        wanted = min(demand.slots - len(taken), room)
        if wanted <= 0:
            again += [] if wait is None else [wait]
            break
        lanes = yield from lanes_of(demand)
        numbers = yield from pick(round_, demand, before.rules, lanes, taken=len(taken), wanted=wanted)
        if not numbers:
            break
        passed = yield from barriers.pass_gates(round_, before, numbers, wanted)
        stamps = yield from take(round_, worker, demand, before.rules, lanes=lanes, numbers=list(passed.places))
        taken += passed.places
        again += [] if passed.again is None else [passed.again]
        if passed.left:
            again.append(LOOK_AGAIN_AFTER)
            break
    else:
        again.append(0.0)
    return taken, min(again, default=None), stamps


def _take_suspect(
    round_: Round, worker: str, demand: QueueDemand, before: Barrier
) -> Script[tuple[list[int], float | None, Stamps]]:
    """Take the first suspect that its gates let pass. If none may start now, the first waits for the next place.

    Places and tokens are not counted beforehand: a suspect that was let through already has its own.
    """
    again: float | None = None
    for _ in range(PASSES):
        before = yield from barriers.for_suspects(before)
        lanes = yield from lanes_of(demand)
        numbers = yield from pick(round_, demand, before.rules, lanes, wanted=1)
        if not numbers:
            break
        passed = yield from barriers.pass_gates(round_, before, numbers, 1)
        if passed.places:
            stamps = yield from take(round_, worker, demand, before.rules, lanes=lanes, numbers=numbers)
            return numbers, None, stamps
        again = LOOK_AGAIN_AFTER
        if passed.left:
            break
    else:
        again = 0.0
    return [], again, {}
