"""Scripts that read redrives and their letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from standfast.store.steps import Script, text
from standfast.wings.records import reads
from standfast.wings.records.reads import JobRecord
from standfast.wings.redrives.scripts import RedriveRow
from standfast.wings.redrives.words import WINDOW, Outcome, Tally

MOST_HALTED = 20
MOST_FAILURES = 20
"""How many letters that stopped again are listed, each with its error."""
Counts = list[tuple[str, str | None, int | None, int]]
"""How many letters of a redrive have each state, outcome and episode."""
Released = list[tuple[int, str | None, str | None]]
"""The replayed letters of a redrive that have not ended: place, state and replay status of each."""


def one(redrive: str) -> Script[tuple[RedriveRow, Counts, Released] | None]:
    """Read a redrive with its counts, by state, outcome and episode, and with its letters that are under way."""
    rows = yield "redrive_by_id", {"id": redrive}
    if not rows:
        return None
    counts = yield "redrive_tally", {"redrive": redrive}
    released = yield "released_letters", {"redrive": redrive}
    return RedriveRow(*rows[0]), [(*row,) for row in counts], [(*row,) for row in released]


def failed_again(redrive: str) -> Script[list[dict[str, Any]]]:
    """Read the last letters of a redrive that stopped again, each with its failure."""
    rows = yield "failed_again", {"redrive": redrive, "limit": MOST_FAILURES}
    return [{"job_id": job, "queue": queue, **_failed_of(failure)} for job, queue, failure in rows]


def _failed_of(failure: str | None) -> dict[str, Any]:
    """Return the part of a stored failure that says what went wrong."""
    stored = msgspec.json.decode(failure) if failure else {}
    return {name: stored.get(name) for name in ("reason_code", "cause", "message")}


def list_redrives(limit: int) -> Script[list[RedriveRow]]:
    """Read the redrives that were started, the newest first."""
    return [RedriveRow(*row) for row in (yield "list_redrives", {"limit": limit})]


def halted() -> Script[list[tuple[str, str]]]:
    """Read the redrives that were halted by failures, with why."""
    return [(*row,) for row in (yield "halted_redrives", {"limit": MOST_HALTED})]


def tally(redrive: str, episode: int) -> Script[Tally]:
    """Read the progress of a redrive in this episode."""
    numbers: Counter[str] = Counter()
    for state, outcome, at, number in (yield "redrive_tally", {"redrive": redrive}):
        numbers[_counted_as(state, outcome, now=at == episode)] += number
    recent = yield "recent_outcomes", {"redrive": redrive, "episode": episode, "limit": WINDOW}
    failed = tuple(outcome == Outcome.FAILED for (outcome,) in recent)
    known = {name: numbers[name] for name in ("waiting", "running", "from_before", "completed", "failed")}
    return Tally(recent=failed, **known)


def _counted_as(state: str, outcome: str | None, *, now: bool) -> str:
    if state == "released":
        return "running" if now else "from_before"
    return state if state == "waiting" else f"{outcome}" if now else "earlier"


def letters(numbers: Sequence[int]) -> Script[tuple[list[JobRecord], set[int]]]:
    """Read whole jobs by number, and the numbers of those whose threads have gone on without them."""
    rows = yield "letters_by_number", {"numbers": text(list(numbers))}
    records = yield from reads.with_history(rows)
    moved = {n for (n,) in (yield "moved_on", {"numbers": text(list(numbers))})}
    return records, moved


def first_letter(redrive: str) -> Script[JobRecord | None]:
    """Read the first waiting letter of a redrive, or None."""
    planned = yield "next_redriven", {"redrive": redrive, "limit": 1}
    records, _ = yield from letters([n for _, n, *_ in planned])
    return records[0] if records else None
