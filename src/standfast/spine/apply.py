"""Every decided change of a job is applied here: moved under its token, written down, told, in one transaction.

One script applies every Transition. A death, its reason, its triage, its history line and its notice are in one
transaction. Wings take part at their moments: see `spine.riders`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec

from standfast.lifecycle import MOVES, TOLD, Move, State, Transition
from standfast.spine.riders import Marks
from standfast.store.scripts import Patience, number_of, writes
from standfast.store.steps import Round, Script, encode, lock_jobs, text

KEPT_IN_HISTORY = frozenset(
    {Move.RETRY, Move.SNOOZE, Move.GIVE_BACK, Move.DIE, Move.HOLD, Move.REPLAY, Move.RESOLVE, Move.DISCARD}
)
"""The moves that end an attempt without completing it, and those by which a letter is none any more."""


_is_plain, _gate = attrgetter("plain"), attrgetter("gate")
_states = msgspec.json.Decoder(list[str | None])
_marked = msgspec.json.Decoder(list[tuple[int, list[str] | None, list[str | None] | None]])


def gates_of(transitions: Sequence[Transition]) -> Script[list[str]]:
    """Name the threads that moves touch."""
    yield from ()
    return [*filter(None, map(_gate, transitions))]


@writes(patience=Patience.ENDLESS, gates=gates_of, number=number_of)
def apply(round_: Round, transitions: Sequence[Transition]) -> Script[list[bool]]:
    """Move jobs as decided; answer for each whether it landed.

    Plain completions take the short way. What that leaves, because the token moved on or a job is more than plain,
    takes the long way with all others, where a job that stands at its target under this token counts as landed.
    """
    plain = [*filter(_is_plain, transitions)] if round_.riders.shortcuts else []
    done = (yield from _complete(round_, plain)) if plain else set()
    if len(plain) == len(transitions) and done.issuperset(map(number_of, plain)):
        return [True] * len(transitions)
    left = [each for each in transitions if not (each.plain and each.n in done)]
    landed = iter((yield from _apply_all(round_, left)))
    return [(each.plain and each.n in done) or next(landed) for each in transitions]


def _complete(round_: Round, plain: Sequence[Transition]) -> Script[set[int]]:
    """Complete plain jobs with one statement; give the numbers of those that were moved now."""
    moved = {*map(number_of, plain)}
    if not round_.jobs <= moved:  # those of all others, in one order with these
        yield from lock_jobs(round_, moved)
    given = {"numbers": encode([*moved]).decode(), "now": round_.now}
    [(count,)] = yield "complete_jobs", {**given, "count": len(moved)}
    if count < len(moved):
        moved = {n for (n,) in (yield "complete_some", given)}
    remaining = set(moved)
    endings = []
    for each in plain:
        if each.n in remaining:
            remaining.discard(each.n)  # handed in twice, it is told once
            round_.notices[TOLD[Move.COMPLETE], each.queue].append(each.id)
            if each.result or each.warning:
                endings.append((each.n, each.result, each.warning, None, None, None, None, None, None))
    if endings:
        yield "write_endings", endings
    return moved


def _apply_all(round_: Round, transitions: Sequence[Transition]) -> Script[list[bool]]:
    """Move jobs past every wing that has a part in it."""
    for locks in round_.riders.locks:
        yield from locks(round_, transitions)
    yield from lock_jobs(round_, (each.n for each in transitions))
    decided = list(transitions)
    for revises in round_.riders.revises:
        decided = yield from revises(decided)
    return (yield from apply_decided(round_, decided))


def apply_decided(round_: Round, transitions: Sequence[Transition]) -> Script[list[bool]]:
    """Move jobs, whatever was asked of them meanwhile."""
    moving, marks = yield from _read_moving(transitions)
    groundless = yield from _groundless(round_, transitions)
    pairs = list(zip(transitions, moving, strict=True))
    moved: dict[int, Transition] = {}
    for place, (transition, state) in enumerate(pairs):
        if state == transition.source and place not in groundless:
            moved.setdefault(transition.n, transition)  # of two ends of one attempt in one round, the first counts
    if moved:
        movable = list(moved.values())
        yield from _move(round_.now, movable)
        yield from write_down(round_, movable)
        yield from _follow(round_, movable, marks)
    return [_landed(each, state, moved.get(each.n)) for each, state in pairs]


def _groundless(round_: Round, transitions: Sequence[Transition]) -> Script[set[int]]:
    """Give the places of moves that were decided on grounds that are gone."""
    found: set[int] = set()
    for guards in round_.riders.guards:
        found.update((yield from guards(transitions)))
    return found


def _follow(round_: Round, moved: Sequence[Transition], marks: Marks) -> Script[None]:
    """Make the moves that follow from these: in this transaction or not at all."""
    for follows in round_.riders.follows:
        further = yield from follows(round_, moved, marks)
        if further is not None and further.made:
            yield from write_down(round_, further.made)
        if further is not None and further.decided:
            yield from apply_decided(round_, further.decided)


def _landed(decided: Transition, state: str | None, moved: Transition | None) -> bool:
    """Tell whether a job is where a move leads. Of what people decide about it in one round, only the first landed."""
    if moved is None or state != decided.source:
        return decided.target == state
    return moved is decided if decided.by is not None else moved.target == decided.target


def _move(now: float, transitions: Sequence[Transition]) -> Script[None]:
    """Move the jobs; those that move alike (a batch of completions above all) share a statement."""
    alike: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for each in transitions:
        alike[each.move, each.delay, each.spends, each.defers, each.effect, each.suspect, each.in_place].append(each.n)
    for (move, delay, spends, defers, landed, suspect, in_place), numbers in alike.items():
        target = MOVES[move][1]
        times = _times(now, delay) if target == State.QUEUED else (None, None, now)
        due_at, ready_at, finished_at = times
        counts = {"spends": spends, "defers": defers, "landed": landed}
        counts["suspect"] = None if suspect is None else int(suspect)
        when = {"due_at": None if in_place else due_at, "ready_at": ready_at, "finished_at": finished_at}
        when["in_place"] = in_place
        yield "move_jobs", {"numbers": text(numbers), "target": target, **when, **counts}


def _times(now: float, delay: float) -> tuple[float | None, float | None, float | None]:
    return (now + delay, None if delay > 0 else now, None)


def _read_moving(transitions: Sequence[Transition]) -> Script[tuple[list[str | None], Marks]]:
    """Read the state of each job that still has the mover's token; None where the token has moved on.

    A job that already stands where its move leads was moved before an unknown commit: that counts as landed. With it
    come the marks that wings read, of those jobs that have any.
    """
    held = text([(each.n, each.token) for each in transitions])
    [(states, marked)] = yield "standing_states", {"held": held}
    return _states.decode(states), {n: marks for n, *marks in _marked.decode(marked)}


def write_down(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Write what the moves leave behind: endings, history, notices, and what wings keep of them."""
    for each in moved:
        round_.notices[TOLD[each.move], each.queue].append(each.id)
        if each.target == State.QUEUED:
            round_.note_work(each.queue, each.delay)
    endings = [_ending(each) for each in moved if each.result or each.warning or each.triage or each.superseded_by]
    if endings:
        yield "write_endings", endings
    lines = [_line(round_, each) for each in moved if _is_kept(each)]
    if lines:
        yield "write_history", lines
    for write in round_.riders.writes:
        yield from write(round_, moved)


def _is_kept(moved: Transition) -> bool:
    return moved.move in KEPT_IN_HISTORY or moved.effect is not None or moved.by is not None


def _ending(transition: Transition) -> tuple[Any, ...]:
    failure = transition.failure and text(transition.failure)
    triage = transition.triage and text(transition.triage)
    left = (transition.result, transition.warning, failure, triage, transition.superseded_by)
    replay_at = transition.triage and transition.triage.replay_at
    return (transition.n, *left, transition.fingerprint, transition.policy_snapshot, replay_at)


def _line(round_: Round, transition: Transition) -> tuple[int, str]:
    line: dict[str, Any] = {"attempt": transition.attempt, "at": round_.now, "worker": transition.worker}
    failure = transition.last_failure or transition.failure
    if failure is not None:
        line |= msgspec.to_builtins(failure)
        del line["advice"], line["cause"]  # a line tells of one attempt: its reason code is its own
    else:
        line |= {"reason_code": _history_word(transition) or TOLD[transition.move], "landed": transition.landed}
    request = {"by": transition.by, "reason": transition.reason}
    line |= {name: value for name, value in request.items() if value is not None}
    if transition.target == State.QUEUED:
        line["delay"] = transition.delay
    for mark in ("possible_duplicate", "refused"):
        if getattr(transition, mark):
            line[mark] = True
    return (transition.n, text(line))


def _history_word(transition: Transition) -> str | None:
    """Give history's word for a move that an answer or a decision brought."""
    words = (getattr(each, "history_word", None) for each in transition.carries)
    return next(filter(None, words), None)
