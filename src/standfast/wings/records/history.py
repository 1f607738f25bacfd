"""The history of a job that is put back again and again: of many lines alike, only the first and the last are kept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from standfast.lifecycle import Move, Transition
from standfast.store.steps import Round, Script, text

KEPT = 50
"""How many lines at the end of a run of lines alike are kept, besides its first; as many come before the next cut."""
LOOKED_AT = 1000
"""How many lines are read to shorten a run. A longer one, from an earlier version, is shortened in several steps."""
PUT_BACK = frozenset({Move.SNOOZE, Move.GIVE_BACK})
"""The moves that can follow each other without end, because they spend no attempt."""
OWN = frozenset({"at", "token", "worker", "delay", "message", "error_kind", "left_out"})
"""Fields in which lines that are alike may differ."""


class Line(NamedTuple):
    """A line of a history, with its number there."""

    number: int
    entry: dict[str, Any]

    @property
    def kind(self) -> dict[str, Any]:
        """What it has in common with the lines that are alike."""
        return {name: value for name, value in self.entry.items() if name not in OWN and value is not None}


class Shortening(NamedTuple):
    """The first line of a run, which now counts the lines that are left out, and the numbers of those lines."""

    first: Line
    left_out: list[int]


def shorten(_round: Round, moved: Sequence[Transition]) -> Script[None]:
    """Shorten the histories of jobs that were put back.

    A job's token rises with each claim, so each job has its turn once in `KEPT` claims, and different jobs at different
    times.
    """
    numbers = [each.n for each in moved if each.move in PUT_BACK and (each.n + each.token) % KEPT == 0]
    if not numbers:
        return
    rows = yield "newest_lines", {"numbers": text(numbers), "most": LOOKED_AT}
    marked: list[tuple[int, int, str]] = []
    gone: list[tuple[int, int]] = []
    for n, theirs in groupby(rows, itemgetter(0)):
        found = shortening([Line(number, msgspec.json.decode(entry)) for _, number, entry in theirs])
        if found is not None:
            marked.append((n, found.first.number, text(found.first.entry)))
            gone += [(n, number) for number in found.left_out]
    if marked:
        yield "mark_lines", marked
        yield "delete_lines", gone


def shortening(newest: Sequence[Line]) -> Shortening | None:
    """Return what to leave out of the run of lines alike at the end of a history, which is given newest line first."""
    kind = newest[0].kind if newest else {}
    run = [*takewhile(lambda line: line.kind == kind, newest)]
    between = run[KEPT:-1]
    if not between:
        return None
    number, entry = run[-1]
    counted = sum(1 + line.entry.get("left_out", 0) for line in between) + entry.get("left_out", 0)
    return Shortening(Line(number, {**entry, "left_out": counted}), [line.number for line in between])
