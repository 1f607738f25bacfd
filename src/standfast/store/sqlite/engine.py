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
from contextlib import ExitStack
from itertools import chain
from typing import Any

import apsw

from standfast.clock import Clock
from standfast.errors import StandfastError, StoreUnavailable
from standfast.store import reads, scripts
from standfast.store.hints import Hint
from standfast.store.requests import NEVER, Answer, Deadlines, Line, Request, ScriptFunction, block, deliver
from standfast.store.sqlite.connection import let_go, rolled_back_on_failure
from standfast.store.sqlite.files import Files
from standfast.store.statements import Statement, load
from standfast.store.steps import Batch, Round, Rows, Script

log = logging.getLogger("standfast.store")

MOST_ITEMS = 5000
"""Items one round takes; what is beyond waits for the next, so that no caller waits behind a mountain."""

PAUSE_AFTER_TROUBLE = 0.05
LONGEST_WAIT_FOR_PAUSE = 5.0

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
    StandfastError,  # opening the file anew was refused
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
        self._line = Line()
        self._deadlines = Deadlines(self._line)
        self._listeners: list[Callable[[Hint], None]] = []
        self._connection: apsw.Connection | None = None
        self._offset = 0.0
        self._thread: threading.Thread | None = None
        self._closing = False
        self._round = threading.Lock()
        """Held while the writer is in a round, and while it must not begin one."""
        self.trouble: str | None = None
        """What the writer last met and has not yet got over, for health."""

    # --- life

    def open(self) -> None:
        """Open the file, bring its schema forward, set the clock, start the writer."""
        with ExitStack() as refused:
            refused.callback(self._files.close, None)
            self._connection = self._files.open()
            self._offset = self._files.set_clock(self._connection, self._clock)
            refused.pop_all()
        self._thread = threading.Thread(target=self._run, name="standfast-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Serve what waits, then let go of the file."""
        self._closing = True
        self._line.wake()
        if self._thread is not None:
            self._thread.join()
        self._files.close(self._connection)

    def pause(self) -> bool:
        """Let go of every handle, and take none up before `resume`; false if what is under way takes too long."""
        if not self._round.acquire(timeout=LONGEST_WAIT_FOR_PAUSE):
            return False
        if not self._files.pause(LONGEST_WAIT_FOR_PAUSE):
            self._round.release()
            return False
        self._drop_connection()
        return True

    def resume(self) -> None:
        """Go on; the next use opens the file again."""
        self._files.resume()
        self._round.release()

    def abandon(self) -> None:
        """Forget a paused engine in a forked child, whose writer is not there."""
        self._files.abandon()

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

    def call(
        self,
        script: ScriptFunction,
        items: Sequence[Any],
        *,
        seconds: float | None,
        room: int = 0,
        size: int | None = None,
    ) -> asyncio.Future[Any]:
        """Have a script run in the next round; its results come when they are on disk.

        `size` says how much work the items are, where that is not their number.
        """
        future = asyncio.get_running_loop().create_future()
        request = Request(script, items, future, deadline=_deadline(seconds), room=room, size=size)
        self._line.put(request)
        self._deadlines.watch(request)
        return future

    def call_blocking(
        self, script: ScriptFunction, items: Sequence[Any], *, seconds: float | None, room: int = 0
    ) -> Any:
        """Do the same for a caller without a loop."""
        request = Request(script, items, Future(), deadline=_deadline(seconds), room=room)
        self._line.put(request)
        return block(request)

    async def read(self, script: Script) -> Any:
        """Run a reading script beside the writer."""
        return await asyncio.wrap_future(self._files.read(script, drive))

    def read_blocking(self, script: Script) -> Any:
        """Do the same for a caller without a loop."""
        return self._files.read(script, drive).result()

    def back_up(self, path: str) -> dict[str, int]:
        """Copy the store to a new file beside the writer."""
        return self._files.back_up(path, lambda connection: drive(connection, reads.contents()))

    def listen(self, heard: Callable[[Hint], None]) -> None:
        """Tell this listener which queues got work, from this process and from others."""
        self._listeners.append(heard)
        self._files.hear(self._tell)

    def unlisten(self, heard: Callable[[Hint], None]) -> None:
        """Stop telling this listener."""
        if heard in self._listeners:
            self._listeners.remove(heard)

    def _tell(self, hint: Hint) -> None:
        for heard in list(self._listeners):
            heard(hint)

    # --- the writer thread

    def _run(self) -> None:
        pending: list[Request] = []
        while pending or not (self._closing and self._line.empty()):
            if not pending:
                self._line.sleep()
                self._line.join(pending, MOST_ITEMS)
            if pending:
                with self._round:
                    pending = self._serve(pending)

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
            self._files.ring(round_.work)
        return []

    def _transact(self, pending: list[Request], *, alone: bool) -> tuple[list[Answer], Round]:
        connection = self._writer()
        self._files.begin(connection)
        with rolled_back_on_failure(connection):
            if not alone:
                self._line.join(pending, MOST_ITEMS)
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
                deliver([(request, _disk_low(free, doubtful=request.doubtful))])
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
            results = drive(connection, script(round_, items))
            start = 0
            for request in group:
                end = start + len(request.items)
                answers.append((request, results[start:end]))
                start = end
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
        trouble = f"{type(error).__name__}: {error}"
        if trouble != self.trouble:
            log.warning("the store is in trouble, trying again: %s", trouble)
        self.trouble = trouble
        for request in pending:
            request.put_back(doubtful=doubtful)
        if doubtful or not isinstance(error, apsw.BusyError):
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
            let_go(connection)


def _deadline(seconds: float | None) -> float:
    return NEVER if seconds is None else time.monotonic() + seconds


def _disk_low(free: int, *, doubtful: bool) -> StoreUnavailable:
    written = "an earlier try may have been written" if doubtful else "nothing was written"
    return StoreUnavailable(
        f"the disk is low ({free // 1048576} MiB free); {written}: free some space, then call again",
        definite=not doubtful,
    )
