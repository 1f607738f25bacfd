"""Scripts for workflows: how one starts, what a step's end means for those behind it, how the whole is counted.

A step is a job that knows how many of the steps before it are not completed. The move of a step counts that down in
the same transaction, and the one that counts to nothing releases it. On PostgreSQL the steps behind are locked after
the jobs that moved, in the order of their numbers, which is the order of the graph; the workflows' own rows come after
every job, in the order of their ids.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from standfast.job import Claim, Parent
from standfast.lifecycle import FINAL, LETTERS, MOVES, Move, State, Transition
from standfast.rules import DEFAULTS
from standfast.spine.riders import FollowUps, Marks
from standfast.store.steps import Round, RoundState, Rows, Script, lock_jobs, text
from standfast.wings.workflows.words import ENDED, TOLD, Progress, Tally

LARGEST_HAND_OVER = 4 << 20
"""Bytes of results that one claim brings to the steps behind; what is beyond is read when a handler asks for it."""

COMPLETIONS = frozenset({Tally(-1), Tally(-1, -1)})
"""What the end of a step changes that is completed, or of a letter that is resolved."""

_numbers = msgspec.json.Decoder(list[int]).decode


# --- what follows a step


class MovedStep(NamedTuple):
    """A step that moves, as far as others depend on it; `children` are numbers, as JSON text."""

    workflow: str
    name: str
    children: str | None


class Tallies(RoundState):
    """By how many the steps of workflows changed: counted before a round closes, after every job is locked."""

    def __init__(self) -> None:
        self.of: dict[str, Tally] = {}

    def add(self, workflow: str, changed: Tally) -> None:
        """Note by how many the steps of a workflow changed."""
        self.of[workflow] = self.of.get(workflow, Tally()).plus(changed)

    def absorb(self, other: Tallies) -> None:
        """Add what a part of the round counted."""
        for workflow, changed in other.of.items():
            self.add(workflow, changed)

    def take(self) -> dict[str, Tally]:
        """Give what was counted, and begin anew."""
        taken, self.of = self.of, {}
        return taken


def following(round_: Round, moved: Sequence[Transition], marks: Marks) -> Script[FollowUps | None]:
    """Count what moved, and give the moves that follow from it: who was released by that, and who is to end with it.

    A repeat holds up what is behind it, and changes nothing else.
    """
    steps = {n: MovedStep(*mark[1]) for n, mark in marks.items() if mark[1] is not None}
    if not steps:
        return None
    changes = [(n, change) for n, change in ((each.n, _change(each.move, each.source)) for each in moved) if n in steps]
    counted = Counter((steps[n].workflow, change) for n, change in changes if change is not None)
    for (workflow, change), number in counted.items():
        round_.state(Tallies).add(workflow, change.times(number))
    completed = [steps[n] for n, change in changes if change in COMPLETIONS]
    dropped = {n: steps[n].name for n, change in changes if change and change.dropped and steps[n].children}
    return FollowUps((yield from _released(round_, completed)), (yield from _dropped(dropped)))


@cache
def _change(move: Move, source: State) -> Tally | None:
    """Give what a move changes in the counts of a workflow; None if that is nothing."""
    target = MOVES[move][1]
    stopped = (target in LETTERS) - (source in LETTERS)
    change = Tally(-(target in FINAL), stopped, int(target == State.CANCELLED))
    return change if any(change) else None


def _released(round_: Round, completed: Sequence[MovedStep]) -> Script[list[Transition]]:
    """Count down what waits for completed steps, which releases those that wait for nothing more; give their moves."""
    behind = Counter(child for step in completed for child in _numbers(step.children or "[]"))
    if not behind:
        return []
    yield from lock_jobs(round_, behind)
    alike: defaultdict[int, list[int]] = defaultdict(list)
    for n, number in behind.items():
        alike[number].append(n)
    rows: Rows = []
    for number, numbers in alike.items():
        rows += yield "count_parents_down", {"numbers": text(numbers), "completed": number, "now": round_.now}
    return [
        Transition(n, token, job_id, queue, Move.RELEASE, State.WAITING, delay=max(0.0, due_at - round_.now))
        for n, pending, state, token, queue, due_at, job_id in sorted(rows)
        if pending == 0 and state == State.QUEUED
    ]


def _dropped(cancelled: Mapping[int, str]) -> Script[list[Transition]]:
    """Give the moves that end everything that waits for steps, given by name, which never will be completed."""
    if not cancelled:
        return []
    rows = yield "waiting_behind", {"numbers": text(list(cancelled))}
    if rows:
        yield "lock_jobs", {"numbers": text(sorted(n for n, *_ in rows))}
    first, *others = cancelled.values()
    why = "steps before it were cancelled" if others else f"step {first} was cancelled"
    return [
        Transition(n, token, job_id, queue, Move.CANCEL, State.WAITING, warning=why) for n, token, job_id, queue in rows
    ]


def settle(round_: Round) -> Script[None]:
    """Count the workflows of this round: they are locked after every job, and before the gates that ends give back."""
    counted = sorted(round_.state(Tallies).take().items())
    changed = [(workflow, *tally) for workflow, tally in counted if any(tally)]
    if not changed:
        return
    for workflow, before, *counts in (yield "tally_workflows", {"tallies": text(changed)}):
        progress = Tally(*counts).progress
        if progress != before:
            yield from _progress(round_, workflow, progress)


def _progress(round_: Round, workflow: str, progress: Progress) -> Script[None]:
    round_.notices[TOLD[progress], ""].append(workflow)
    if progress not in ENDED:
        yield "set_progress", {"id": workflow, "state": progress}
        return
    kept = {"keep_completed": DEFAULTS.keep_completed}
    yield "end_workflow", {"id": workflow, "state": progress, "now": round_.now, **kept}
    yield "release_workflow_key", {"id": workflow, "now": round_.now, "keep_keys": DEFAULTS.keep_keys}


# --- what a step is given


def with_parents(claims: list[Claim]) -> Script[list[Claim]]:
    """Give the steps among claims what came of the steps before them; without any, this asks nothing."""
    steps = [claim.n for claim in claims if claim.pending is not None]
    if not steps:
        return claims
    found = yield from parents(steps)
    return [_with(claim, found.get(claim.n)) for claim in claims]


def parents(steps: Sequence[int]) -> Script[dict[int, dict[str, Parent]]]:
    """Read what came of the steps before these, by number and name; a result that many wait for is read once."""
    found: dict[int, dict[str, Parent]] = {n: {} for n in steps}
    for n, name, whose, size, result in (yield "parents_of", {"numbers": text(steps), "most": LARGEST_HAND_OVER}):
        parent = Parent(n, result, left_out=result is None and size is not None)
        for child in _numbers(whose):
            found[child][name] = parent
    return found


def parents_of(n: int) -> Script[dict[str, Parent]]:
    """Read what came of the steps before one, by name."""
    return (yield from parents([n]))[n]


def _with(claim: Claim, parents: dict[str, Parent] | None) -> Claim:
    return claim if parents is None else msgspec.structs.replace(claim, parents=parents)
