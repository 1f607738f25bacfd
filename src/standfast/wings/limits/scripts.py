"""Scripts for limits, rates and breakers after the claim: which jobs are let through next, and what an end gives back.

A claim only tries the locks of these gates, and skips gates that another transaction holds. An end waits for them, but
only after every script of its round that waits for other locks: see application/wings.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from standfast.lifecycle import NoticeKind, State, Transition
from standfast.rules import QueueRules
from standfast.spine.riders import Marks
from standfast.store.steps import Round, RoundState, Script, text
from standfast.wings.limits import holds
from standfast.wings.limits import words as gates
from standfast.wings.limits.holds import HoldRequest
from standfast.wings.limits.words import DependencyAnswer, Report, Row
from standfast.wings.threads import scripts as threads

OPENED_PER_CLAIM = 100
"""How many due gates one claim opens; more wait for the next claim."""
MENDED_PER_SWEEP = 1000
"""How many wrong gates one sweep corrects; more wait for the next sweep."""
LOOKED_AT_FOR_A_PROBE = 1000
"""How many of the jobs that wait at a breaker are read to find one that can start now."""
UNTAKEN_AFTER = 60.0
"""Seconds after which an unused ticket goes to another job."""
COUNTED = frozenset({"limit", "breaker", "probe", "hold"})
"""Kinds of gates that mean nothing while nothing is counted and no time is set."""
NOTHING = DependencyAnswer(None, 1, 0.0)
NO_REPORT = Report()

Found = dict[str, Row]


class End(NamedTuple):
    """The end of an attempt whose job had passed gates, or has a dependency with a breaker."""

    n: int
    id: str
    queue: str
    places: list[str]
    dependency: str | None = None
    word: DependencyAnswer | None = None
    waits: bool = False
    """Whether the job goes back to wait for the dependency."""
    hold: HoldRequest | None = None


class Ends(RoundState):
    """What ended attempts had taken of gates, and say about their dependencies: settled before the round closes."""

    def __init__(self) -> None:
        self.ended: list[End] = []
        self.mends = False
        """Whether to compare the gates with the running jobs."""

    def absorb(self, other: Ends) -> None:
        """Also settle what a part of the round ended."""
        self.ended += other.ended


def note_ends(round_: Round, moved: Sequence[Transition], marks: Marks) -> Script[None]:
    """Note what these moves give back to gates, and say about their jobs' dependencies."""
    yield from ()
    places = {n: mark[0] for n, mark in marks.items() if mark[0] is not None}
    ended = [_end(each, places) for each in moved if each.n in places or _says_something(each)]
    if ended:
        round_.state(Ends).ended += ended


def _says_something(moved: Transition) -> bool:
    return moved.rider(Report) is not None or moved.rider(HoldRequest) is not None


def _end(moved: Transition, places: Mapping[int, list[str]]) -> End:
    report = moved.rider(Report) or NO_REPORT
    waits = moved.target == State.QUEUED and report.waits
    held, hold = places.get(moved.n, []), moved.rider(HoldRequest)
    return End(moved.n, moved.id, moved.queue, held, report.dependency, report.word, waits, hold)


def ask_to_mend(round_: Round) -> Script[None]:
    """Ask for the gates to be compared with the running jobs when the round settles."""
    yield from ()
    round_.state(Ends).mends = True


def read_gates(keys: Iterable[str]) -> Script[Found]:
    """Return these gates, by key."""
    rows = yield "read_gates", {"gates": text(sorted(keys))}
    return {row[0]: Row(*row) for row in rows}


def try_gates(keys: Iterable[str]) -> Script[set[str]]:
    """Lock those of these gates that are free; return their keys."""
    wanted = sorted(keys)
    return {key for (key,) in (yield "try_gates", {"gates": text(wanted)})} if wanted else set()


def write_gates(rows: Iterable[Row]) -> Script[None]:
    """Write gates as they are now, and delete those that no longer mean anything."""
    changed = sorted(rows)
    if changed:
        yield "write_gates", [tuple(row) for row in changed]
        idle = [row.key for row in changed if not row.used and row.opens_at is None and row.kind in COUNTED]
        if idle:
            yield "forget_gates", {"gates": text(idle)}


# --- rules


def regulate(round_: Round, changed: Mapping[str, QueueRules]) -> Script[None]:
    """Put changed rules in force for waiting jobs: all parked jobs may try again, under the new numbers.

    Limits keep their rows: running jobs still take places, and the next job parked there writes the new limit. At the
    limit of a whole queue only a suspect is parked, so the new limit is written here: an end must know it made room.
    """
    for queue, rules in changed.items():
        spent = [gates.of_queue("rate", queue), gates.of_queue("gate", queue)]
        yield "drop_rates", {"gates": text(spent), "below": f"{gates.of_queue('rate', queue)}:"}
        yield "unpark_queue", {"queue": queue, "now": round_.now}
        if rules.concurrency is not None and rules.concurrency.key is None:
            known = yield from read_gates([gates.of_queue("limit", queue)])
            yield from write_gates(row._replace(capacity=rules.concurrency.limit) for row in known.values())
        round_.note_work(queue, 0.0)


# --- letting through


def let_through(round_: Round, wanted: dict[str, int], *, ticket: bool = True, after: int = 0) -> Script[Counter[str]]:
    """Make the oldest jobs that wait at these gates claimable, so many at each; return how many there were."""
    moved: Counter[str] = Counter()
    numbers = {key: number for key, number in wanted.items() if number > 0}
    if not numbers:
        return moved
    lines = [(key, number, after) for key, number in sorted(numbers.items())]
    rows = []
    for key, n, queue in (yield "next_in_line", {"lines": text(lines), "most": max(numbers.values())}):
        if moved[key] < numbers[key]:
            moved[key] += 1
            rows.append((n, round_.now, key if ticket else None))
            round_.note_work(queue, 0.0)
    if rows:
        yield "let_through", rows
    return moved


def free_places(round_: Round, freed: Counter[str], queues: dict[str, str]) -> Script[None]:
    """Free places of limits, and give them to the jobs that have waited longest. The caller has locked the gates."""
    rows = [row for row in (yield from read_gates(freed)).values() if row.kind == "limit"]
    used = {row.key: max(0, row.used - freed[row.key]) for row in rows}
    moved = yield from let_through(round_, {row.key: (row.capacity or 0) - used[row.key] for row in rows})
    for row in rows:
        if row.used >= (row.capacity or 0) and row.key in queues:
            round_.note_work(queues[row.key], 0.0)
    yield from write_gates(row._replace(used=used[row.key] + moved[row.key]) for row in rows)


def open_due(round_: Round, served: Collection[str]) -> Script[None]:
    """Open the gates that are due: rates that have tokens again, breakers that may be probed or are back.

    `served` are the queues that workers are claiming from now.
    """
    due = yield "due_gates", {"now": round_.now, "limit": OPENED_PER_CLAIM}
    tried = yield from try_gates(key for (key,) in due)
    rows = [row for row in (yield from read_gates(tried)).values() if row.opens_at is not None]
    for row in rows:
        if (row.opens_at or 0.0) <= round_.now:
            yield from write_gates([(yield from _opened(round_, row, served))])


def _opened(round_: Round, row: Row, served: Collection[str]) -> Script[Row]:
    if row.kind == "rate":
        found = gates.meter(row)
        tokens = found.tokens(round_.now)
        moved = (yield from let_through(round_, {row.key: tokens}))[row.key]
        waiting = moved == tokens or (yield from anyone_parked(row.key))
        return gates.metered(row, found.spent(round_.now, moved), round_.now, waited_for=waiting)
    if row.kind == holds.KIND:
        return (yield from _follow(round_, row))
    if row.kind == "probe":  # the process that said no is gone, or has changed its answer
        yield from let_through(round_, {row.key: OPENED_PER_CLAIM}, ticket=False)
        return row._replace(opens_at=round_.now if (yield from anyone_parked(row.key)) else None)
    match gates.circuit(row).state:
        case "open" | "half":
            return (yield from _probe(round_, row, served))
        case "recovering":
            return (yield from _recover(round_, row))
        case _:  # its probe is under way or lost: a sweep finds out
            return row._replace(opens_at=round_.now + gates.PROBE_PATIENCE)


def anyone_parked(key: str) -> Script[bool]:
    """Return whether any job waits at a gate."""
    [(waiting,)] = yield "anyone_parked", {"gate": key}
    return bool(waiting)


def _probe(round_: Round, row: Row, served: Collection[str]) -> Script[Row]:
    """Let one job through as the probe, and not the same one twice in a row while workers claim others.

    A queue that is paused, or has no worker, must not keep a breaker shut for the others behind it: nothing claims its
    jobs. So the last probe goes again if all the other jobs are in such queues.
    """
    last, waiting = gates.circuit(row).last, []
    for behind in (last, 0):
        lines = [(row.key, LOOKED_AT_FOR_A_PROBE, behind)]
        waiting += yield "next_in_line", {"lines": text(lines), "most": LOOKED_AT_FOR_A_PROBE}
    if not waiting:
        after = gates.half_open(row, round_.now)
        if not gates.blocks(after):
            round_.notices[NoticeKind.BREAKER_CLOSED, ""].append("")
        return after
    known = yield "queue_rules", {"queues": text(sorted({queue for _, _, queue in waiting}))}
    paused = {name for name, _, is_paused, *_ in known if is_paused}
    _, n, queue = min(waiting, key=lambda each: (each[2] in paused, each[2] not in served, each[1] == last))
    yield "let_through", [(n, round_.now, row.key)]
    round_.note_work(queue, 0.0)
    return gates.probing(row, n, round_.now)


def _follow(round_: Round, row: Row) -> Script[Row]:
    """Release the next batch that waits for a destination, and forget the destination once no job waits."""
    batch = holds.read(row).batch
    moved = yield from let_through(round_, {row.key: batch}, ticket=False)
    if moved[row.key] < batch and not (yield from anyone_parked(row.key)):
        return row._replace(detail=None, opens_at=None)
    return holds.next_batch(row, round_.now)


def _recover(round_: Round, row: Row) -> Script[Row]:
    """Let the next batch of jobs follow a probe that was answered."""
    batch = gates.circuit(row).batch
    moved = yield from let_through(round_, {row.key: batch}, ticket=False)
    if moved[row.key] < batch and not (yield from anyone_parked(row.key)):
        return row._replace(detail=None, opens_at=None)
    return gates.next_batch(row, round_.now)


# --- ends


def settle(round_: Round) -> Script[None]:
    """Give back what this round's ends had taken, and apply what they say. Later a round waits only for the audit."""
    kept = round_.state(Ends)
    ends, kept.ended = kept.ended, []
    if ends:
        yield from _record_ends(round_, ends)
        places = Counter(key for end in ends for key in end.places if key.startswith("limit:"))
        yield from threads.lock(round_, {*places, *_held_gates(ends)})
        yield from _hold_back(round_, ends)
        if places:
            yield from free_places(round_, places, {key: end.queue for end in ends for key in end.places})
    if kept.mends:
        kept.mends = False
        yield from _mend(round_)


def _record_ends(round_: Round, ends: Sequence[End]) -> Script[None]:
    """Update the breakers. A dependency that answers and has no breaker row needs no change, and no lock."""
    named = {key for end in ends for key in (*end.places, end.dependency) if key and key.startswith("breaker:")}
    if not named:
        return
    known = yield from read_gates(named)
    doubted = {end.dependency for end in ends if end.dependency and end.word and end.word.answers is False}
    concerned = sorted(doubted | known.keys())
    places = {key for end in ends for key in end.places if key.startswith("limit:")}
    yield from threads.lock(round_, {*concerned, *places, *_held_gates(ends)} if concerned else ())
    known = (yield from read_gates(concerned)) if concerned else {}
    for key in concerned:
        theirs = [end for end in ends if end.dependency == key or key in end.places]
        yield from _update_breaker(round_, known.get(key, Row(key, "breaker")), theirs)


def _update_breaker(round_: Round, row: Row, ends: Sequence[End]) -> Script[None]:
    """Apply the ends of attempts to a breaker, in their order."""
    was = gates.circuit(row).state
    for end in ends:
        before = gates.blocks(row)
        word = end.word if end.dependency == row.key and end.word is not None else NOTHING
        row = gates.after(row, word, round_.now, probe=end.n if row.holder == end.n else None)
        if gates.blocks(row) != before:
            kind = NoticeKind.BREAKER_OPENED if gates.blocks(row) else NoticeKind.BREAKER_CLOSED
            round_.notices[kind, end.queue].append(end.id)
    if gates.blocks(row):
        for end in ends:
            round_.note_work(end.queue, (row.opens_at or 0.0) - round_.now)
        back = [(end.n, row.key, None, 0) for end in ends if end.waits]
        if back:
            yield "park_jobs", back
    elif gates.circuit(row).state == "recovering" and was != "recovering":
        row = yield from _recover(round_, row)
    yield from write_gates([row])


def _held_gates(ends: Sequence[End]) -> set[str]:
    return {end.hold.gate for end in ends if end.hold is not None}


def _hold_back(round_: Round, ends: Sequence[End]) -> Script[None]:
    """Hold jobs back from destinations for as long as those asked; jobs chosen for them meanwhile are parked."""
    requests = [(end, end.hold) for end in ends if end.hold is not None]
    if not requests:
        return
    known: dict[str, Row | None] = {**(yield from read_gates(_held_gates(ends)))}
    for end, hold in requests:
        until = round_.now + hold.seconds
        known[hold.gate] = holds.extended(known.get(hold.gate), hold.gate, until, round_.now)
        round_.note_work(end.queue, hold.seconds)
    yield from write_gates(row for row in known.values() if row is not None)


# --- mending


def _mend(round_: Round) -> Script[None]:
    """Compare the gates with the running jobs, so that no job waits in vain. This waits for no lock."""
    since = {"before": round_.now - UNTAKEN_AFTER, "limit": MENDED_PER_SWEEP}
    stale = yield "stale_tickets", since
    if stale:
        yield "drop_tickets", {"numbers": text([n for (n,) in stale])}
    for (queue,) in (yield "unpark_lost", {"now": round_.now, "limit": MENDED_PER_SWEEP}):
        round_.note_work(queue, 0.0)
    doubtful = yield "doubtful_gates", {"now": round_.now, "limit": MENDED_PER_SWEEP}
    tried = yield from try_gates(key for (key,) in doubtful)
    if not tried:
        return
    taken: dict[str, int] = dict((yield "places_taken", {}))
    for row in (yield from read_gates(tried)).values():
        yield from _mended(round_, row, taken.get(row.key, 0))


def _mended(round_: Round, row: Row, taken: int) -> Script[None]:
    if row.kind == "limit":
        moved = yield from let_through(round_, {row.key: (row.capacity or 0) - taken})
        if taken + moved[row.key] != row.used:
            yield from write_gates([row._replace(used=taken + moved[row.key])])
            round_.note_work(gates.queue_of(row.key), 0.0)
    elif row.kind == "breaker" and row.holder is not None and not taken:
        yield from write_gates([gates.after(row, NOTHING, round_.now, probe=row.holder)])
    elif row.kind == "rate" and row.opens_at is None:
        if (yield from anyone_parked(row.key)):
            yield from write_gates([row._replace(opens_at=round_.now)])
        elif gates.meter(row).until <= round_.now:
            yield "forget_gates", {"gates": text([row.key])}
