"""The course of every transaction: names are locked, scripts run, wings settle, and what happened is written down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from standfast.store.scripts import Call
from standfast.store.steps import Round, Script, text

NOTICES_A_ROW = 5000
"""So many notices one row of the journal has at most: as many as calls that are written together."""


def run(round_: Round, calls: Sequence[Call]) -> Script[list[list[Any]]]:
    """Run the scripts of a round, in their turns; give the results of each."""
    yield from lock(round_, calls)
    results = []
    for call in calls:
        results.append((yield from call.script.run(round_, call.items)))  # noqa: PERF401 - a comprehension cannot yield
    yield from close(round_)
    return results


def lock(round_: Round, calls: Sequence[Call]) -> Script[None]:
    """Lock the names that the scripts of a round need before any row, and note the jobs that they will lock."""
    threaded = []
    names: list[str] = []
    for script, items, _ in calls:
        if script.newcomers is not None:
            for job in script.newcomers(items):
                if job.thread_key is not None:
                    threaded.append(job)  # noqa: PERF401 - once for every call, where a comprehension costs more
        if script.gates is not None:
            names += yield from script.gates(items)
        if script.number is not None:
            round_.jobs.update(map(script.number, items))
    if threaded or names:
        yield from round_.riders.names(round_, threaded, names)


def close(round_: Round) -> Script[None]:
    """Write the round's journal row and counters, between what wings have to settle and to close."""
    if round_.kept:
        yield from settle(round_)
    if round_.told:
        for entries in _journal_rows(round_.told):
            yield "write_journal", {"now": round_.now, "entries": text(entries)}
        counts = []
        for (kind, queue), ids in round_.told.items():
            counts.append((queue, kind, len(ids)))
        yield "add_counters", counts
    if round_.kept:
        for closes in round_.riders.closes:
            yield from closes(round_)


def settle(round_: Round) -> Script[None]:
    """Have wings settle what the round left them: after every lock that is waited for, and before any claim."""
    for settles in round_.riders.settles:
        yield from settles(round_)


def _journal_rows(told: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[list[tuple[str, str, Sequence[str]]]]:
    """Give what is told as one row, or as several where it is much: whoever reads takes a row in one piece."""
    row: list[tuple[str, str, Sequence[str]]] = []
    room = NOTICES_A_ROW
    for (kind, queue), ids in told.items():
        start = 0
        while start < len(ids):
            some = ids[start : start + room]
            row.append((kind, queue, some))
            start, room = start + len(some), room - len(some)
            if not room:
                yield row
                row, room = [], NOTICES_A_ROW
    if row:
        yield row
