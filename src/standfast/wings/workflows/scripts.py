"""Scripts for workflows: what a step's end means for the steps behind it, the counts, and what a step is given.

A step is a job that counts the steps before it that are not completed. The move of a step counts that down in the
same transaction, and the move that reaches zero releases it. On PostgreSQL the steps behind are locked after the jobs
that moved, in the order of their numbers, which is the order of the graph. The rows of workflows are locked after every
job, in the order of their ids.
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
"""Bytes of results that one claim loads for its steps; further results are read when a handler asks for them."""

COMPLETIONS = frozenset({Tally(-1), Tally(-1, -1)})
"""The changes to the counts when a step completes, or when a letter is resolved."""

_numbers = msgspec.json.Decoder(list[int]).decode


# --- what follows a step


class MovedStep(NamedTuple):
    """A step that moves, with what the steps behind it depend on; `children` are numbers, as JSON text."""

    workflow: str
    name: str
    children: str | None


class Tallies(RoundState):
    """How the counts of workflows changed in this round: applied before it closes, after every job is locked."""

    def __init__(self) -> None:
        self.of: dict[str, Tally] = {}

    def add(self, workflow: str, changed: Tally) -> None:
        """Add a change to a workflow's counts."""
        self.of[workflow] = self.of.get(workflow, Tally()).plus(changed)

    def absorb(self, other: Tallies) -> None:
        """Add what a part of the round counted."""
        for workflow, changed in other.of.items():
            self.add(workflow, changed)

    def take(self) -> dict[str, Tally]:
        """Return the counts, and start again from zero."""
        taken, self.of = self.of, {}
        return taken


def following(round_: Round, moved: Sequence[Transition], marks: Marks) -> Script[FollowUps | None]:
    """Count the moves, and return the moves that follow: the steps they release, and the steps that end with them.

    A step that is retried holds up the steps behind it, and changes nothing else.
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
    """Return how a move changes a workflow's counts; None if it does not."""
    target = MOVES[move][1]
    stopped = (target in LETTERS) - (source in LETTERS)
    change = Tally(-(target in FINAL), stopped, int(target == State.CANCELLED))
    return change if any(change) else None


def _released(round_: Round, completed: Sequence[MovedStep]) -> Script[list[Transition]]:
    """Count down the steps behind completed ones, and return the moves of those that this releases."""
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
    """Return the moves that cancel every step behind these cancelled ones (number: name), which never will complete."""
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
    """Apply this round's counts. Workflows are locked after every job, and before the gates that ended jobs free."""
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
    """Add the results of earlier steps to the claims that are steps. Without such a claim, nothing is read."""
    steps = [claim.n for claim in claims if claim.pending is not None]
    if not steps:
        return claims
    found = yield from parents(steps)
    return [_with(claim, found.get(claim.n)) for claim in claims]


def parents(steps: Sequence[int]) -> Script[dict[int, dict[str, Parent]]]:
    """Read the results of the steps before these, by number and name. A result that several steps need is read once."""
    found: dict[int, dict[str, Parent]] = {n: {} for n in steps}
    for n, name, whose, size, result in (yield "parents_of", {"numbers": text(steps), "most": LARGEST_HAND_OVER}):
        parent = Parent(n, result, left_out=result is None and size is not None)
        for child in _numbers(whose):
            found[child][name] = parent
    return found


def parents_of(n: int) -> Script[dict[str, Parent]]:
    """Read the results of the steps before one, by name."""
    return (yield from parents([n]))[n]


def _with(claim: Claim, parents: dict[str, Parent] | None) -> Claim:
    return claim if parents is None else msgspec.structs.replace(claim, parents=parents)
