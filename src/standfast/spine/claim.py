"""How a queue's jobs are chosen and taken: in the order of `spine.priority`, and only those their gates let pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.job import HTTP, Claim
from standfast.rules import QueueRules
from standfast.spine.known_rules import read_rules
from standfast.spine.orders import Catch, Order, Want
from standfast.spine.rounds import settle
from standfast.store.room import ROOM_TO_CLAIM
from standfast.store.scripts import writes
from standfast.store.steps import Round, Rows, Script, text

HELD_BY_OTHERS = 1000
"""How many jobs a claim looks past that others are taking at the same moment."""
LONGEST_WAITING_EVERY = 10
"""Every tenth claim of a queue takes the longest-waiting job, whatever its priority."""
SMALLEST_BOOST, LARGEST_BOOST = 1e-100, 1e100
DUE_PER_CLAIM = 500
"""How many delayed jobs one claim makes claimable; more wait for the next claim, so that none takes long."""
LOOK_AGAIN_AFTER = 0.1
"""Seconds until a claim looks again at jobs that another process held when their time came."""

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


@writes(room=ROOM_TO_CLAIM)
def claim(round_: Round, orders: Sequence[Order]) -> Script[list[Catch]]:
    """Give each worker what it can start now, in the order of `spine.priority`."""
    if round_.kept:
        yield from settle(round_)
    if round_.starts_nothing:
        return [Catch([], {}, None)] * len(orders)
    served = {want.queue for order in orders for want in order.wants}
    next_due, suspects = yield from _make_due_ready(round_, served)
    catches = []
    for order in orders:
        catch = yield from _fill(round_, order, suspects=suspects)
        catches.append(msgspec.structs.replace(catch, next_due=_sooner(next_due, catch.next_due)))
    return catches


def _sooner(one: float | None, other: float | None) -> float | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _make_due_ready(round_: Round, served: Collection[str]) -> Script[tuple[float | None, bool]]:
    """Make claimable what became due, and open the gates whose time has come; give the seconds until the next one's.

    And whether any job that waits must run alone.
    """
    [(due_at, opens_at, suspects)] = yield "next_due", {}
    seen = 0
    if opens_at is not None and opens_at <= round_.now:
        for opens in round_.riders.opens:
            yield from opens(round_, served)
    if due_at is not None and due_at <= round_.now:
        [(seen,)] = yield "promote_due", {"now": round_.now, "limit": DUE_PER_CLAIM}
        [(due_at, opens_at, suspects)] = yield "next_due", {}
        if due_at is not None and due_at <= round_.now:  # what has a thread joins that
            for joins in round_.riders.joins:
                seen = max(seen, (yield from joins(round_, DUE_PER_CLAIM)))
    following = _sooner(due_at, opens_at)
    if following is not None and following <= round_.now:
        [(due_at, opens_at, suspects)] = yield "next_due", {}
        following = _sooner(due_at, opens_at)
        if following is not None and following <= round_.now and seen < DUE_PER_CLAIM:
            return LOOK_AGAIN_AFTER, bool(suspects)  # what is left is in another transaction's hands
    return (None if following is None else max(0.0, following - round_.now)), bool(suspects)


def _fill(round_: Round, order: Order, *, suspects: bool) -> Script[Catch]:
    queues = [want.queue for want in order.wants]
    known = yield "queue_rules", {"queues": text(queues)}
    open_queues = {name for name, _, paused, _ in known if not paused}
    rules = read_rules(queues, known)
    claims: list[Claim] = []
    again: float | None = None
    waiting: list[str] = []
    for want in order.wants:
        if want.queue in open_queues and not (want.alone and claims):  # of suspects, one at a time
            if suspects and not want.alone and (yield from has_suspects(want)):
                waiting.append(want.queue)
            found = yield from claim_queue(round_, order.worker, want, rules[want.queue])
            claims += found.claims
            again = _sooner(again, found.again)
    news = (yield from round_.riders.informs()) if known and known[0][-1] != order.policy else None
    return Catch(claims, rules, again, news, tuple(waiting))


def claim_queue(round_: Round, worker: str, want: Want, rules: QueueRules) -> Script[Found]:
    """Choose, take and read the claims of one queue, no more than the disk has room to end."""
    slots = round_.startable(want.slots)
    if slots == want.slots:
        return (yield from _claimed(round_, worker, want, rules))
    fewer = msgspec.structs.replace(want, slots=slots)
    found = (yield from _claimed(round_, worker, fewer, rules)) if slots else NOTHING
    return found._replace(again=min(MORE_ROOM_AFTER, found.again or MORE_ROOM_AFTER))


def _claimed(round_: Round, worker: str, want: Want, rules: QueueRules) -> Script[Found]:
    if want.ready is None and not rules.regulated:
        if round_.takes is None or want.alone:
            lanes = yield from lanes_of(want)
        else:
            stamps = yield from handler_stamps(want.queue)
            claims, lanes = yield from round_.takes(round_, worker, want, rules, stamps, held_claims)
            if claims:
                return Found((yield from taken(round_, worker, want.queue, claims, stamps)))
        if not lanes:
            return NOTHING
        if all(handler != HTTP for handler, _ in lanes):
            numbers = yield from pick(round_, want, rules, lanes, wanted=want.slots)
            stamps = yield from take(round_, worker, want.queue, rules, lanes=lanes, numbers=numbers)
            claims = yield from held_claims(round_, numbers)
            return Found((yield from taken(round_, worker, want.queue, claims, stamps)))
    return (yield from round_.riders.admits(round_, worker, want, rules))  # type: ignore[no-any-return]


def taken(round_: Round, worker: str, queue: str, claims: list[Claim], stamps: Stamps) -> Script[list[Claim]]:
    """Count and tell of what was taken."""
    yield "count_claims", {"queue": queue, "worker": worker, "claims": len(claims), "now": round_.now}
    round_.started(len(claims))
    round_.told["claimed", queue] += [job.id for job in claims]
    return with_risks(claims, stamps)


def lanes_of(want: Want) -> Script[Rows]:
    """Read in which lanes, handler and priority, jobs wait that are wanted."""
    lanes = "suspect_lanes" if want.alone else "lanes"
    return (yield lanes, {"queue": want.queue, "handlers": text(want.handlers)})


def has_suspects(want: Want) -> Script[bool]:
    """Tell whether a queue has suspects for these handlers."""
    return bool((yield from lanes_of(msgspec.structs.replace(want, alone=True))))


def pick(
    round_: Round, want: Want, rules: QueueRules, lanes: Rows, *, wanted: int, taken: int = 0
) -> Script[list[int]]:
    """Choose so many of what waits, in their order."""
    if want.alone:
        chosen = {"queue": want.queue, "handlers": text(want.handlers), "wanted": wanted}
        [(numbers,)] = yield "claim_suspects", chosen
        return decode_numbers(numbers)
    if len(lanes) > 1:
        return (yield from _choose(round_, want.queue, rules, lanes, wanted=wanted, taken=taken))
    found: list[int] = []
    for handler, priority in lanes:
        lane = {"queue": want.queue, "handler": handler, "priority": priority, "wanted": wanted}
        [(numbers,)] = yield "claim_lane", lane
        found = decode_numbers(numbers)
    return found


def _within_reason(boost: float) -> float:
    """Give a boost that times any age is a number: PostgreSQL refuses a product that is too small or too large."""
    return min(boost, LARGEST_BOOST) if boost > SMALLEST_BOOST else 0.0


def _choose(round_: Round, queue: str, rules: QueueRules, lanes: Rows, *, wanted: int, taken: int) -> Script[list[int]]:
    """Choose the longest-waiting for every tenth claim this makes, then the best for the rest."""
    every = LONGEST_WAITING_EVERY
    [(counted,)] = yield "claims_so_far", {"queue": queue}
    already = counted + taken
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


def take(
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


def held_claims(round_: Round, numbers: Iterable[int], *, since: int = 1) -> Script[list[Claim]]:
    """Read running jobs as their worker holds them; with their effects beyond the token `since`."""
    [(claims,)] = yield "held_claims", {"numbers": text(list(numbers)), "since": since, "most": LARGEST_BROUGHT}
    found = _claims.decode(claims)
    if any(claim.pending is not None for claim in found):
        for brings in round_.riders.brings:
            found = yield from brings(found)
    return found
