"""How a queue's jobs are chosen and taken: in the order of `spine.priority`, and only those their gates let pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.job import Claim
from standfast.rules import QueueRules
from standfast.spine.orders import Want
from standfast.store.steps import Round, Rows, Script, text
from standfast.wings.limits import barriers
from standfast.wings.limits import probe_scripts as probes
from standfast.wings.limits.barriers import Barrier
from standfast.wings.workflows import scripts as workflows

HELD_BY_OTHERS = 1000
"""How many jobs a claim looks past that others are taking at the same moment."""
LONGEST_WAITING_EVERY = 10
"""Every tenth claim of a queue takes the longest-waiting job, whatever its priority."""
SMALLEST_BOOST, LARGEST_BOOST = 1e-100, 1e100
PASSES = 16
"""How often one claim looks for others in place of those it parked; then it lets others have their turn."""
LOOK_AGAIN_AFTER = 0.1
"""Seconds until a claim looks again at jobs whose gates were in somebody else's hands."""

MORE_ROOM_AFTER = 0.02
"""Seconds until a claim looks again that the disk had no room for: by then some of what runs may have ended."""

LARGEST_BROUGHT = 1 << 10
"""Bytes of a receipt that a claim brings along; a handler that asks for a bigger one reads it then."""

_claims = msgspec.json.Decoder(list[Claim])
decode_numbers = msgspec.json.Decoder(list[int]).decode


class Found(NamedTuple):
    """What a queue gave, and after how many seconds it may have more, if gates kept it from that."""

    claims: list[Claim]
    again: float | None = None


NOTHING = Found([])

Stamps = dict[str, tuple[str, float | None, Any]]
"""By the name of a handler, its replay mode, timeout and risk."""


def claim_queue(round_: Round, worker: str, want: Want, rules: QueueRules, already: int) -> Script[Found]:
    """Choose, take and read the claims of one queue, no more than the disk has room to end."""
    slots = round_.startable(want.slots)
    if slots == want.slots:
        return (yield from _claimed(round_, worker, want, rules, already))
    fewer = msgspec.structs.replace(want, slots=slots)
    found = (yield from _claimed(round_, worker, fewer, rules, already)) if slots else NOTHING
    return found._replace(again=min(MORE_ROOM_AFTER, found.again or MORE_ROOM_AFTER))


def _claimed(round_: Round, worker: str, want: Want, rules: QueueRules, already: int) -> Script[Found]:
    if rules.gate is not None and not (yield from _admitted(round_, want, rules, already)):
        return NOTHING
    disabled: Mapping[str, str] = barriers.NONE
    if want.ready is not None:
        disabled, left = yield from probes.heed(round_, want.queue, want.ready)
        if left:
            served = tuple(handler for handler in want.handlers if handler not in left)
            want = msgspec.structs.replace(want, handlers=served)
    lanes = yield from _lanes(want)
    if not lanes:
        return NOTHING
    before = yield from barriers.barrier(round_, want.queue, rules, {handler for handler, _ in lanes}, disabled)
    again: float | None = None
    if before is None:
        numbers = yield from _pick(round_, want, rules, lanes, already=already, wanted=want.slots)
        stamps = yield from _take(round_, worker, want.queue, rules, lanes=lanes, numbers=numbers)
    else:
        numbers, again, stamps = yield from _take_what_passes(round_, worker, want, before, already)
        if not numbers:
            return Found([], again)
    return Found((yield from _taken(round_, worker, want.queue, numbers, stamps)), again)


def claim_this(round_: Round, worker: str, want: Want, rules: QueueRules, n: int) -> Script[list[Claim]]:
    """Take one job that waits, unless something stands before it: then it stays, or is parked, as for any claim.

    A handler that is disabled is called all the same: its own error decides.
    """
    if want.ready is not None:
        yield from probes.heed(round_, want.queue, want.ready)
    if rules.gate is not None and not (yield from _admitted(round_, want, rules, 0)):
        return []
    before = yield from barriers.barrier(round_, want.queue, rules, want.handlers)
    if before is not None:
        room, _ = yield from barriers.room_for(round_, before)
        passed = (yield from barriers.passing(round_, before, [n], 1)) if room > 0 else None
        if passed is None or not passed.places:
            return []
    lanes: Rows = [(handler, 0) for handler in want.handlers]
    stamps = yield from _take(round_, worker, want.queue, rules, lanes=lanes, numbers=[n])
    return (yield from _taken(round_, worker, want.queue, [n], stamps))


def _taken(round_: Round, worker: str, queue: str, numbers: Sequence[int], stamps: Stamps) -> Script[list[Claim]]:
    """Count, read and tell of what was taken."""
    yield "count_claims", {"queue": queue, "worker": worker, "claims": len(numbers), "now": round_.now}
    claims = with_risks((yield from held_claims(numbers)), stamps)
    round_.started(len(claims))
    round_.told["claimed", queue] += [job.id for job in claims]
    return claims


def _lanes(want: Want) -> Script[Rows]:
    lanes = "suspect_lanes" if want.alone else "lanes"
    return (yield lanes, {"queue": want.queue, "handlers": text(want.handlers)})


def has_suspects(want: Want) -> Script[bool]:
    """Tell whether a queue has suspects for these handlers."""
    return bool((yield from _lanes(msgspec.structs.replace(want, alone=True))))


def _admitted(round_: Round, want: Want, rules: QueueRules, already: int) -> Script[bool]:
    """Heed what the queue's admission gate said; nobody starts anything without having asked it.

    What would start now is parked once for each closing, so that it is seen what it waits for. The rest stays.
    """
    if want.admission == "open":
        yield from barriers.opened(round_, want.queue)
        return True
    if want.admission is not None:
        lanes = yield from _lanes(want)
        if (yield from barriers.closed(round_, want.queue, want.admission, holds_back=bool(lanes))):
            numbers = yield from _pick(round_, want, rules, lanes, already=already, wanted=want.slots)
            yield from barriers.park_at_gate(want.queue, numbers)
    return False


def _take_what_passes(
    round_: Round, worker: str, want: Want, before: Barrier, already: int
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
        lanes = yield from _lanes(want)
        numbers = yield from _pick(round_, want, before.rules, lanes, already=already + len(taken), wanted=wanted)
        if not numbers:
            break
        passed = yield from barriers.passing(round_, before, numbers, wanted)
        stamps = yield from _take(round_, worker, want.queue, before.rules, lanes=lanes, numbers=list(passed.places))
        taken += passed.places
        again += [] if passed.again is None else [passed.again]
        if passed.left:
            again.append(LOOK_AGAIN_AFTER)
            break
    else:
        again.append(0.0)
    return taken, min(again, default=None), stamps


def _pick(round_: Round, want: Want, rules: QueueRules, lanes: Rows, *, already: int, wanted: int) -> Script[list[int]]:
    """Choose so many of what waits, in their order."""
    if want.alone:
        chosen = {"queue": want.queue, "handlers": text(want.handlers), "wanted": wanted}
        [(numbers,)] = yield "claim_suspects", chosen
        return decode_numbers(numbers)
    if len(lanes) > 1:
        return (yield from _choose(round_, want.queue, rules, lanes, already=already, wanted=wanted))
    found: list[int] = []
    for handler, priority in lanes:
        lane = {"queue": want.queue, "handler": handler, "priority": priority, "wanted": wanted}
        [(numbers,)] = yield "claim_lane", lane
        found = decode_numbers(numbers)
    return found


def _within_reason(boost: float) -> float:
    """Give a boost that times any age is a number: PostgreSQL refuses a product that is too small or too large."""
    return min(boost, LARGEST_BOOST) if boost > SMALLEST_BOOST else 0.0


def _choose(
    round_: Round, queue: str, rules: QueueRules, lanes: Rows, *, already: int, wanted: int
) -> Script[list[int]]:
    """Choose the longest-waiting for every tenth claim this makes, then the best for the rest."""
    every = LONGEST_WAITING_EVERY
    tenths = (already + wanted) // every - already // every
    boost = {"boost": _within_reason(rules.age_boost), "boost_cap": rules.age_boost_cap, "now": round_.now}
    among = {"queue": queue, "lanes": text(lanes), **boost}
    oldest = yield from _heads({**among, "oldest": True, "but": "[]"}, tenths)
    best = yield from _heads({**among, "oldest": False, "but": text(oldest)}, wanted - len(oldest))
    return oldest + best


def _heads(among: dict[str, Any], wanted: int) -> Script[list[int]]:
    """Choose so many of what waits; where others are just taking what comes first, look further."""
    found: list[int] = []
    for beyond in (0, HELD_BY_OTHERS):
        [(numbers, held)] = yield "claim_lanes", {**among, "wanted": wanted, "beyond": beyond}
        found = decode_numbers(numbers)
        if not held or len(found) == wanted:
            break
    return found


def handler_stamps(queue: str) -> Script[Stamps]:
    """Read what was published of a queue's handlers."""
    return {name: (mode, timeout, risk) for name, mode, timeout, risk in (yield "handler_stamps", {"queue": queue})}


def with_risks(claims: list[Claim], stamps: Stamps) -> list[Claim]:
    """Tell claims how risky their handlers are, where any of these is."""
    risks = {name: risk for name, (_, _, risk) in stamps.items() if risk is not None}
    if not risks:
        return claims
    return [msgspec.structs.replace(claim, handler_risk=risks.get(claim.handler)) for claim in claims]


def _take(
    round_: Round, worker: str, queue: str, rules: QueueRules, *, lanes: Rows, numbers: Sequence[int]
) -> Script[Stamps]:
    """Raise attempt and token of the chosen jobs, and stamp the rules in force on them; give what is declared."""
    declared = yield from handler_stamps(queue)
    stamps = {"attempts": rules.attempts, "lease": rules.lease}
    chosen = text(numbers)
    for handler in {handler for handler, _ in lanes}:
        replay_mode, timeout, _ = declared.get(handler, ("replay", None, None))
        how = {"replay_mode": replay_mode, "timeout": rules.timeout if timeout is None else timeout}
        taken = {"numbers": chosen, "handler": handler, "worker": worker, "now": round_.now}
        yield "take_jobs", {**taken, **stamps, **how}
    return declared


def held_claims(numbers: Iterable[int], *, since: int = 1) -> Script[list[Claim]]:
    """Read running jobs as their worker holds them; with their effects beyond the token `since`."""
    [(claims,)] = yield "held_claims", {"numbers": text(list(numbers)), "since": since, "most": LARGEST_BROUGHT}
    return (yield from workflows.with_parents(_claims.decode(claims)))
