"""Script for carrying notices out: how far the journal was followed, moved together with the jobs that carry them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from standfast.job import NewJob
from standfast.spine.bulk import store_bulk
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text


class CarryRequest(NamedTuple):
    """The jobs that carry the notices after one journal row, up to another."""

    name: str
    since: int
    seq: int
    jobs: tuple[NewJob, ...] = ()


@writes(room=ROOM_TO_ACCEPT, separate=True, size=lambda carrying: max(1, len(carrying.jobs)))
def carry(round_: Round, carryings: Sequence[CarryRequest]) -> Script[list[int]]:
    """Store the jobs and move on, if no other process has meanwhile and there is room; answer with the position."""
    answers = []
    for each in carryings:
        yield "begin_following", {"name": each.name, "seq": each.since}
        [(at,)] = yield "lock_follower", {"name": each.name}
        if at == each.since and (not each.jobs or (yield from store_bulk(round_, each.jobs))):
            yield "move_follower", {"name": each.name, "seq": each.seq}
            at = each.seq
        answers.append(at)
    return answers


BITE = 5000
"""How many transactions get their numbers at once. Even a slow server does that in a fraction of its 5 s."""
BITE_SIZE = 8 << 20
"""How many bytes of them at once: the notices of one transaction may be long."""


@writes()
def number_journal(_round: Round, asked: Sequence[None]) -> Script[list[bool | None]]:
    """Assign the next numbers, in commit order; return whether more rows are left.

    Return None while another transaction is doing it.
    """
    free = (yield "try_journal", {}) != [(False,)]
    more = (yield from number_bite()) if free else None
    return [more] * len(asked)


def number_bite() -> Script[bool]:
    """Assign numbers to one bite of rows, with the journal locked; return whether more rows are left."""
    rows = yield "number_journal", {"most": BITE, "bytes": BITE_SIZE}
    return rows == [(True,)]


class JournalRow(NamedTuple):
    """The notices of one transaction, as JSON text: [[kind, queue, [job id, …]], …]."""

    seq: int
    at: float
    entries: str


def journal(after: int, limit: int) -> Script[list[JournalRow]]:
    """Read the rows after a journal row, oldest first."""
    rows = yield "journal_after", {"after": after, "limit": limit}
    return [JournalRow(*row) for row in rows]


def retry_lines(ids: Sequence[str]) -> Script[list[tuple[str, str]]]:
    """Read the history of these jobs: the id of each, and a line (JSON text)."""
    return [(job, line) for job, line in (yield "retry_lines", {"ids": text([*ids])})]


class JournalEnd(NamedTuple):
    """How far the journal goes. It is another one after each commit that told something."""

    seq: int
    """The newest number."""
    unnumbered: int
    """How many transactions have no number yet, up to a bite."""
    latest: int
    """The last of those in the order of writing, which is not always that of commits."""


def journal_end() -> Script[JournalEnd]:
    """Read how far the journal goes."""
    [row] = yield "journal_end", {"most": BITE}
    return JournalEnd(*row)


def last_journal_number() -> Script[int]:
    """Read the number that the newest transaction has or will have; a lower one if more than a bite has none yet."""
    end = yield from journal_end()
    return end.seq + end.unnumbered
