"""How a queue's jobs are chosen and claimed: by priority and age, and only those that limits and gates let through.

A job's priority grows by `age_boost` for each hour that it has been ready, up to `age_boost_cap`. The highest goes
first; of equals, the one that has waited longest. Every tenth claim of a queue takes the longest-waiting job of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import msgspec

from standfast.job import HTTP, Claim, Details
from standfast.lifecycle import NoticeKind
from standfast.profiles import RULES
from standfast.rules import DEFAULTS, STRICTNESS, QueueRules, ReplayMode
from standfast.spine.claim_requests import ClaimRequest, ClaimResult, QueueDemand
from standfast.spine.rounds import settle
from standfast.store.room import ROOM_TO_CLAIM
from standfast.store.scripts import writes
from standfast.store.steps import Round, Rows, Script, encode, text

HELD_BY_OTHERS = 1000
"""How many jobs further down a claim looks if other claims are taking the first ones at the same moment."""
LONGEST_WAITING_EVERY = 10
SMALLEST_BOOST, LARGEST_BOOST = 1e-100, 1e100
DUE_PER_CLAIM = 500
"""How many delayed jobs one claim makes claimable. The rest wait for the next claim, so that none takes long."""
LOOK_AGAIN_AFTER = 0.1
"""Seconds until a claim looks again at jobs that another process had locked when they became due."""
MORE_ROOM_AFTER = 0.02
"""Seconds until a claim that the disk had no room for is tried again: some running jobs may have ended by then."""
LARGEST_BROUGHT = 1 << 10
"""The largest receipt, in bytes, that a claim carries. A larger one is read when a handler asks for it."""
_id, _queue, _pending, _risk = attrgetter("id"), attrgetter("queue"), attrgetter("pending"), itemgetter(2)
_claims = msgspec.json.Decoder(list[Claim])
_read_rules = lru_cache(maxsize=1024)(msgspec.json.Decoder(QueueRules).decode)
"""Decodes published rules; the same text is decoded only once."""
decode_numbers = msgspec.json.Decoder(list[int]).decode


class QueueClaims(NamedTuple):
    """The jobs claimed from a queue and, if gates held others back, the seconds until it may have more."""

    claims: list[Claim]
    again: float | None = None


NOTHING = QueueClaims([])

Stamps = dict[str, tuple[str, float | None, Any]]
"""The replay mode, timeout and risk of each handler, by its name."""


@writes(room=ROOM_TO_CLAIM)
def claim(round_: Round, requests: Sequence[ClaimRequest]) -> Script[list[ClaimResult]]:
    """Claim for each worker the jobs it can start now."""
    if round_.states:
        yield from settle(round_)
    if round_.claims_frozen:
        return [ClaimResult([], {}, None)] * len(requests)
    next_due, suspects = yield from _make_due_ready(round_, requests)
    results = []
    for request in requests:
        results.append((yield from _fill(round_, request, next_due, suspects=suspects)))  # noqa: PERF401 - it yields
    return results


def _sooner(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else min(one, other)


def _make_due_ready(round_: Round, requests: Sequence[ClaimRequest]) -> Script[tuple[float | None, bool]]:
    """Make due jobs claimable and open gates; return the seconds until the next one, and whether suspects wait."""
    now = round_.now
    [(due_at, after_it, opens_at, suspects)] = yield "next_due", {}
    promoted = 0
    if opens_at is not None and opens_at <= now:
        served = {demand.queue for request in requests for demand in request.demands}
        for opens in round_.riders.opens:
            yield from opens(round_, served)
    if due_at is not None and due_at <= now:
        [(promoted,)] = yield "promote_due", {"now": now, "limit": DUE_PER_CLAIM}
        if promoted == 1 and (after_it is None or after_it > now):
            due_at = after_it  # it was the only job due
        else:
            [(due_at, _, opens_at, _)] = yield "next_due", {}
        if due_at is not None and due_at <= now:  # due jobs that have a thread take their place in it
            for joins in round_.riders.joins:
                promoted = max(promoted, (yield from joins(round_, DUE_PER_CLAIM)))
    if due_at is None and opens_at is None:
        return None, bool(suspects)
    following = _sooner(due_at, opens_at)
    if following is not None and following <= now:
        [(due_at, _, opens_at, _)] = yield "next_due", {}
        following = _sooner(due_at, opens_at)
        if following is not None and following <= now and promoted < DUE_PER_CLAIM:
            return LOOK_AGAIN_AFTER, bool(suspects)  # another transaction has the rest locked
    return (None if following is None else max(0.0, following - now)), bool(suspects)


def _fill(round_: Round, request: ClaimRequest, again: float | None, *, suspects: bool) -> Script[ClaimResult]:
    """Claim the jobs that a worker can start now; `again` is the number of seconds until there may be more."""
    queues = [*map(_queue, request.demands)]
    known = yield "queue_rules", {"queues": encode(queues).decode()}
    rules, open_queues = read_rules(queues, known)
    claims: list[Claim] = []
    waiting: list[str] = []
    for demand in request.demands:
        if demand.queue in open_queues and not (demand.alone and claims):  # a suspect is claimed only on its own
            if suspects and not demand.alone and (yield from startable_suspects(demand, rules[demand.queue])):
                waiting.append(demand.queue)
            found = yield from claim_queue(round_, request.worker, demand, rules[demand.queue])
            claims += found.claims
            if found.again is not None:
                again = _sooner(again, found.again)
                waiting += [demand.queue] if demand.alone else []
    news = (yield from round_.riders.informs()) if known and known[0][-1] != request.policy else None
    return ClaimResult(claims, rules, again, news, tuple(waiting))


def claim_queue(round_: Round, worker: str, demand: QueueDemand, rules: QueueRules) -> Script[QueueClaims]:
    """Choose, take and read the jobs of one queue: at most as many as the disk has room to end."""
    if round_.starts_left is not None and round_.starts_left < demand.slots:
        return (yield from _claim_fewer(round_, worker, demand, rules))
    if demand.ready is None and not demand.alone and not rules.regulated:
        claims = yield from _claimed_plainly(round_, worker, demand, rules)
        if claims is not None:
            return QueueClaims(claims)
    return (yield from round_.riders.admits(round_, worker, demand, rules))  # type: ignore[no-any-return]


def _claim_fewer(round_: Round, worker: str, demand: QueueDemand, rules: QueueRules) -> Script[QueueClaims]:
    """Claim as many jobs as the disk has room to end, and look again soon."""
    fewer = msgspec.structs.replace(demand, slots=round_.starts_left)
    found = (yield from claim_queue(round_, worker, fewer, rules)) if fewer.slots else NOTHING
    return found._replace(again=min(MORE_ROOM_AFTER, found.again or MORE_ROOM_AFTER))


def _claimed_plainly(round_: Round, worker: str, demand: QueueDemand, rules: QueueRules) -> Script[list[Claim] | None]:
    """Claim from a queue without limits, in as few statements as possible; return None if HTTP requests wait there too.

    If the queue has a single lane, PostgreSQL chooses, takes and reads its jobs in one statement; SQLite skips that.
    """
    queue, now = demand.queue, round_.now
    declared = yield from handler_stamps(queue, demand.modes)
    stamps = []
    for name in demand.handlers:
        stamps.append((name, *declared.get(name, UNDECLARED)[:2]))  # noqa: PERF401 - one call less for every claim
    terms = {"attempts": rules.attempts, "lease": rules.lease, "worker": worker, "now": now}
    among = {"queue": queue, "wanted": demand.slots}
    rows = yield (
        "take_lane",
        {**among, **terms, "timeout": rules.timeout, "stamps": encode(stamps).decode(), "but": HTTP},
    )
    if not rows or rows[0][2] is None:
        lanes = rows or (yield "lane_heads", {**among, "handlers": encode(demand.handlers).decode()})
        if not lanes or HTTP in map(_first, lanes):
            return None if lanes else []
        if lanes[0][2] is None:
            numbers = yield from pick(round_, demand, rules, [row[:2] for row in lanes], wanted=demand.slots)
        else:
            numbers = decode_numbers(lanes[0][2])
        for handler in {*map(_first, lanes)}:
            mode, timeout, _ = declared.get(handler, UNDECLARED)
            how = {"replay_mode": mode, "timeout": rules.timeout if timeout is None else timeout, "handler": handler}
            yield "take_jobs", {**terms, **how, "numbers": numbers}
        rows = yield "plain_claims", {"numbers": numbers}
        if numbers != [*map(_number, rows)]:
            rows = [*filter(None, map({row[2]: row for row in rows}.get, numbers))]
    if all(map(_is_plain, rows)):
        claims = _plain_claims(queue, worker, now, rows)
    else:
        claims = yield from held_claims(round_, [*map(_number, rows)])
    return (yield from record_claims(round_, worker, queue, claims, declared))


UNDECLARED = ("replay", None, None)
_first, _number, _is_plain, _stamp = itemgetter(0), itemgetter(2), itemgetter(-2), itemgetter(1, 2, 3)


def _plain_claims(queue: str, worker: str, now: float, rows: Rows) -> list[Claim]:
    """Make claims from rows of `plain_claims`."""
    claims = []
    for row in rows:
        handler, _, n, token, id_, payload, attempts, most, start, lease, timeout, mode, entered, expires = row[:14]
        told, seen, due = _details(row[14]), *row[15:17]
        mine = n, token, id_, queue, handler, worker, payload, attempts, most, start, lease, timeout, mode, now
        claims.append(
            Claim(*mine, entered, expires, None, told, first_seen_at=seen, due_at=due, plain=told.session is None)
        )
    return claims


_details = lru_cache(maxsize=256)(msgspec.json.Decoder(Details).decode)
"""Decodes job details, with a cache: those of most jobs are alike."""


def record_claims(round_: Round, worker: str, queue: str, claims: list[Claim], declared: Stamps) -> Script[list[Claim]]:
    """Count the claimed jobs, note them for the journal, and return them with the risks of their handlers."""
    yield "count_claims", {"queue": queue, "worker": worker, "claims": len(claims), "now": round_.now}
    if round_.starts_left is not None:
        round_.starts_left -= len(claims)
    round_.notices[NoticeKind.CLAIMED, queue] += map(_id, claims)
    return with_risks(claims, declared) if any(map(_risk, declared.values())) else claims


def lanes_of(demand: QueueDemand) -> Script[Rows]:
    """Read the lanes (handler and priority) in which wanted jobs wait."""
    lanes = "suspect_lanes" if demand.alone else "lanes"
    return (yield lanes, {"queue": demand.queue, "handlers": text(demand.handlers)})


def startable_suspects(demand: QueueDemand, rules: QueueRules = DEFAULTS) -> Script[int]:
    """Return how many suspects for these handlers may start: none while the queue's gate is not known to be open."""
    if rules.gate is not None and demand.admission != "open":
        return 0
    return int((yield "startable_suspects", {"queue": demand.queue, "handlers": text(demand.handlers)})[0][0])


def pick(
    round_: Round, demand: QueueDemand, rules: QueueRules, lanes: Rows, *, wanted: int, taken: int = 0
) -> Script[list[int]]:
    """Choose `wanted` waiting jobs, in their order."""
    if demand.alone:
        chosen = {"queue": demand.queue, "handlers": text(demand.handlers), "wanted": wanted}
        [(numbers,)] = yield "claim_suspects", chosen
        return decode_numbers(numbers)
    if len(lanes) > 1:
        return (yield from _choose(round_, demand.queue, rules, lanes, wanted=wanted, taken=taken))
    found: list[int] = []
    for handler, priority in lanes:
        lane = {"queue": demand.queue, "handler": handler, "priority": priority, "wanted": wanted}
        [(numbers,)] = yield "claim_lane", lane
        found = decode_numbers(numbers)
    return found


def _choose(round_: Round, queue: str, rules: QueueRules, lanes: Rows, *, wanted: int, taken: int) -> Script[list[int]]:
    """Choose the longest-waiting job for every tenth claim, and the best jobs for the others."""
    every = LONGEST_WAITING_EVERY
    [(counted,)] = yield "claims_so_far", {"queue": queue}
    already = counted + taken
    tenths = (already + wanted) // every - already // every
    # The product with any age must be a valid number: PostgreSQL refuses one that is too extreme.
    boost = min(rules.age_boost, LARGEST_BOOST) if rules.age_boost > SMALLEST_BOOST else 0.0
    among = {"queue": queue, "lanes": text(lanes), "boost": boost, "boost_cap": rules.age_boost_cap, "now": round_.now}
    oldest = yield from _heads({**among, "oldest": True, "but": "[]"}, tenths)
    best = yield from _heads({**among, "oldest": False, "but": text(oldest)}, wanted - len(oldest))
    return oldest + best


def _heads(among: dict[str, Any], wanted: int) -> Script[list[int]]:
    """Choose `wanted` waiting jobs. If other claims are taking the first ones at this moment, look further."""
    found: list[int] = []
    for beyond in (0, HELD_BY_OTHERS):
        [(numbers, held)] = yield "claim_lanes", {**among, "wanted": wanted, "beyond": beyond}
        found = decode_numbers(numbers)
        if not held or len(found) == wanted:
            break
    return found


def handler_stamps(queue: str, own: Mapping[str, ReplayMode] | None = None) -> Script[Stamps]:
    """Read what was published about a queue's handlers; no mode is less strict than in the worker's `own` code."""
    rows = yield "handler_stamps", {"queue": queue}
    found = dict(zip(map(_first, rows), map(_stamp, rows), strict=True))
    for name, mode in own.items() if own else ():
        published, *rest = found.get(name, UNDECLARED)
        found[name] = (max(published, mode, key=STRICTNESS), *rest)
    return found


def with_risks(claims: list[Claim], stamps: Stamps) -> list[Claim]:
    """Set the handler's risk on each claim."""
    risks = {name: risk for name, (_, _, risk) in stamps.items() if risk is not None}
    return [msgspec.structs.replace(claim, handler_risk=risks.get(claim.handler)) for claim in claims]


def take(
    round_: Round, worker: str, demand: QueueDemand, rules: QueueRules, *, lanes: Rows, numbers: Sequence[int]
) -> Script[Stamps]:
    """Raise the attempt and token of the chosen jobs, stamp the rules in force on them, and return the declarations."""
    declared = yield from handler_stamps(demand.queue, demand.modes)
    stamps = {"attempts": rules.attempts, "lease": rules.lease}
    for handler in {handler for handler, _ in lanes}:
        replay_mode, timeout, _ = declared.get(handler, ("replay", None, None))
        how = {"replay_mode": replay_mode, "timeout": rules.timeout if timeout is None else timeout}
        taken = {"numbers": [*numbers], "handler": handler, "worker": worker, "now": round_.now}
        yield "take_jobs", {**taken, **stamps, **how}
    return declared


def held_claims(round_: Round, numbers: Iterable[int], *, since: int = 1) -> Script[list[Claim]]:
    """Read running jobs as the claims of their worker, with the effects of those whose token is above `since`."""
    [(claims,)] = yield "held_claims", {"numbers": text(list(numbers)), "since": since, "most": LARGEST_BROUGHT}
    found = _claims.decode(claims)
    if {*map(_pending, found)} - {None}:
        for brings in round_.riders.brings:
            found = yield from brings(found)
    return found


def rules_in_force(queues: Iterable[str]) -> Script[dict[str, QueueRules]]:
    """Read the published rules of these queues; a queue without any has the defaults."""
    queues = [*queues]
    known = yield "queue_rules", {"queues": text(queues)}
    return read_rules(queues, known)[0]


def read_rules(queues: Iterable[str], known: Rows) -> tuple[dict[str, QueueRules], set[str]]:
    """Read the rules from rows of `queue_rules`, and which of the queues are known and not paused."""
    rules = dict.fromkeys(queues, DEFAULTS)
    for name in RULES.keys() & rules.keys():
        rules[name] = RULES[name]
    open_queues = set()
    for name, published, paused, _ in known:
        if published:
            rules[name] = _read_rules(published)
        if not paused:
            open_queues.add(name)
    return rules, open_queues
