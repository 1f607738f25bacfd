"""The engine on one SQLite file: one writer thread that takes turns with other processes, and parallel readers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import apsw

from standfast.clock import Clock
from standfast.errors import StandfastError, StoreUnavailable
from standfast.store.engine import FAULTS, CommitUnknown, Engine
from standfast.store.hints import Hint
from standfast.store.migrations import reopening
from standfast.store.requests import Reply, Request
from standfast.store.room import PLENTY
from standfast.store.scripts import RoundScripts
from standfast.store.sqlite.files import Files
from standfast.store.sqlite.handle import LARGEST_WAL, closed_on_failure, roll_back
from standfast.store.sqlite.neighbours import begin
from standfast.store.sqlite.promotion_mark import check_usable, claims_frozen
from standfast.store.statements import Statement, on_demand
from standfast.store.steps import Batch, Round, Rows, Script, text

log = logging.getLogger("standfast.store")

T = TypeVar("T")

STATEMENTS: dict[str, Statement] = on_demand("sqlite")

OF_MOST_ROUNDS = (
    *("known_queues", "next_numbers", "insert_bodies", "insert_jobs", "write_journal", "add_counters"),
    *("next_due", "promote_due", "take_lane", "lane_heads", "take_jobs", "plain_claims", "count_claims"),
    *("complete_jobs", "complete_some"),
)
"""Statements that most rounds run. They are loaded before the first round, not while others wait for the write lock."""

LONGEST_OPENING = 5.0
"""Seconds that the first opening waits for other processes: as long as every call waits for the store."""

SAME_CLOCKS = 0.002
"""Seconds that readings of the two clocks may differ without either having been set."""

NEXT_NUMBERS = "next_numbers"
MOST_ANSWERS = 256
"""How many answers are remembered: each set of queues that rounds deal with is a question of its own."""

ROWS_PER_STATEMENT = 64
"""The largest batch that one statement takes. Batches are cut into powers of two, so that few texts are prepared."""

_TEXTS: dict[tuple[str, int], str] = {}
"""Statements written out for a number of rows."""


def drive(connection: apsw.Connection, script: Script[T]) -> T:
    """Run a script on a connection: execute the statements it yields, and send it their rows."""
    try:
        name, parameters = next(script)
        while True:
            name, parameters = script.send(_execute(connection, name, parameters))
    except StopIteration as done:
        result: T = done.value
        return result


def _execute(connection: apsw.Connection, name: str, parameters: dict[str, Any] | Batch) -> Rows:
    statement = STATEMENTS[name]
    if not statement.sql:
        return []
    if isinstance(parameters, dict):
        query = statement.sql
        if statement.spanned and type(numbers := parameters["numbers"]) is list:
            if numbers and numbers == [*range(numbers[0], numbers[0] + len(numbers))]:
                query, parameters = statement.spanned, {**parameters, "first": numbers[0], "last": numbers[-1]}
            else:
                parameters = {**parameters, "numbers": text(numbers)}
        cursor = connection.execute(query, parameters)
        return cursor.fetchall() if statement.gives_rows else [(connection.changes(),)]
    changed = start = 0
    while left := len(parameters) - start:
        size = min(ROWS_PER_STATEMENT, 1 << (left.bit_length() - 1))
        sql = _TEXTS.get((name, size))
        if sql is None:
            sql = _TEXTS[name, size] = statement.for_rows(size, len(parameters[0]))
        connection.execute(sql, list(chain.from_iterable(parameters[start : start + size])))
        changed += connection.changes()
        start += size
    return [(changed,)]


class Facts:
    """What the writer has read, and may rely on until another connection commits or the writer itself changes it.

    SQLite's data version, one number, shows whether another connection has committed. While it stays the same,
    statements marked `remembered:` are answered from memory, and the next job number and the promotion mark are known.
    """

    def __init__(self) -> None:
        self.version = -1
        """The data version after our last commit; -1 in a transaction, because what that reads may be rolled back."""
        self._rows: dict[tuple[Any, ...], Rows] = {}
        self._last_number: int | None = None
        self.unmarked = False
        """Whether the store is known to be usable, and not being promoted."""

    def forget(self) -> None:
        """Forget everything."""
        self._rows.clear()
        self._last_number = None
        self.unmarked = False

    def rules_changed(self) -> None:
        """Forget the rules that were read: one of our own statements changed them."""
        self._rows.clear()

    def recall(self, name: str, parameters: Any) -> Rows | None:
        """Return what a statement answered before, if that is still valid."""
        if name != NEXT_NUMBERS:
            return self._rows.get((name, *parameters.values()))
        if self._last_number is None:
            return None
        first = self._last_number + 1
        self._last_number += parameters["count"]
        return [*zip(range(first, self._last_number + 1))]

    def remember(self, name: str, parameters: Any, rows: Rows) -> None:
        """Remember what a statement answered."""
        if name != NEXT_NUMBERS:
            while len(self._rows) >= MOST_ANSWERS:
                del self._rows[next(iter(self._rows))]  # the one that was read longest ago
            self._rows[(name, *parameters.values())] = rows
            return
        self._last_number = rows[-1][0]


class SqliteEngine(Engine[apsw.Connection]):
    """The writer of one database file (or one `:memory:` store) in this process."""

    TROUBLE = (
        apsw.BusyError,
        apsw.LockedError,
        apsw.IOError,
        apsw.FullError,
        apsw.CantOpenError,
        apsw.ReadOnlyError,
        apsw.ProtocolError,
        apsw.NoMemError,
        apsw.CorruptError,
        OSError,
        StandfastError,  # reopening the file was refused
    )
    FAULTS = (apsw.Error, *FAULTS)
    CAN_BE_LED = True

    def __init__(self, files: Files, clock: Clock, scripts: RoundScripts) -> None:
        super().__init__(clock, scripts, files.audit_path)
        self._files = files
        self._offset = 0.0
        self._skew = 0.0
        self._facts = Facts()
        self._boot = clock.boot()

    def open(self) -> None:
        """Open the file, bring its schema up to date, set the clock, and start the writer."""
        for name in OF_MOST_ROUNDS:
            STATEMENTS[name]
        with ExitStack() as refused:
            refused.callback(self._shut)
            self._connection, self._offset = self._first_connection(time.monotonic() + LONGEST_OPENING)
            self._files.note_damage(self._connection, self.now())
            with self._files.explaining():
                self.anchor.catch_up(partial(drive, self._connection))
            self._start()
            refused.pop_all()

    def _first_connection(self, until: float) -> tuple[apsw.Connection, float]:
        """Open the file and set the clock; try again while another process holds the write lock."""
        while True:
            try:
                connection = self._files.open()
                with self._files.explaining(), closed_on_failure(connection):
                    check_usable(connection)
                return connection, self._files.set_clock(connection, self._clock)
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, apsw.BusyError) or time.monotonic() > until:
                    raise

    def abandon(self) -> None:
        """Discard a paused engine in a forked child, which does not have its writer thread."""
        self._files.abandon()

    def now(self) -> float:
        """Return the present queue time: seconds since boot plus an offset that the file keeps for each boot."""
        return self._clock.elapsed() + self._offset

    def skew(self) -> float:
        """Return wall time minus queue time: the same until a clock is set, so that a time reads back as written.

        The two clocks are read one after the other, so their difference is never exactly the same.
        """
        elapsed = self._clock.elapsed()
        between = self._clock.wall() - elapsed - self._offset
        if abs(between - self._skew) > SAME_CLOCKS + self._clock.elapsed() - elapsed:
            self._skew = round(between, 3)
        return self._skew

    def boot(self) -> str:
        """Identify the present boot."""
        return self._clock.boot()

    def free_bytes(self) -> int:
        """Return the free disk space."""
        return self._files.disk.free_bytes()

    def room_to_accept(self) -> int:
        """Return how many free bytes new work needs, including some for every job that has not ended."""
        return self._files.disk.room_to_accept()

    def back_up(self, path: str) -> dict[str, int]:
        """Copy the store to a new file in parallel to the writer."""
        return self._files.back_up(path, lambda connection: drive(connection, self._scripts.contents()))

    def _open(self) -> apsw.Connection:
        self._facts = Facts()  # the data version counts other connections' commits for each connection
        with reopening("sqlite", self._files.path):
            return self._files.open()

    def _shut(self) -> None:
        self.anchor.close()
        self._files.close(self._connection)

    def _let_go(self, connection: apsw.Connection) -> None:
        self._files.let_go_of_all(connection) if self._files.is_damaged else self._files.let_go(connection)

    def _begin(self, connection: apsw.Connection, *, in_haste: bool = False, waits: bool = True) -> None:  # noqa: ARG002
        begin(connection, self._files.baton, waits=waits)
        facts = self._facts
        if connection.data_version() != facts.version:
            facts.forget()
        facts.version = -1

    def _new_round(self, connection: apsw.Connection) -> Round:
        """Check that the files are whole, and whether the store is about to move or has moved."""
        watch = self._files.watch
        if watch is not None and not watch.in_place(whole=True):
            self._files.check_whole(connection)
        self.must_tidy = watch is not None and watch.wal_bytes > LARGEST_WAL
        now = self._clock.elapsed() + self._offset
        known = abs(self._clock.wall() - now - self._skew) <= SAME_CLOCKS  # a shortcut: every round comes by here
        round_ = Round(now, self._skew if known else self.skew(), self._boot, self._scripts.riders)
        if not self._facts.unmarked:
            self._facts.unmarked = check_usable(connection) is None
            round_.claims_frozen = not self._facts.unmarked and claims_frozen(connection, round_.now)
        return round_

    def _without_room(self, connection: apsw.Connection, round_: Round, pending: list[Request[Any]]) -> list[Reply]:
        disk = self._files.disk
        if time.monotonic() < disk.plenty_until or (free := disk.free_bytes()) >= PLENTY:
            return []
        judged = disk.judge(connection, pending, free)
        round_.starts_left = judged.starts
        return judged.refused

    def _roll_back(self, connection: apsw.Connection) -> None:
        roll_back(connection)

    def _commit(self, connection: apsw.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except apsw.Error as error:
            raise CommitUnknown from error
        self._facts.version = connection.data_version()
        watch = self._files.watch
        if watch is not None and not watch.in_place():
            self._files.check_in_place(committed=True)

    def _tidy(self) -> None:
        try:
            if self._connection is not None:
                self._files.relieve_wal(self._connection)
        except self.TROUBLE as error:
            log.warning("the WAL cannot be emptied: %s", error)
            self._drop_connection()

    def wal(self) -> tuple[int, list[str]]:
        """Return the size of the WAL and, if it is large, what keeps it from shrinking."""
        size = self._files.wal.size
        return size, self._files.wal.held_by() if size > LARGEST_WAL else []

    def _drive(self, connection: apsw.Connection, script: Script[T]) -> T:
        """Run a script of the writer, without asking again for what the writer already knows."""
        facts = self._facts
        try:
            name, parameters = next(script)
            while True:
                statement = STATEMENTS[name]
                rows = facts.recall(name, parameters) if statement.remembered else None
                if rows is None:
                    rows = _execute(connection, name, parameters)
                    if statement.remembered:
                        facts.remember(name, parameters, rows)
                    elif statement.changes_rules:
                        facts.rules_changed()
                name, parameters = script.send(rows)
        except StopIteration as done:
            result: T = done.value
            return result

    def _can_go_on_after(self, error: BaseException) -> bool:
        """Keep a connection that was only too early; one that is left inside a transaction is dropped with it."""
        in_order = self._connection is not None and not self._connection.in_transaction
        return in_order and isinstance(error, apsw.BusyError)

    def _read(self, script: Script[T]) -> Future[T]:
        return self._files.read(script, drive)

    def _pause_readers(self, seconds: float) -> bool:
        return self._files.pause(seconds)

    def _resume_readers(self) -> None:
        self._files.resume()

    def _listen(self, listener: Callable[[Hint], None]) -> None:
        self._files.listen(listener)

    def _ring(self, hint: Hint) -> None:
        if self._files.notifier is not None:
            self._files.notifier.notify(hint)
