"""Following the journal: one look serves all readers in this process, and each reader has its own position.

A reader keeps nothing but its position, so that a slow reader costs nothing and loses nothing: rows that are no longer
in memory when it comes back, it reads from the journal.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice, takewhile
from weakref import WeakKeyDictionary

from standfast.store.store import Store
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.notices.journal import LOOK_EVERY, journal, newest
from standfast.wings.notices.retries import retries_of
from standfast.wings.notices.scripts import JournalRow
from standfast.wings.notices.words import (
    Entry,
    Fits,
    Notice,
    NoticeFilter,
    RetryData,
    checked_kinds,
    end_of,
    entries,
    gap,
    lay_out,
    row_of,
)

ROWS_AT_ONCE = 200
ROWS_A_READER = 20
"""Transactions a reader takes at once; a reader that does not come back holds no more than these."""
KEPT_ROWS = 1000
KEPT_SIZE = 4 << 20
"""What is kept in memory for all readers: this many transactions, of this many bytes."""
NOTICES_AT_ONCE = 500
SIZE_AT_ONCE = 1 << 19
"""After this many notices, or bytes read for them, a reader is answered: the others wait meanwhile."""
FOREVER = 9e9


class Row:
    """The notices of one transaction, parsed once for all readers."""

    def __init__(self, found: JournalRow, skew: float, retries: RetryData | None = None) -> None:
        self.seq = found.seq
        self.size = len(found.entries)
        self.at = datetime.fromtimestamp(found.at + skew, UTC)
        self._text = found.entries
        self._retries = retries

    @cached_property
    def _entries(self) -> list[Entry]:
        return entries(self._text)

    def notices(self, fits: Fits) -> Iterator[Notice]:
        """Return its wanted notices, in order."""
        return lay_out(self.seq, self.at, self._entries, fits, self._retries)


class UnknownPosition(Exception):
    """A position belongs to another store than this one."""


class JournalReader:
    """Looks at the journal for all readers of one event loop, and keeps its newest rows in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: deque[Row] = deque()
        self._size = 0
        self._since = 0
        """All rows after this one, up to the last one seen, are in memory."""
        self._at = 0
        self._looking: asyncio.Task[None] | None = None
        self._next_look = 0.0
        self._waiting = 0

    async def rows_after(self, row: int, within: float) -> list[Row]:
        """Return some rows after one, the oldest first; none if none came within so many seconds."""
        clock = asyncio.get_running_loop().time
        give_up = clock() + within
        while True:
            row, found = await self._rows_at_hand(row)
            left = give_up - clock()
            if found or left <= 0:
                return found
            await self._look(left)

    async def _rows_at_hand(self, row: int) -> tuple[int, list[Row]]:
        """Return the rows after a row; and a later row to start from, if there is nothing in between."""
        if row < self._since:
            seen = self._at  # before the read: what comes meanwhile is not skipped
            found = await self._read(row, ROWS_A_READER)
            return (row if found else max(row, seen)), found
        if row > self._at:  # there was no reader for a while: what was missed is not needed
            await self._check(row)
            if row > self._at:
                self._begin(row)
            return await self._rows_at_hand(row)  # the rows in memory may have changed meanwhile
        newer = [*takewhile(lambda each: each.seq > row, reversed(self._rows))]
        return row, newer[: -ROWS_A_READER - 1 : -1]

    async def _look(self, within: float) -> None:
        """Wait for new rows. All waiting readers share one look, and an error in it reaches all of them."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._take())
            self._looking.add_done_callback(_met)
        looking = self._looking
        self._waiting += 1
        try:
            await asyncio.wait([looking], timeout=within)
        finally:
            self._waiting -= 1
        if looking.done() and not looking.cancelled():
            looking.result()

    async def _take(self) -> None:
        """Look until there is something, or no reader waits any more."""
        while not await self._took() and self._waiting:
            pass

    async def _took(self) -> bool:
        """Read on. The next look waits its time, unless there was more than one look takes."""
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(self._next_look - clock())
        self._next_look = clock() + LOOK_EVERY
        at = self._at
        rows = await self._read(at, ROWS_AT_ONCE)
        if len(rows) == ROWS_AT_ONCE:
            self._next_look = 0.0
        if rows and self._at == at:
            self._keep(rows)
        return self._at != at

    def _keep(self, rows: Sequence[Row]) -> None:
        self._rows.extend(rows)
        self._size += sum(row.size for row in rows)
        self._at = rows[-1].seq
        while len(self._rows) > KEPT_ROWS or (self._size > KEPT_SIZE and len(self._rows) > 1):
            gone = self._rows.popleft()
            self._since = gone.seq
            self._size -= gone.size

    async def _read(self, row: int, limit: int) -> list[Row]:
        skew = self._store.skew()
        rows = await journal(self._store, row, limit)
        retries = await retries_of(self._store, rows, skew)
        return [Row(found, skew, retries.get(found.seq)) for found in rows]

    async def _check(self, row: int) -> None:
        """Refuse a row that the store has not reached: a reader would get nothing until then."""
        last = await self._store.read(journal_scripts.last_journal_number())
        if row > last:
            raise UnknownPosition

    def no_further_than(self, last: int) -> None:
        """Forget the rows in memory if they are from a store that was further than this one: it was recreated."""
        if last < self._at:
            self._begin(last)

    async def restart_point(self) -> tuple[int, Notice]:
        """Return where to restart a reader whose position this store has not reached: at the beginning, with a gap."""
        rows = await journal(self._store, 0, 1)
        oldest = rows[0].seq if rows else 1  # the newest row is never pruned: without any, nothing has a number yet
        now = datetime.fromtimestamp(self._store.now() + self._store.skew(), UTC)
        return oldest - 1, gap(oldest - 1, oldest, now)

    def _begin(self, row: int) -> None:
        self._rows.clear()
        self._size, self._since, self._at = 0, row, row

    async def close(self) -> None:
        """Stop looking until a reader follows again."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])


def _met(looking: asyncio.Task[None]) -> None:
    """Retrieve the error of a look, even if no reader waits for it any more."""
    if not looking.cancelled():
        looking.exception()


class Reader:
    """Reads notices in commit order, from its own position."""

    def __init__(self, journal: JournalReader, wanted: NoticeFilter, seq: int, first: Sequence[Notice] = ()) -> None:
        self.seq = seq
        """Every wanted notice up to this number was returned: pass it as `after` to continue."""
        self._journal = journal
        self._wanted = wanted
        self._known = row_of(seq)
        self._row = self._known if seq == end_of(self._known) else max(0, self._known - 1)
        self._rows: deque[Row] = deque()
        self._inside: Iterator[Notice] | None = None
        """The notices still to be returned from the first of these rows, once it was begun."""
        self._first = list(first)

    async def more(self, within: float = FOREVER) -> list[Notice]:
        """Return the next notices; none if no wanted one came within so many seconds, or only unwanted ones did."""
        if self._rows:
            await asyncio.sleep(0)  # before anything is taken, which a cancelled reader would lose
        elif not self._first:
            await self._look(within)
        found, self._first, looked_through = self._first, [], 0
        while self._rows and len(found) < NOTICES_AT_ONCE and looked_through < SIZE_AT_ONCE:
            looked_through += self._rows[0].size
            found += self._next(NOTICES_AT_ONCE - len(found))
        return found

    async def _look(self, within: float) -> None:
        try:
            self._rows.extend(await self._journal.rows_after(self._row, within))
        except UnknownPosition:
            row, gap = await self._journal.restart_point()
            self.seq, self._known, self._row, self._first = end_of(row), row, row, [gap]

    def _next(self, most: int) -> list[Notice]:
        """Return up to so many notices of the next row, and first a gap if rows before it are missing."""
        row, missing = self._rows[0], []
        if self._inside is None:
            missing = [gap(self._known, row.seq, row.at)] if 0 < self._known < row.seq - 1 else []
            self._inside = _notices_after(self.seq, row.notices(self._wanted.fits))
        found = [*islice(self._inside, most)]
        if len(found) == most:
            self.seq = found[-1].seq
        else:
            self._rows.popleft()
            self._inside = None
            self._known = self._row = row.seq
            self.seq = end_of(row.seq)
        return missing + found


def _notices_after(seq: int, notices: Iterator[Notice]) -> Iterator[Notice]:
    return (notice for notice in notices if notice.seq > seq)


class JournalReaders:
    """The journal readers of one store, one for each event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._of: WeakKeyDictionary[asyncio.AbstractEventLoop, JournalReader] = WeakKeyDictionary()

    async def reader(self, kinds: Collection[str] | None, queues: Collection[str] | None, after: int | None) -> Reader:
        """Begin to read after a number, or from now on.

        After 0 means everything that is still kept. After any other number, pruned notices are reported as a `gap`; so
        is a number that this store has not reached.
        """
        wanted = NoticeFilter(checked_kinds(kinds), None if queues is None else frozenset(queues))
        journal = self._of.setdefault(asyncio.get_running_loop(), JournalReader(self._store))
        last = await (newest(self._store) if after is None else self._store.read(journal_scripts.last_journal_number()))
        journal.no_further_than(last)
        if after is None:
            return Reader(journal, wanted, end_of(last))
        if last < row_of(after):
            row, gap = await journal.restart_point()
            return Reader(journal, wanted, end_of(row), [gap])
        return Reader(journal, wanted, after)

    async def subscribe(
        self, kinds: Collection[str] | None, queue: str | None, after: int | None
    ) -> AsyncIterator[Notice]:
        """Yield notices as they are committed, without end."""
        reader = await self.reader(kinds, None if queue is None else [queue], after)
        while True:
            for notice in await reader.more():
                yield notice

    async def close(self) -> None:
        """Stop looking in this event loop."""
        journal = self._of.pop(asyncio.get_running_loop(), None)
        if journal is not None:
            await journal.close()
