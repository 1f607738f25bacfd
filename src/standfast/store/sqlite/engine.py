"""One writer thread for each file: every waiting request shares one transaction and one fsync.

A round is one transaction. It takes every request that waits when the write lock is won, runs each script once for
all its callers, writes one journal row, commits, and only then answers them all.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import chain
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from standfast.clock import Clock
from standfast.errors import StoreUnavailable
from standfast.store import scripts
from standfast.store.requests import NEVER, Answer, Deadlines, Request, ScriptFunction, block, deliver
from standfast.store.scripts import Batch, Round, Rows, Script
from standfast.store.sqlite.bell import Hint
from standfast.store.sqlite.connection import rolled_back_on_failure
from standfast.store.sqlite.files import Files
from standfast.store.statements import Statement, load

log = logging.getLogger("standfast.store")

MOST_ITEMS = 5000
"""Items one round takes; what is beyond waits for the next, so that no caller waits behind a mountain."""

PAUSE_AFTER_TROUBLE = 0.05

TROUBLE = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.IOError,
    apsw.FullError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.ProtocolError,
    apsw.NoMemError,
)
"""What may pass: the round is tried again until its callers' deadlines. Anything else is the fault of one script."""

FAULTS = (apsw.Error, ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""What a script can raise through a mistake of ours or a value nobody foresaw."""

STATEMENTS: dict[str, Statement] = load("sqlite")


class Doubt(Exception):
    """COMMIT raised: the transaction may have landed."""


ROWS_PER_STATEMENT = 64
"""The largest batch one statement takes. Batches are cut into powers of two, so that few texts need preparing."""


def drive(connection: apsw.Connection, script: Script) -> Any:
    """Run a script on a connection: execute what it yields, send it the rows."""
    rows: Rows | None = None
    try:
        while True:
            name, parameters = script.send(rows)  # type: ignore[arg-type]
            rows = _execute(connection, STATEMENTS[name], parameters)
    except StopIteration as done:
        return done.value


def _execute(connection: apsw.Connection, statement: Statement, parameters: dict[str, Any] | Batch) -> Rows:
    if isinstance(parameters, dict):
        cursor = connection.execute(statement.sql, parameters)
        return cursor.fetchall() if statement.gives_rows else [(connection.changes(),)]
    changed = start = 0
    while left := len(parameters) - start:
        size = min(ROWS_PER_STATEMENT, 1 << (left.bit_length() - 1))
        values = list(chain.from_iterable(parameters[start : start + size]))
        connection.execute(statement.for_rows(size, len(parameters[0])), values)
        changed += connection.changes()
        start += size
    return [(changed,)]


class SqliteEngine:
    """The writer of one database file (or one `:memory:` store) in this process."""

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._waiting: SimpleQueue[Request | None] = SimpleQueue()
        self._deadlines = Deadlines()
        self._listeners: list[Callable[[Hint], None]] = []
        self._connection: apsw.Connection | None = None
        self._offset = 0.0
        self._thread: threading.Thread | None = None
        self._closing = False
        self.trouble: str | None = None
        """What the writer last met and has not yet got over, for health."""

    # --- life

    def open(self) -> None:
        """Open the file, bring its schema forward, set the clock, start the writer."""
        self._connection = self._files.open()
        self._offset = self._files.set_clock(self._connection, self._clock)
        self._thread = threading.Thread(target=self._run, name="standfast-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Serve what waits, then let go of the file."""
        self._closing = True
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join()
        self._files.close(self._connection)

    def now(self) -> float:
        """Give the present queue time."""
        return self._clock.elapsed() + self._offset

    def skew(self) -> float:
        """Give wall time minus queue time."""
        return self._clock.wall() - self.now()

    def boot(self) -> str:
        """Identify the present boot."""
        return self._clock.boot()

    def free_bytes(self) -> int:
        """Give the disk space left."""
        return self._files.free_bytes()

    # --- calls

    async def call(self, script: ScriptFunction, items: Sequence[Any], *, seconds: float | None, room: int = 0) -> Any:
        """Have a script run in the next round, and wait until it is on disk."""
        loop = asyncio.get_running_loop()
        request = Request(script, items, loop.create_future(), deadline=_deadline(seconds), room=room)
        self._waiting.put(request)
        return await self._deadlines.answer(request, loop)

    def call_blocking(
        self, script: ScriptFunction, items: Sequence[Any], *, seconds: float | None, room: int = 0
    ) -> Any:
        """Do the same for a caller without a loop."""
        request = Request(script, items, Future(), deadline=_deadline(seconds), room=room)
        self._waiting.put(request)
        return block(request)

    async def read(self, script: Script) -> Any:
        """Run a reading script beside the writer."""
        return await asyncio.wrap_future(self._files.read(script, drive))

    def read_blocking(self, script: Script) -> Any:
        """Do the same for a caller without a loop."""
        return self._files.read(script, drive).result()

    def listen(self, heard: Callable[[Hint], None]) -> None:
        """Tell this listener which queues got work, from this process and from others."""
        self._listeners.append(heard)
        self._files.bell.listen(self._tell)

    def unlisten(self, heard: Callable[[Hint], None]) -> None:
        """Stop telling this listener."""
        self._listeners.remove(heard)

    def _tell(self, hint: Hint) -> None:
        for heard in list(self._listeners):
            heard(hint)

    # --- the writer thread

    def _run(self) -> None:
        pending: list[Request] = []
        while pending or not (self._closing and self._waiting.empty()):
            if not pending:
                self._collect(pending, wait=True)
            if pending:
                pending = self._serve(pending)

    def _collect(self, pending: list[Request], *, wait: bool) -> None:
        """Move what waits into `pending`, up to the bound."""
        items = sum(len(request.items) for request in pending)
        try:
            while items < MOST_ITEMS:
                request = self._waiting.get(block=wait)
                if request is None:
                    return
                wait = False
                pending.append(request)
                items += len(request.items)
        except Empty:
            return

    def _serve(self, pending: list[Request], *, alone: bool = False) -> list[Request]:
        """Run one round; give back what must be tried again."""
        try:
            answers, round_ = self._transact(pending, alone=alone)
        except TROUBLE as error:
            return self._after_trouble(pending, error, doubtful=False)
        except Doubt as doubt:
            return self._after_trouble(pending, doubt.__cause__ or doubt, doubtful=True)
        except FAULTS as error:  # one script failed: nobody else may suffer for it
            return self._one_by_one(pending, error)
        self.trouble = None
        deliver(answers)
        if round_.work:
            self._tell(round_.work)
            self._files.bell.ring(round_.work)
        return []

    def _transact(self, pending: list[Request], *, alone: bool) -> tuple[list[Answer], Round]:
        connection = self._writer()
        self._files.begin(connection)
        with rolled_back_on_failure(connection):
            if not alone:
                self._collect(pending, wait=False)
            round_ = Round(self.now(), self.skew(), self._clock.boot())
            answers = self._run_scripts(connection, round_, self._admitted(pending))
            drive(connection, scripts.close(round_))
        try:
            connection.execute("COMMIT")
        except apsw.Error as error:
            raise Doubt from error
        return answers, round_

    def _admitted(self, pending: list[Request]) -> list[Request]:
        """Take the requests whose callers still wait; with little disk left, refuse the ones that need room."""
        free = self._files.free_bytes()
        for request in pending:
            if request.room > free and not request.withdrawn:
                deliver([(request, _disk_low(free))])
                request.withdrawn = True
        return [request for request in pending if request.take()]

    @staticmethod
    def _run_scripts(connection: apsw.Connection, round_: Round, requests: list[Request]) -> list[Answer]:
        """Run each script once for all its callers, in the order the first of them came."""
        by_script: dict[ScriptFunction, list[Request]] = {}
        for request in requests:
            by_script.setdefault(request.script, []).append(request)
        answers: list[Answer] = []
        for script, group in by_script.items():
            items = group[0].items if len(group) == 1 else [item for request in group for item in request.items]
            results = iter(drive(connection, script(round_, items)))
            answers += [(request, [next(results) for _ in request.items]) for request in group]
        return answers

    def _one_by_one(self, pending: list[Request], error: Exception) -> list[Request]:
        for request in pending:
            request.put_back(doubtful=False)
        if len(pending) == 1:
            log.error("a store request failed", exc_info=error)
            deliver([(pending[0], error)])
            return []
        again: list[Request] = []
        for request in pending:
            again += self._serve([request], alone=True)
        return again

    # --- trouble

    def _after_trouble(self, pending: list[Request], error: BaseException, *, doubtful: bool) -> list[Request]:
        """Drop the connection, wait a little, and keep the requests whose callers still wait."""
        self.trouble = f"{type(error).__name__}: {error}"
        log.warning("the store is in trouble, trying again: %s", self.trouble)
        for request in pending:
            request.put_back(doubtful=doubtful)
        if not isinstance(error, apsw.BusyError):
            self._drop_connection()
        time.sleep(PAUSE_AFTER_TROUBLE)
        if self._closing:
            deliver([(request, request.give_up()) for request in pending if not request.withdrawn])
            return []
        return [request for request in pending if not request.withdrawn]

    def _writer(self) -> apsw.Connection:
        if self._connection is None:
            self._connection = self._files.open()
        return self._connection

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close(True)  # noqa: FBT003 - apsw's own signature; the handle is not used again
            except apsw.Error:
                log.warning("closing the failed connection failed too")


def _deadline(seconds: float | None) -> float:
    return NEVER if seconds is None else time.monotonic() + seconds


def _disk_low(free: int) -> StoreUnavailable:
    return StoreUnavailable(
        f"the disk is low ({free // 1048576} MiB free); nothing was written: free some space, then call again",
        definite=True,
    )
