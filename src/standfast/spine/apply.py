"""Apply each Transition in one transaction: the job's row, its ending, its history, its notice, and wings' own rows.

A change lands only while the job has the token and the state that it was decided for. So of two workers that hold the
same job, only the one with the current token moves it. Wings join at the moments that `spine.riders` names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from standfast.lifecycle import MOVES, TOLD, Move, State, Suspicion, Transition
from standfast.spine.riders import Marks
from standfast.store.scripts import Patience, number_of, writes
from standfast.store.steps import Round, Script, lock_jobs, text

KEPT_IN_HISTORY = frozenset(
    {Move.RETRY, Move.SNOOZE, Move.GIVE_BACK, Move.DIE, Move.HOLD, Move.REPLAY, Move.RESOLVE, Move.DISCARD}
)
"""The moves that always get a history line: those that end an attempt without success, and those of letters."""


SAME_LINE = ("token", "attempt", "worker", "class", "reason_code", "delay", "by", "reason", "mark")
"""History lines of a job that agree in these fields belong to the same move."""


class Ending(NamedTuple):
    """What the store keeps about how a job ended: a row of the table `ending`, with the statement's field order."""

    n: int
    result: str | None = None
    warning: str | None = None
    failure: str | None = None
    triage: str | None = None
    superseded_by: str | None = None
    fingerprint: str | None = None
    policy_snapshot: str | None = None
    replay_at: float | None = None


_is_plain, _gate, _id, _queue = map(attrgetter, ("plain", "gate", "id", "queue"))
_states = msgspec.json.Decoder(list[str | None])
_marked = msgspec.json.Decoder(list[tuple[int, list[str] | None, list[str | None] | None]])


def gates_of(transitions: Sequence[Transition]) -> Script[list[str]]:
    """Return the threads of the jobs that move."""
    yield from ()
    return [*filter(None, map(_gate, transitions))]


@writes(patience=Patience.ENDLESS, gates=gates_of, number=number_of)
def apply(round_: Round, transitions: Sequence[Transition]) -> Script[list[bool]]:
    """Move jobs as decided; return for each whether its move landed.

    Plain completions take a shortcut: one statement for all of them. Moves that it did not make go through every wing.
    There, a job that already is where its move leads, under this token, counts as landed.
    """
    plain = [*filter(_is_plain, transitions)] if round_.riders.shortcuts else []
    done = (yield from _complete(round_, plain)) if plain else set()
    if len(done) == len(plain) == len(transitions):
        return [True] * len(transitions)
    left = [each for each in transitions if not (each.plain and each.n in done)]
    landed = iter((yield from _apply_all(round_, left)))
    return [(each.plain and each.n in done) or next(landed) for each in transitions]


def _complete(round_: Round, plain: Sequence[Transition]) -> Script[set[int]]:
    """Complete plain jobs with one statement, each once; return the numbers of the jobs that this call moved."""
    moved = {*map(number_of, plain)}
    if not round_.jobs <= moved:  # lock all jobs of the round, these included, in one order
        yield from lock_jobs(round_, moved)
    given = {"numbers": sorted(moved), "now": round_.now}
    [(count,)] = yield "complete_jobs", {**given, "count": len(moved)}
    if count < len(moved):
        moved = {n for (n,) in (yield "complete_some", given)}
    ended = plain
    if len(moved) < len(plain):  # if one attempt has two ends, the first counts
        ended = [*{each.n: each for each in plain[::-1] if each.n in moved}.values()][::-1]
    for queue, theirs in groupby(ended, _queue):
        round_.notices[TOLD[Move.COMPLETE], queue] += map(_id, theirs)
    endings = []
    for each in ended:
        if each.result or each.warning:
            endings.append((each.n, each.result, each.warning, *[None] * 6))  # noqa: PERF401 - a comprehension is a call
    if endings:
        yield "write_endings", endings
    return moved


def _apply_all(round_: Round, transitions: Sequence[Transition]) -> Script[list[bool]]:
    """Move jobs without the shortcut: lock them, let wings revise the decisions, then move them."""
    for locks in round_.riders.locks:
        yield from locks(round_, transitions)
    yield from lock_jobs(round_, (each.n for each in transitions))
    decided = list(transitions)
    for revises in round_.riders.revises:
        decided = yield from revises(decided)
    return (yield from apply_decided(round_, decided))


def apply_decided(round_: Round, transitions: Sequence[Transition]) -> Script[list[bool]]:
    """Move locked jobs as decided, without asking wings to revise the decisions."""
    moving, marks = yield from _read_moving(transitions)
    groundless = yield from _groundless(round_, transitions)
    pairs = list(zip(transitions, moving, strict=True))
    moved: dict[int, Transition] = {}
    for place, (transition, state) in enumerate(pairs):
        if state == transition.source and place not in groundless:
            moved.setdefault(transition.n, transition)  # if one attempt has two ends in this round, the first counts
    if moved:
        movable = list(moved.values())
        yield from _move(round_.now, movable)
        yield from write_down(round_, movable)
        yield from _follow(round_, movable, marks)
    written = yield from _lines_of({each.n for each, state in pairs if state != each.source})
    return [_landed(round_, each, state, moved.get(each.n), written) for each, state in pairs]


def _groundless(round_: Round, transitions: Sequence[Transition]) -> Script[set[int]]:
    """Return the positions of moves whose reason is gone, such as an approval that was withdrawn."""
    found: set[int] = set()
    for guards in round_.riders.guards:
        found.update((yield from guards(transitions)))
    return found


def _follow(round_: Round, moved: Sequence[Transition], marks: Marks) -> Script[None]:
    """Make the moves that follow from these in the same transaction, such as the next step of a workflow."""
    for follows in round_.riders.follows:
        further = yield from follows(round_, moved, marks)
        if further is not None and further.made:
            yield from write_down(round_, further.made)
        if further is not None and further.decided:
            yield from apply_decided(round_, further.decided)


def _lines_of(numbers: Collection[int]) -> Script[set[tuple[Any, ...]]]:
    """Read the history of jobs that may have been moved by an earlier commit whose answer was lost."""
    rows = (yield "history_of", {"numbers": text([*numbers])}) if numbers else []
    return {(n, *_identity(msgspec.json.decode(entry))) for n, entry in rows}


def _identity(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(map(line.get, SAME_LINE))


def _landed(
    round_: Round, decided: Transition, state: str | None, moved: Transition | None, written: set[tuple[Any, ...]]
) -> bool:
    """Return whether a move landed, now or earlier: its line is in the history, or no line says how its attempt ended.

    So a late end from a worker that lost its job did not land, even if the job is where that end leads.
    """
    if moved is decided:
        return True
    own = _identity(_entry(round_, decided))
    if state == decided.source:
        return moved is not None and decided.actor is None and own == _identity(_entry(round_, moved))
    if _is_kept(decided):
        return (decided.n, *own) in written and (decided.actor is not None or decided.target == state)
    return decided.target == state and all(line[:2] != (decided.n, decided.token) for line in written)


def _move(now: float, transitions: Sequence[Transition]) -> Script[None]:
    """Move the jobs. Jobs whose rows change in the same way share a statement."""
    alike: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for each in transitions:
        alike[each.move, each.delay, each.spends, each.defers, each.effect, each.rider(Suspicion)].append(each.n)
    for (move, delay, spends, defers, landed, suspicion), numbers in alike.items():
        in_place = suspicion is not None and suspicion.in_place
        target = MOVES[move][1]
        due_at, ready_at, finished_at = _times(now, delay) if target == State.QUEUED else (None, None, now)
        counts = {"spends": spends, "defers": defers, "landed": landed}
        counts["suspect"] = None if suspicion is None else int(suspicion.suspect)
        when = {"due_at": None if in_place else due_at, "ready_at": ready_at, "finished_at": finished_at}
        when["in_place"] = in_place
        yield "move_jobs", {"numbers": text(numbers), "target": target, **when, **counts}


def _times(now: float, delay: float) -> tuple[float | None, float | None, float | None]:
    return (now + delay, None if delay > 0 else now, None)


def _read_moving(transitions: Sequence[Transition]) -> Script[tuple[list[str | None], Marks]]:
    """Read each job's state (None if it no longer has its move's token), and the marks that wings need about it.

    A job that already is where its move leads was moved by an earlier commit whose answer was lost.
    """
    held = text([(each.n, each.token) for each in transitions])
    [(states, marked)] = yield "standing_states", {"held": held}
    return _states.decode(states), {n: marks for n, *marks in _marked.decode(marked)}


def write_down(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Write the endings, history lines and notices of moves, then let wings write their rows."""
    for each in moved:
        round_.notices[TOLD[each.move], each.queue].append(each.id)
        if each.target == State.QUEUED:
            round_.note_work(each.queue, each.delay)
    if endings := [*filter(None, map(_ending, moved))]:
        yield "write_endings", endings
    if lines := [(each.n, text(_entry(round_, each))) for each in moved if _is_kept(each)]:
        yield "write_history", lines
    for write in round_.riders.writes:
        yield from write(round_, moved)


def _is_kept(moved: Transition) -> bool:
    return moved.move in KEPT_IN_HISTORY or moved.effect is not None or moved.actor is not None


def _ending(moved: Transition) -> Ending | None:
    """Return the row of `ending` for a move, or None if it needs none."""
    said: dict[str, Any] = {}
    for each in moved.carries:
        said |= each.ending
    if not (said or moved.result or moved.warning):
        return None
    failure = None if moved.failure is None else text(moved.failure)
    return Ending(moved.n, moved.result, moved.warning, failure, **said)


def _entry(round_: Round, transition: Transition) -> dict[str, Any]:
    line: dict[str, Any] = {"attempt": transition.attempt, "at": round_.now, "worker": transition.worker}
    line["token"] = transition.token
    if not transition.begun:
        line |= {"attempt": transition.attempt + transition.spends, "begun": False}
    failure = transition.attempt_failure
    if failure is not None:
        line |= msgspec.to_builtins(failure)
        del line["advice"], line["cause"]  # a line is about one attempt, so its own reason code says enough
    else:
        line |= {"reason_code": _history_word(transition) or TOLD[transition.move], "landed": transition.landed}
    if transition.target == State.QUEUED:
        line["delay"] = transition.delay
    for each in transition.carries:
        line |= each.history_marks
    return line


def _history_word(transition: Transition) -> str | None:
    """Return the reason code that a carried value sets for the history, if one does."""
    return next((each.history_word for each in transition.carries if each.history_word), None)
