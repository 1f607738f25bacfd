"""Claims from queues that something holds back: gates let candidates pass, or park them where it is seen."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from standfast.job import Claim
from standfast.rules import QueueRules
from standfast.spine.claim import LOOK_AGAIN_AFTER, NOTHING, Found, Stamps, held_claims, lanes_of, pick, take, taken
from standfast.spine.orders import Want
from standfast.store.steps import Round, Rows, Script
from standfast.wings.limits import barriers
from standfast.wings.limits import probe_scripts as probes
from standfast.wings.limits.barriers import Barrier

PASSES = 16
"""How often one claim looks for others in place of those it parked; then it lets others have their turn."""


def claim_regulated(round_: Round, worker: str, want: Want, rules: QueueRules) -> Script[Found]:
    """Claim from a queue that something may hold back."""
    if rules.gate is not None and not (yield from _admitted(round_, want, rules)):
        return NOTHING
    disabled: Mapping[str, str] = barriers.NONE
    if want.ready is not None:
        disabled, left = yield from probes.heed(round_, want.queue, want.ready)
        if left:
            served = tuple(handler for handler in want.handlers if handler not in left)
            want = msgspec.structs.replace(want, handlers=served)
    lanes = yield from lanes_of(want)
    if not lanes:
        return NOTHING
    before = yield from barriers.barrier(round_, want.queue, rules, {handler for handler, _ in lanes}, disabled)
    again: float | None = None
    if before is None:
        numbers = yield from pick(round_, want, rules, lanes, wanted=want.slots)
        stamps = yield from take(round_, worker, want.queue, rules, lanes=lanes, numbers=numbers)
    else:
        numbers, again, stamps = yield from _take_what_passes(round_, worker, want, before)
        if not numbers:
            return Found([], again)
    claims = yield from held_claims(round_, numbers)
    return Found((yield from taken(round_, worker, want.queue, claims, stamps)), again)


def claim_this(round_: Round, worker: str, want: Want, rules: QueueRules, n: int) -> Script[list[Claim]]:
    """Take one job that waits, unless something stands before it: then it stays, or is parked, as for any claim.

    A handler that is disabled is called all the same: its own error decides.
    """
    if want.ready is not None:
        yield from probes.heed(round_, want.queue, want.ready)
    if rules.gate is not None and not (yield from _admitted(round_, want, rules)):
        return []
    before = yield from barriers.barrier(round_, want.queue, rules, want.handlers)
    if before is not None:
        room, _ = yield from barriers.room_for(round_, before)
        passed = (yield from barriers.passing(round_, before, [n], 1)) if room > 0 else None
        if passed is None or not passed.places:
            return []
    lanes: Rows = [(handler, 0) for handler in want.handlers]
    stamps = yield from take(round_, worker, want.queue, rules, lanes=lanes, numbers=[n])
    return (yield from taken(round_, worker, want.queue, (yield from held_claims(round_, [n])), stamps))


def _admitted(round_: Round, want: Want, rules: QueueRules) -> Script[bool]:
    """Heed what the queue's admission gate said; nobody starts anything without having asked it.

    What would start now is parked once for each closing, so that it is seen what it waits for. The rest stays.
    """
    if want.admission == "open":
        yield from barriers.opened(round_, want.queue)
        return True
    if want.admission is not None:
        lanes = yield from lanes_of(want)
        if (yield from barriers.closed(round_, want.queue, want.admission, holds_back=bool(lanes))):
            numbers = yield from pick(round_, want, rules, lanes, wanted=want.slots)
            yield from barriers.park_at_gate(want.queue, numbers)
    return False


def _take_what_passes(
    round_: Round, worker: str, want: Want, before: Barrier
) -> Script[tuple[list[int], float | None, Stamps]]:
    """Take what its gates let pass. What they do not is parked and leaves the index: nobody looks at it twice."""
    taken: list[int] = []
    again: list[float] = []
    stamps: Stamps = {}
    for _ in range(PASSES):
        room, wait = yield from barriers.room_for(round_, before)
        wanted = min(want.slots - len(taken), room)
        if wanted <= 0:
            again += [] if wait is None else [wait]
            break
        lanes = yield from lanes_of(want)
        numbers = yield from pick(round_, want, before.rules, lanes, taken=len(taken), wanted=wanted)
        if not numbers:
            break
        passed = yield from barriers.passing(round_, before, numbers, wanted)
        stamps = yield from take(round_, worker, want.queue, before.rules, lanes=lanes, numbers=list(passed.places))
        taken += passed.places
        again += [] if passed.again is None else [passed.again]
        if passed.left:
            again.append(LOOK_AGAIN_AFTER)
            break
    else:
        again.append(0.0)
    return taken, min(again, default=None), stamps
