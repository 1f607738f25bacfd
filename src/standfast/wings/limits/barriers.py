"""Scripts for what stands between a queue's jobs and their start: gates let candidates pass, or park them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from standfast.job import HTTP
from standfast.lifecycle import NoticeKind
from standfast.rules import QueueRules
from standfast.store.steps import Round, Script, text
from standfast.wings.limits import holds
from standfast.wings.limits import scripts as ours
from standfast.wings.limits import words as gates
from standfast.wings.limits.words import Candidate, Closing, Room, Row

RELEASED_AT_ONCE = 1000
"""How many jobs an admission gate lets through when it opens; the others follow with the next claims."""
EVERYTHING = 1 << 30
NONE: Mapping[str, str] = MappingProxyType({})

_read_keys = msgspec.json.Decoder(list[str]).decode
_read_payload = msgspec.json.Decoder().decode


class Barrier(NamedTuple):
    """What stands between a queue's jobs and their start."""

    queue: str
    rules: QueueRules
    breakers: frozenset[str]
    """The breakers that are not closed."""
    holds: frozenset[str] = frozenset()
    """The gates of the destinations that asked their callers to wait."""
    shut: Mapping[str, str] = NONE
    """The disabled handlers, and the gates at which their jobs are parked."""
    vacant: frozenset[str] = frozenset()
    """The gates of the whole queue at which a suspect may be parked, because none is: it gets the next place."""

    def before(self, handler: str, payload: str) -> tuple[str, ...]:
        """Return the gates a job must pass, first those that may be shut for long."""
        limit, rate = self.rules.concurrency, self.rules.rate
        keyed = any(each is not None and each.key is not None for each in (limit, rate))
        called = handler == HTTP and (self.breakers or self.holds)
        read = _read_payload(payload) if keyed or called else None
        found = [depends_on(handler, read, self.rules)] if self.breakers else []
        named = [self.shut[handler]] if handler in self.shut else []
        if self.holds:
            hold = holds.gate_of(self.queue, self.rules, read, request=handler == HTTP)
            named += [hold] if hold in self.holds else []
        named += [gate for gate in found if gate in self.breakers]
        if rate is not None:
            named.append(_gate("rate", self.queue, rate.key, read))
        if limit is not None:
            named.append(_gate("limit", self.queue, limit.key, read))
        return tuple(gate for gate in named if gate is not None)

    def queue_gates(self) -> list[str]:
        """Return the gates that every job of the queue passes."""
        ours = (("limit", self.rules.concurrency), ("rate", self.rules.rate))
        return [gates.of_queue(kind, self.queue) for kind, each in ours if each is not None and each.key is None]  # type: ignore[arg-type]

    def room(self, key: str, row: Row | None, now: float) -> Room:
        """Return how many jobs a gate can take."""
        kind = key.partition(":")[0]
        if kind == "limit" and self.rules.concurrency is not None:
            return gates.limit_room(row, self.rules.concurrency)
        if kind == "rate" and self.rules.rate is not None:
            return gates.rate_room(row, self.rules.rate, now)
        if kind == "breaker":
            return gates.breaker_room(row) or Room(EVERYTHING, stays=False)
        if kind == "probe":
            return Room(0 if key in self.shut.values() else EVERYTHING, stays=False)
        if kind == holds.KIND:
            return Room(0 if key in self.holds else EVERYTHING, stays=False)
        return Room(EVERYTHING, stays=kind != "rate")  # the rules have changed since the job got its ticket


def _gate(kind: gates.Kind, queue: str, key: str | None, payload: Any) -> str:
    return gates.of_queue(kind, queue) if key is None else gates.of_key(kind, queue, gates.key_in(payload, key))


def depends_on(handler: str, payload: Any, rules: QueueRules) -> str | None:
    """Return the breaker that stands before a job, if any."""
    return gates.breaker_of(rules.breaker, payload if handler == HTTP else None)


def barrier(
    round_: Round, queue: str, rules: QueueRules, handlers: Collection[str], disabled: Mapping[str, str] = NONE
) -> Script[Barrier | None]:
    """Find out what stands before a queue's jobs: for most queues nothing, and then this costs nothing."""
    shut: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    if HTTP in handlers or holds.names_destinations(rules):
        known = [Row(*row) for row in (yield "destination_gates", {})]
        shut = frozenset(row.key for row in known if rules.breaker and row.kind == "breaker" and gates.blocks(row))
        shut_holds = (row for row in known if holds.is_shut(row, round_.now) and gates.queue_of(row.key) == queue)
        held = frozenset(row.key for row in shut_holds)
    if rules.concurrency is None and rules.rate is None and not (shut or held or disabled):
        return None
    return Barrier(queue, rules, shut, held, disabled)


def room_for(round_: Round, before: Barrier) -> Script[tuple[int, float | None]]:
    """Return how many jobs of a queue can start at most, and after how many seconds there may be more, if known."""
    whole = before.queue_gates()
    if not whole:
        return EVERYTHING, None
    rows = yield from ours.read_gates(whole)
    rooms = {key: before.room(key, rows.get(key), round_.now) for key in whole}
    wait = None
    for key, room in rooms.items():
        if room.free <= 0 and not room.stays:
            wait = gates.meter(rows.get(key), before.rules.rate).next_at(round_.now) - round_.now
    return min(room.free for room in rooms.values()), wait


def for_suspects(before: Barrier) -> Script[Barrier]:
    """Let one suspect wait at each gate of the whole queue: fresh jobs, which stay in line, must not overtake it.

    The others stay too: each place that a suspect gets before it can run is a place that no job uses.
    """
    vacant = []
    for key in before.queue_gates():
        if not (yield from ours.anyone_parked(key)):
            vacant.append(key)  # noqa: PERF401 - it yields
    return before._replace(vacant=frozenset(vacant))


class GateResult(NamedTuple):
    """Which candidates start, with the gates they take places of; how many were parked, and how many left alone.

    `again` is after how many seconds one of those gates opens by itself.
    """

    places: dict[int, list[str]]
    parked: int
    left: int
    again: float | None


def pass_gates(round_: Round, before: Barrier, numbers: Sequence[int], slots: int) -> Script[GateResult]:
    """Let candidates pass their gates, or park them at once; record the places and tokens that this takes."""
    rows = yield "candidates", {"numbers": text(list(numbers))}
    candidates = [
        Candidate(n, before.before(handler, payload), frozenset(_read_keys(occupies) if occupies else ()))
        for n, handler, payload, occupies in rows
    ]
    tried = yield from ours.try_gates({key for each in candidates for key in (*each.gates, *each.tickets)})
    known = (yield from ours.read_gates(tried)) if tried else {}
    rooms = {key: before.room(key, known.get(key), round_.now) for key in tried}
    for key in tried & before.vacant:
        rooms[key].parks = True
    free = {key: room.free for key, room in rooms.items()}
    found = gates.admit(candidates, rooms, slots)
    if found.park:
        yield "park_jobs", [(n, key, text(kept) if kept else None, 1) for n, key, kept in found.park]
    if found.start:
        yield "occupy_gates", [(n, text(places) if places else None) for n, places in found.start]
    taken = {key: free[key] - room.free for key, room in rooms.items()}
    waited_for = {key for _, key, _ in found.park}
    rows_now = [
        _after(
            round_,
            before,
            known.get(key) or Row(key, key.partition(":")[0]),
            taken=taken[key],
            started=found.start,
            waited_for=key in waited_for,
        )
        for key in sorted(tried)
        if taken[key] or key in waited_for
    ]
    written = [row for row in rows_now if row is not None]
    yield from ours.write_gates(written)
    opening = [row.opens_at - round_.now for row in written if row.opens_at is not None]
    if found.returned:
        yield from ours.free_places(round_, Counter(found.returned), dict.fromkeys(found.returned, before.queue))
    left = len(candidates) - len(found.start) - len(found.park)
    return GateResult(dict(found.start), len(found.park), left, min(opening, default=None))


def _after(
    round_: Round,
    before: Barrier,
    row: Row,
    *,
    taken: int,
    started: Sequence[tuple[int, list[str]]],
    waited_for: bool,
) -> Row | None:
    """Return a gate after `taken` jobs took a place or a token of it."""
    now = round_.now
    if row.kind == "limit" and before.rules.concurrency is not None:
        return row._replace(capacity=before.rules.concurrency.limit, used=row.used + taken)
    if row.kind == "rate":
        spent = gates.meter(row, before.rules.rate).spent(now, taken)
        return gates.metered(row, spent, now, waited_for=waited_for or row.opens_at is not None)
    if row.kind == "breaker" and taken and gates.blocks(row):
        return gates.probing(row, next(n for n, places in started if row.key in places), now)
    return None


# --- admission


def closed(round_: Round, queue: str, answer: Closing, *, holds_back: bool) -> Script[bool]:
    """Record that a queue's gate is closed; return whether that is new: then the jobs that would start are parked.

    A gate that holds nothing back leaves no trace.
    """
    key = gates.of_queue("gate", queue)
    if not (yield from ours.try_gates([key])):
        return False
    known = (yield from ours.read_gates([key])).get(key)
    if known is None and not holds_back:
        return False
    since = round_.now if known is None else msgspec.json.decode(known.detail or "{}", type=Closing).since
    row = Row(key, "gate", detail=text(msgspec.structs.replace(answer, since=since)))
    if row != known:
        yield "write_gates", [tuple(row)]
    if known is None:
        round_.notices[NoticeKind.GATE_BROKEN if answer.broken else NoticeKind.GATE_CLOSED, queue].append("")
    return known is None


def park_at_gate(queue: str, numbers: Iterable[int]) -> Script[None]:
    """Park the jobs that would have started, so that people can see what they wait for."""
    parked = [(n, gates.of_queue("gate", queue), None, 1) for n in numbers]
    if parked:
        yield "park_jobs", parked


def opened(round_: Round, queue: str) -> Script[None]:
    """Let through the jobs that wait at a queue's gate, now that it is open."""
    key = gates.of_queue("gate", queue)
    if not (yield from ours.read_gates([key])) or not (yield from ours.try_gates([key])):
        return
    moved = yield from ours.let_through(round_, {key: RELEASED_AT_ONCE}, ticket=False)
    if moved[key] < RELEASED_AT_ONCE:
        yield "forget_gates", {"gates": text([key])}
        round_.notices[NoticeKind.GATE_OPENED, queue].append("")
