"""The course of every transaction: lock names, run scripts, let wings settle, and write down what happened."""

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
"""The most notices that one row of the journal holds: as many as calls that are written together."""

Entry = tuple[str, str, Sequence[str]]
"""What happened, in which queue, to which jobs."""

_thread_key = attrgetter("thread_key")


def run(round_: Round, calls: list[Call], feeds: Feeds | None) -> Script[list[list[Any]]]:
    """Run the scripts of a round in order, then the claims that it `feeds`; return the results of each."""
    yield from lock(round_, calls)
    results = []
    for call in calls:
        results.append((yield from call.script.run(round_, call.items)))  # noqa: PERF401 - a comprehension cannot yield
    if feeds is not None and round_.work:
        results += yield from _feed(round_, calls, feeds)
    yield from close(round_)
    return results


def _feed(round_: Round, calls: list[Call], feeds: Feeds) -> Script[list[list[Any]]]:
    """Run the standing claims for which this round has work, as further calls of the round; return their results."""
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
    """Limit a standing claim to the queues that this round brings work to."""
    wanted = tuple(demand for demand in request.demands if demand.queue in queues)
    return msgspec.structs.replace(request, demands=wanted)


def _forget_claimed_work(round_: Round) -> None:
    """Wake no worker for a queue whose only news is jobs that were both enqueued and claimed in this round."""
    for queue in [*round_.work]:
        kinds = {kind for kind, of in round_.notices if of == queue}
        enqueued, claimed = round_.notices[NoticeKind.ENQUEUED, queue], round_.notices[NoticeKind.CLAIMED, queue]
        if kinds == {NoticeKind.ENQUEUED, NoticeKind.CLAIMED} and {*enqueued} <= {*claimed}:
            del round_.work[queue]


def lock(round_: Round, calls: Sequence[Call]) -> Script[None]:
    """Lock the names that a round's scripts need, before any row, and note which jobs they will lock."""
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
    """Write the round's journal rows and counters; wings settle before that, and close after it."""
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
    """Let wings settle what the round left them: after every lock that may have to wait, and before any claim."""
    for settles in round_.riders.settles:
        yield from settles(round_)


def _journal_rows(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Split the entries into several journal rows if there are many: readers take a row as a whole."""
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
