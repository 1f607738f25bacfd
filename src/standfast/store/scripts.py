"""Each verb of the store as a script: a generator that yields named statements and is sent their rows. No I/O here.

One body serves every engine: SQLite's writer thread drives it inside a transaction shared with other callers,
PostgreSQL's runner awaits it. A script takes the items of all callers of one round and answers one result for each.
What it wants told goes into the `Round`, which becomes one journal row when the transaction closes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from typing import Any

import msgspec

from standfast.job import Claim
from standfast.lifecycle import FINAL, MOVES, Move, State, Transition
from standfast.profiles import defaults_for
from standfast.rules import DEFAULTS, QueueRules
from standfast.store import operations, threads
from standfast.store.orders import Catch, Order, Publication, Want
from standfast.store.steps import Round, Rows, Script, Step, text

DUE_PER_CLAIM = 500
"""How many delayed jobs one claim makes claimable; more wait for the next claim, so that none takes long."""
LOOK_AGAIN_AFTER = 0.1
"""Seconds until a claim looks again at jobs that somebody else held when their time came."""
HELD_BY_OTHERS = 1000
"""How many jobs a claim looks past that others are taking at the same moment."""
LONGEST_WAITING_EVERY = 10
"""Every tenth claim of a queue takes the longest-waiting job, whatever its priority."""

TOLD = {
    Move.COMPLETE: "completed",
    Move.RETRY: "retry",
    Move.SNOOZE: "snoozed",
    Move.GIVE_BACK: "given_back",
    Move.DIE: "dead_letter",
    Move.HOLD: "held",
    Move.REPLAY: "replayed",
    Move.RESOLVE: "resolved",
    Move.CANCEL: "cancelled",
}
"""The notice each move is told as."""
KEPT_IN_HISTORY = frozenset({Move.RETRY, Move.SNOOZE, Move.GIVE_BACK, Move.DIE, Move.HOLD, Move.REPLAY})
"""The moves that end an attempt without completing it, and the one that begins another round."""

_claims = msgspec.json.Decoder(list[Claim])
decode_numbers = msgspec.json.Decoder(list[int]).decode
_rules = msgspec.json.Decoder(QueueRules)
_states = msgspec.json.Decoder(list[str | None])


def close(round_: Round) -> Script:
    """Write the round's journal row and counters; the last statements of every transaction."""
    if not round_.told:
        return
    entries = [(kind, queue, ids) for (kind, queue), ids in round_.told.items()]
    yield "write_journal", {"now": round_.now, "entries": text(entries)}
    yield "add_counters", [(queue, kind, len(ids)) for kind, queue, ids in entries]


def claim(round_: Round, orders: Sequence[Order]) -> Script:
    """Give each worker what it can start now, in the order of `decide.priority`."""
    if round_.starts_nothing:
        return [Catch([], {}, None)] * len(orders)
    next_due = yield from _make_due_ready(round_)
    catches = []
    for order in orders:
        claims, rules = yield from _fill(round_, order)
        catches.append(Catch(claims, rules, next_due))
    return catches


def _make_due_ready(round_: Round) -> Generator[Step, Rows, float | None]:
    """Make delayed jobs claimable whose time has come; give the seconds until the next one's."""
    [(due_at,)] = yield "next_due", {}
    if due_at is not None and due_at <= round_.now:
        [(promoted,)] = yield "promote_due", {"now": round_.now, "limit": DUE_PER_CLAIM}
        seen = yield from threads.admit_due(round_, DUE_PER_CLAIM)
        [(due_at,)] = yield "next_due", {}
        if due_at is not None and due_at <= round_.now and max(promoted, seen) < DUE_PER_CLAIM:
            return LOOK_AGAIN_AFTER  # what is left is in somebody else's hands
    return None if due_at is None else max(0.0, due_at - round_.now)


def _fill(round_: Round, order: Order) -> Generator[Step, Rows, tuple[list[Claim], dict[str, QueueRules]]]:
    queues = [want.queue for want in order.wants]
    known = yield "queue_rules", {"queues": text(queues)}
    open_queues = {name: claims for name, _, paused, claims in known if not paused}
    rules = _read_rules(queues, known)
    claims: list[Claim] = []
    for want in order.wants:
        if want.queue in open_queues:
            claims += yield from _claim_queue(round_, order.worker, want, rules[want.queue], open_queues[want.queue])
    return claims, rules


def rules_in_force(queues: Iterable[str]) -> Generator[Step, Rows, dict[str, QueueRules]]:
    """Read the published rules of these queues; the defaults where nobody declared any."""
    known = yield "queue_rules", {"queues": text(list(queues))}
    return _read_rules(queues, known)


def _read_rules(queues: Iterable[str], known: Rows) -> dict[str, QueueRules]:
    published = {name: rules for name, rules, *_ in known}
    return {name: _rules.decode(published[name]) if published.get(name) else defaults_for(name) for name in queues}


def _claim_queue(
    round_: Round, worker: str, want: Want, rules: QueueRules, already: int
) -> Generator[Step, Rows, list[Claim]]:
    """Choose, take and read the claims of one queue."""
    where = {"queue": want.queue, "handlers": text(want.handlers)}
    lanes = yield "lanes", where
    if not lanes:
        return []
    if len(lanes) == 1:
        [(handler, priority)] = lanes
        lane = {"queue": want.queue, "handler": handler, "priority": priority, "wanted": want.slots}
        [(numbers,)] = yield "claim_lane", lane
        numbers = decode_numbers(numbers)
    else:
        numbers = yield from _choose(round_, want, rules, lanes, already)
    handlers = {handler for handler, _ in lanes}
    yield from _take(round_, worker, want.queue, rules, handlers=handlers, numbers=text(numbers))
    yield "count_claims", {"queue": want.queue, "worker": worker, "claims": len(numbers), "now": round_.now}
    claims = yield from held_claims(numbers)
    round_.told["claimed", want.queue] += [job.id for job in claims]
    return claims


def _choose(
    round_: Round, want: Want, rules: QueueRules, lanes: Rows, already: int
) -> Generator[Step, Rows, list[int]]:
    """Choose the longest-waiting for every tenth claim this makes, then the best for the rest."""
    every = LONGEST_WAITING_EVERY
    tenths = (already + want.slots) // every - already // every
    boost = {"boost": rules.age_boost, "boost_cap": rules.age_boost_cap, "now": round_.now}
    among = {"queue": want.queue, "lanes": text(lanes), **boost}
    oldest = yield from _heads({**among, "oldest": True, "but": "[]"}, tenths)
    best = yield from _heads({**among, "oldest": False, "but": text(oldest)}, want.slots - len(oldest))
    return oldest + best


def _heads(among: dict[str, Any], wanted: int) -> Generator[Step, Rows, list[int]]:
    """Choose so many of what waits; where others are just taking what comes first, look further."""
    found: list[int] = []
    for beyond in (0, HELD_BY_OTHERS):
        [(numbers, held)] = yield "claim_lanes", {**among, "wanted": wanted, "beyond": beyond}
        found = decode_numbers(numbers)
        if not held or len(found) == wanted:
            break
    return found


def _take(
    round_: Round, worker: str, queue: str, rules: QueueRules, *, handlers: Iterable[str], numbers: str
) -> Script:
    """Raise attempt and token of the chosen jobs, and stamp the rules in force on them."""
    declared = {name: stamps for name, *stamps in (yield "handler_stamps", {"queue": queue})}
    stamps = {"attempts": rules.attempts, "lease": rules.lease}
    for handler in handlers:
        replay_mode, timeout = declared.get(handler, ("replay", None))
        how = {"replay_mode": replay_mode, "timeout": rules.timeout if timeout is None else timeout}
        taken = {"numbers": numbers, "handler": handler, "worker": worker, "now": round_.now}
        yield "take_jobs", {**taken, **stamps, **how}


def held_claims(numbers: Iterable[int]) -> Generator[Step, Rows, list[Claim]]:
    """Read running jobs as their worker holds them."""
    [(claims,)] = yield "held_claims", {"numbers": text(list(numbers))}
    return _claims.decode(claims)


def apply(round_: Round, transitions: Sequence[Transition]) -> Script:
    """Move jobs as decided: the one script that applies every Transition. Answer for each whether it landed.

    A death, its reason, its triage, its history line and its notice are in this one transaction.
    """
    yield from threads.lock(round_, (each.gate for each in transitions if each.gate is not None))
    yield "lock_jobs", {"numbers": text(sorted(each.n for each in transitions))}
    decided = yield from operations.unless_unwanted(transitions)
    for place, each in enumerate(decided):
        if each.gate is not None and each.target == State.QUEUED:
            rules = yield from rules_in_force([each.queue])
            decided[place] = yield from threads.unless_superseded(each, rules[each.queue].coalesce)
    return (yield from apply_decided(round_, decided))


def apply_decided(round_: Round, transitions: Sequence[Transition]) -> Generator[Step, Rows, list[bool]]:
    """Move jobs, whatever was asked of them meanwhile."""
    standing = yield from _standing(transitions)
    pairs = list(zip(transitions, standing, strict=True))
    moved: dict[int, Transition] = {}
    for transition, state in pairs:
        if state == transition.source:  # of two ends of one attempt in one round, the first counts
            moved.setdefault(transition.n, transition)
    if moved:
        movable = list(moved.values())
        yield from _move(round_.now, movable)
        yield from _write_down(round_, movable)
        yield from threads.release(round_, movable)
    return [
        transition.target == (moved[transition.n].target if state == transition.source else state)
        for transition, state in pairs
    ]


def _move(now: float, transitions: Sequence[Transition]) -> Script:
    """Move the jobs; those that move alike (a batch of completions above all) share a statement."""
    alike: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for each in transitions:
        alike[each.move, each.delay, each.spends, each.defers, each.effect].append(each.n)
    for (move, delay, spends, defers, landed), numbers in alike.items():
        target = MOVES[move][1]
        times = _times(now, delay) if target == State.QUEUED else (None, None, now)
        due_at, ready_at, finished_at = times
        counts = {"spends": spends, "defers": defers, "landed": landed}
        when = {"due_at": due_at, "ready_at": ready_at, "finished_at": finished_at}
        yield "move_jobs", {"numbers": text(numbers), "target": target, **when, **counts}


def _times(now: float, delay: float) -> tuple[float | None, float | None, float | None]:
    return (now + delay, None if delay > 0 else now, None)


def _standing(transitions: Sequence[Transition]) -> Generator[Step, Rows, list[str | None]]:
    """Read the state of each job that still has the mover's token; None where the token has moved on.

    A job that already stands where its move leads was moved before an unknown commit: that counts as landed.
    """
    [(states,)] = yield "standing_states", {"held": text([(each.n, each.token) for each in transitions])}
    return _states.decode(states)


def _write_down(round_: Round, moved: Sequence[Transition]) -> Script:
    """Write what the moves leave behind: endings, history, freed keys, notices."""
    final = []
    for each in moved:
        round_.told[TOLD[each.move], each.queue].append(each.id)
        target = MOVES[each.move][1]
        if target in FINAL:
            final.append(each.n)
        elif target == State.QUEUED:
            round_.work_in(each.queue, each.delay)
    endings = [_ending(each) for each in moved if each.result or each.warning or each.triage or each.superseded_by]
    if endings:
        yield "write_endings", endings
    lines = [_line(round_, each) for each in moved if each.move in KEPT_IN_HISTORY or each.effect is not None]
    if lines:
        yield "write_history", lines
    replayed = [each.n for each in moved if each.move == Move.REPLAY]
    if replayed:
        yield "open_round", {"numbers": text(replayed), "now": round_.now}
        yield "count_replays", {"numbers": text(replayed)}
    if final:
        yield "release_keys", {"numbers": text(final), "now": round_.now, "keep_keys": DEFAULTS.keep_keys}


def _ending(transition: Transition) -> tuple[Any, ...]:
    failure = transition.failure and text(transition.failure)
    triage = transition.triage and text(transition.triage)
    return (transition.n, transition.result, transition.warning, failure, triage, transition.superseded_by)


def _line(round_: Round, transition: Transition) -> tuple[int, str]:
    line: dict[str, Any] = {"attempt": transition.attempt, "at": round_.now, "worker": transition.worker}
    failure = transition.last_failure or transition.failure
    if failure is not None:
        line |= msgspec.to_builtins(failure)
        del line["advice"]
    else:
        line |= {"reason_code": TOLD[transition.move], "landed": transition.landed}
    asked = {"by": transition.by, "reason": transition.reason}
    line |= {name: value for name, value in asked.items() if value is not None}
    if transition.target == State.QUEUED:
        line["delay"] = transition.delay
    if transition.possible_duplicate:
        line["possible_duplicate"] = True
    return (transition.n, text(line))


def publish(round_: Round, publications: Sequence[Publication]) -> Script:
    """Put declarations in force for every process: the last published wins."""
    for publication in publications:
        changed = yield "changed_ages", {"queues": text(publication.queues)}
        yield "publish_queues", {"queues": text(publication.queues), "now": round_.now}
        # A queue is known by its handler too, also before its first job.
        yield "ensure_queues", {"queues": text([each["queue"] for each in msgspec.to_builtins(publication.handlers)])}
        yield "publish_handlers", {"handlers": text(publication.handlers), "now": round_.now}
        if changed:  # last: after this it waits for nobody
            yield "lock_all_jobs", {}
            yield "restamp_expiry", {"queues": text([name for (name,) in changed])}
    return [None] * len(publications)
