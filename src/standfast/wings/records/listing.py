"""Listing jobs, the newest first: whatever the filter, a page costs a bounded number of reads."""

from __future__ import annotations

from typing import Any, NamedTuple

from standfast.lifecycle import LETTERS, State
from standfast.store.steps import Script, text
from standfast.wings.records.reads import LOOKED_THROUGH, JobRecord, SoughtLetters, with_history


class Filter(NamedTuple):
    """Which jobs to list, newest first, below the cursor. None matches everything."""

    queue: str | None = None
    state: str | None = None
    limit: int = 50
    before: int = 1 << 62
    session: str | None = None
    view: str | None = None
    reason_code: str | None = None
    error_kind: str | None = None
    thread_key: str | None = None
    label: str | None = None
    label_value: str | None = None
    possible_duplicate: bool | None = None
    q: str | None = None
    queues: tuple[str, ...] | None = None
    """The only queues that the caller may see."""
    requester: str | None = None
    handler: str | None = None
    in_payload: bool = True
    """Whether `q` is searched in payloads and messages too, not only in names."""


class Sought(NamedTuple):
    """A page of jobs: where to continue (None if nothing is left), and how many jobs were read for it."""

    records: list[JobRecord]
    next_before: int | None
    scanned: int


LARGEST_LISTED = 64 << 10
"""The most bytes of a receipt in a list of jobs; a single job is shown with every receipt whole."""
LETTERS_LOOKED_THROUGH = 5000
"""The most letters that one page passes, however few of them match: why they stopped is kept as text."""
LARGEST_BITE = 2000
BITE_GROWS = 4
_PAGING = frozenset({"limit", "before", "in_payload"})


def jobs(wanted: Filter, now: float) -> Script[Sought]:
    """Read a page of jobs; it ends early if too many had to be skipped."""
    found, below, scanned = yield from _numbers(wanted, now)
    chosen = found[: wanted.limit]
    rows = yield "list_jobs", {"numbers": text(chosen)}
    records = yield from with_history(rows, LARGEST_LISTED)
    return Sought(records, chosen[-1] if len(found) > wanted.limit else below, scanned)


def letters(wanted: SoughtLetters, most: int = LARGEST_LISTED) -> Script[tuple[list[JobRecord], int | None]]:
    """Read a page of letters; it ends early if too many had to be skipped. Also return where it then ended.

    Receipts with more than `most` bytes are left out.
    """
    end = yield from looked_at(wanted)
    rows = yield "list_letters", wanted._replace(above=end or 0)._asdict()
    return (yield from with_history(rows, most)), end


def looked_at(wanted: SoughtLetters) -> Script[int | None]:
    """Find the number of the last letter that is read; None if there are fewer, or if none has to be skipped."""
    beyond = [] if wanted.takes_all else (yield "nth_letter", {"before": wanted.before, "most": LETTERS_LOOKED_THROUGH})
    return beyond[0][0] + 1 if beyond else None


def _numbers(wanted: Filter, now: float) -> Script[tuple[list[int], int | None, int]]:
    """Find one number more than a page has; also where the walk stopped short, and how many were read."""
    walk, named = _walk(wanted)
    query = _query(wanted, now)
    found: list[int] = []
    below, scanned, bite = wanted.before, 0, wanted.limit + 1
    while len(found) <= wanted.limit and scanned < LOOKED_THROUGH:
        most = min(bite, LARGEST_BITE, LOOKED_THROUGH - scanned)
        numbers = [n for (n,) in (yield walk, {**named, "before": below, "most": most})]
        if numbers:
            rows = yield "matching_jobs", {**query, "numbers": text(numbers)}
            found += sorted((n for (n,) in rows), reverse=True)
            below = numbers[-1]
        scanned += len(numbers)
        if len(numbers) < most:
            return found, None, scanned
        bite *= BITE_GROWS
    return found, below, scanned


def _walk(wanted: Filter) -> tuple[str, dict[str, Any]]:
    """Choose the index that skips the most jobs."""
    if wanted.session is not None:
        return "walk_session", {"session": wanted.session, "quoted": text(wanted.session)[1:-1]}
    for state in (wanted.state, wanted.view):
        if state in LETTERS:
            return "walk_stopped", {}
        if state == State.RUNNING:
            return "walk_running", {}
    if wanted.possible_duplicate:
        return "walk_history", {}
    return "walk_jobs", {}


def _query(wanted: Filter, now: float) -> dict[str, Any]:
    named = {name: value for name, value in wanted._asdict().items() if name not in _PAGING}
    named["queues"] = None if wanted.queues is None else text(wanted.queues)
    named["quoted"] = text(wanted.q)[1:-1] if wanted.q is not None and wanted.in_payload else None
    named["possible_duplicate"] = None if wanted.possible_duplicate is None else int(wanted.possible_duplicate)
    return {**named, "now": now}
