"""The end of every transaction: wings settle what its scripts left them, and what it tells becomes one journal row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from standfast.store.steps import Round, Script, text

NOTICES_A_ROW = 5000
"""So many notices one row of the journal has at most: as many as calls that are written together."""


def close(round_: Round) -> Script[None]:
    """Write the round's journal row and counters, between what wings have to settle and to close."""
    yield from settle_round(round_)
    if round_.told:
        for entries in _journal_rows(round_.told):
            yield "write_journal", {"now": round_.now, "entries": text(entries)}
        yield "add_counters", [(queue, kind, len(ids)) for (kind, queue), ids in round_.told.items()]
    if round_.kept:
        for closes in round_.riders.closes:
            yield from closes(round_)


def settle_round(round_: Round) -> Script[None]:
    """Have wings settle what the round left them: after every lock that is waited for, and before any claim."""
    if round_.kept:
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
