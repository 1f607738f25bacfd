"""The course of every transaction: names are locked, scripts run, wings settle, and what happened is written down."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from standfast.job import NewJob
from standfast.lifecycle import NoticeKind
from standfast.store.scripts import Call, Feeds
from standfast.store.steps import Round, Script, encode

NOTICES_A_ROW = 5000
"""So many notices one row of the journal has at most: as many as calls that are written together."""

Entry = tuple[str, str, Sequence[str]]
"""What happened, in which queue, to which jobs."""

_thread_key = attrgetter("thread_key")


def run(round_: Round, calls: list[Call], feeds: Feeds | None) -> Script[list[list[Any]]]:
    """Run the scripts of a round in their turns, then the claims that it `feeds`; give the results of each."""
    yield from lock(round_, calls)
    results = []
    for call in calls:
        results.append((yield from call.script.run(round_, call.items)))  # noqa: PERF401 - a comprehension cannot yield
    if feeds is not None and round_.work:
        results += yield from _feed(round_, calls, feeds)
    yield from close(round_)
    return results


def _feed(round_: Round, calls: list[Call], feeds: Feeds) -> Script[list[list[Any]]]:
    """Run the standing claims that this round brings work for, as further calls of it; give their results."""
    fed = feeds(round_)
    results = []
    for call in fed:
        requests = [_narrowed(each, round_.work) for each in call.items]
        results.append((yield from call.script.run(round_, requests)))
    if fed:
        calls += fed
        _forget_claimed_work(round_)
    return results


def _narrowed(request: Any, queues: Collection[str]) -> Any:
    """Have a standing claim look only at the queues that this round gives work to."""
    wanted = tuple(demand for demand in request.demands if demand.queue in queues)
    return msgspec.structs.replace(request, demands=wanted)


def _forget_claimed_work(round_: Round) -> None:
    """Wake no worker for newcomers that were claimed in the round that brought them, where nothing else came."""
    for queue in [*round_.work]:
        kinds = {kind for kind, of in round_.notices if of == queue}
        enqueued, claimed = round_.notices[NoticeKind.ENQUEUED, queue], round_.notices[NoticeKind.CLAIMED, queue]
        if kinds == {NoticeKind.ENQUEUED, NoticeKind.CLAIMED} and {*enqueued} <= {*claimed}:
            del round_.work[queue]


def lock(round_: Round, calls: Sequence[Call]) -> Script[None]:
    """Lock the names that the scripts of a round need before any row, and note the jobs that they will lock."""
    threaded: list[NewJob] = []
    names: list[str] = []
    for script, items, _ in calls:
        if script.newcomers is not None:
            threaded += filter(_thread_key, script.newcomers(items))
        if script.gates is not None:
            names += yield from script.gates(items)
        if script.number is not None:
            round_.jobs.update(map(script.number, items))
    if threaded or names:
        yield from round_.riders.names(round_, threaded, names)


def close(round_: Round) -> Script[None]:
    """Write the round's journal row and counters, between what wings have to settle and to close."""
    if round_.states:
        yield from settle(round_)
    if round_.notices:
        counts = []
        entries: list[Entry] = []
        notices = 0
        for (kind, queue), ids in round_.notices.items():
            counts.append((queue, kind, len(ids), round_.now))
            entries.append((kind, queue, ids))
            notices += len(ids)
        for row in [entries] if notices <= NOTICES_A_ROW else _journal_rows(entries):
            yield "write_journal", {"now": round_.now, "entries": encode(row).decode()}
        yield "add_counters", counts
    if round_.states:
        for closes in round_.riders.closes:
            yield from closes(round_)


def settle(round_: Round) -> Script[None]:
    """Have wings settle what the round left them: after every lock that is waited for, and before any claim."""
    for settles in round_.riders.settles:
        yield from settles(round_)


def _journal_rows(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Give what is told as several rows, where there are many: readers take a row in one piece."""
    row: list[Entry] = []
    room = NOTICES_A_ROW
    for kind, queue, ids in entries:
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
