"""The engine on a PostgreSQL server: one writer thread in each process, in parallel to those of other hosts."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

import psycopg

from standfast.clock import Clock
from standfast.errors import ConfigurationError, StandfastError, StoreUnavailable
from standfast.store.engine import FAULTS, CommitUnknown, Engine
from standfast.store.hints import Hint
from standfast.store.migrations import reopening
from standfast.store.postgres.address import Address
from standfast.store.postgres.assumptions import MISTAKEN, Assumptions
from standfast.store.postgres.connection import (
    SHORTEST_LOCK,
    Connection,
    closed_on_failure,
    found_at_opening,
    opening,
    opening_at_once,
    roll_back,
    rolled_back_on_failure,
)
from standfast.store.postgres.driver import drive
from standfast.store.postgres.foreign import Foreign
from standfast.store.postgres.server import Server
from standfast.store.postgres.server_time import TIME_OFF, ServerTime
from standfast.store.postgres.session import CommitUnanswered, Unanswered
from standfast.store.requests import Reading, Reply, Request
from standfast.store.scripts import RoundScripts
from standfast.store.steps import Round, Script

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds that a caller waits for a read."""
TOO_MUCH = (
    psycopg.errors.QueryCanceled,
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.OutOfMemory,
    Unanswered,
)
"""Errors that mean that the server could not do so much in time, or had no room for it: less may go through."""
STILL_COMMITTING = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'active' AND query = 'COMMIT'"
LONGEST_LOOK = 1.0
"""Seconds that a new connection is kept to look whether an earlier COMMIT has ended."""
PAUSE_BETWEEN_LOOKS = 0.05
IN_THE_WAY = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
"""Errors that mean that another transaction is in the way, while the server and the connection are fine."""


class PostgresEngine(Engine[Connection]):
    """The writer of one store in this process."""

    TROUBLE = (
        psycopg.OperationalError,
        psycopg.InterfaceError,
        psycopg.errors.ReadOnlySqlTransaction,
        psycopg.errors.IdleInTransactionSessionTimeout,
        OSError,
        StandfastError,  # reconnecting was refused
    )
    FAULTS = (psycopg.Error, *FAULTS)

    def __init__(self, server: Server, clock: Clock, scripts: RoundScripts, audit_file: str | None = None) -> None:
        super().__init__(clock, scripts, audit_file)
        self._server = server
        self._opening = opening(server.address)
        self._opening_in_haste = opening(server.address, lock=SHORTEST_LOCK)
        self._opening_at_once = opening_at_once(server.address)
        self._time = ServerTime(clock)
        self._readable_by = 0
        self._trusts = False
        self._doubtful_commit: int | None = None
        """The server process that had not answered a COMMIT when its connection was given up."""
        self._work: Hint = {}
        """The queues that the current round brings work to."""
        self._rang = False
        """Whether the round's commit has already notified other processes."""

    def open(self) -> None:
        """Connect, bring the schema up to date, ask for the time, and start the writer."""
        with ExitStack() as undo:
            undo.callback(self._shut)
            self._connection = self._server.open()
            self._begin(self._connection)
            self.anchor.catch_up(partial(drive, self._connection))
            self._commit(self._connection)
            self._start()
            undo.pop_all()

    def abandon(self) -> None:
        """Discard a paused engine in a forked child: it holds no connection."""

    def now(self) -> float:
        """Return the server's time, computed from its last answer."""
        return self._time.now()

    def skew(self) -> float:
        """Return 0: the server's wall clock is the queue's clock."""
        return 0.0

    def boot(self) -> str:
        """Return an empty text: workers are on many hosts, and only their leases show whether they are gone."""
        return ""

    def free_bytes(self) -> int:
        """Return a practically unlimited number: the disk is the server's, which refuses on its own."""
        return 1 << 62

    def back_up(self, path: str) -> dict[str, int]:
        """Refuse: the server has better tools."""
        raise ConfigurationError(
            f"back up a store on PostgreSQL with the server's own tools, for example "
            f"pg_dump --schema={self._server.address.schema} --format=custom --file={path}"
        )

    def caller_transaction(self, tx: object) -> Foreign:
        """Write inside one of the caller's transactions in this database."""
        return Foreign(tx, self._server.address, self._server.identity, self._clock, self._scripts)

    def _open(self) -> Connection:
        self._time.forget()
        with reopening("postgres", str(self._server.address)):
            connection = self._server.open()
        with closed_on_failure(connection):
            self._wait_for_doubtful_commit(connection)
        return connection

    def _wait_for_doubtful_commit(self, connection: Connection) -> None:
        """Write nothing while a COMMIT that was given up is still under way, such as one that waits for a standby.

        What is written next would hang, too, and each try would leave one more of the server's processes behind, until
        it takes no more connections. Such a COMMIT is not cancelled: that would keep what no standby has.
        """
        if self._doubtful_commit is None:
            return
        until = self._clock.elapsed() + LONGEST_LOOK
        while connection.execute(STILL_COMMITTING, (self._doubtful_commit,)).fetchall():
            if self._clock.elapsed() > until:
                raise psycopg.OperationalError("the server has not finished an earlier COMMIT of this process")
            time.sleep(PAUSE_BETWEEN_LOOKS)
        self._doubtful_commit = None

    def _shut(self) -> None:
        self.anchor.close()
        self._server.close()
        if self._connection is not None:
            self._connection.close()

    def _let_go(self, connection: Connection) -> None:
        connection.close()

    def _begin(self, connection: Connection, *, in_haste: bool = False, waits: bool = True) -> None:  # noqa: ARG002
        """Begin, and take the server's time; this machine's clock only measures how much time has passed since."""
        with rolled_back_on_failure(connection):
            trusts = self._trusts_session(connection) and self._readable_by and not in_haste
            time = self._time.expected() if trusts else None
            if time is not None:
                expected = {"readable_by": self._readable_by, "time": time, "off": TIME_OFF}
                connection.begin_at_once(self._opening_at_once, expected)
                return
            rows = connection.begin(self._opening_in_haste if in_haste else self._opening)
            server_time, self._readable_by = found_at_opening(rows, str(self._server.address))
        self._time.set(server_time)

    def _trusts_session(self, connection: Connection) -> bool:
        """Let a session that is not shared make the assumptions this round may make; return whether it does."""
        session = connection.session
        if session is None:
            return False
        if session.assumptions is None:
            session.assumptions = Assumptions(session, self._clock.elapsed)
        session.assumptions.trusted = self._trusts
        return self._trusts

    def _transact(self, pending: list[Request[Any]], *, alone: bool, waits: bool = True) -> tuple[list[Reply], Round]:
        """Run a round on assumptions. If one was wrong, run it again and wait for the server's answers."""
        self._trusts = not alone
        try:
            return super()._transact(pending, alone=alone, waits=waits)
        except MISTAKEN:
            if not self._trusts:
                raise
            self._trusts = False
            return super()._transact(pending, alone=alone, waits=waits)

    def _new_round(self, connection: Connection) -> Round:  # noqa: ARG002 - what the server has to say came with BEGIN
        round_ = Round(self.now(), 0.0, "", self._scripts.riders)
        self._work = round_.work
        return round_

    def _roll_back(self, connection: Connection) -> None:
        roll_back(connection)

    def _commit(self, connection: Connection) -> None:
        """Commit. If that is allowed at once, the commit notifies other processes of the work that it brings."""
        direct = self._work and connection.session is not None
        notice = self._server.message_now(self._work) if direct else None
        self._rang = notice is not None
        try:
            connection.finish(notice)
        except CommitUnanswered as error:
            self._doubtful_commit = None if connection.session is None else connection.session.process
            raise CommitUnknown from error

    def _drive(self, connection: Connection, script: Script[Any]) -> Any:
        return drive(connection, script)

    def _can_go_on_after(self, error: BaseException) -> bool:
        """Keep a connection that is in order: a lock that was not granted in time is not its fault.

        One that no longer takes writes is dropped: the primary may be elsewhere by now.
        """
        usable = self._connection is not None and not (self._connection.closed or self._connection.broken)
        return usable and (self._is_in_the_way(error) or self._is_too_much(error))

    def _explain(self, error: Exception) -> Exception:
        """Explain a right that the role lacks; any other error is a mistake of ours."""
        return self._server.without_right(error) if isinstance(error, psycopg.errors.InsufficientPrivilege) else error

    def _is_in_the_way(self, error: BaseException) -> bool:
        return isinstance(error, IN_THE_WAY)

    def _is_too_much(self, error: BaseException) -> bool:
        return isinstance(error, TOO_MUCH) or isinstance(error.__cause__, Unanswered)

    def read(self, script: Script[T]) -> Reading[T]:
        """Run a reading script in parallel to the writer, within the caller's patience."""
        return Reading(lambda: self._read(script), PATIENCE, partial(_unread, self._server.address))

    def _read(self, script: Script[T]) -> Future[T]:
        return self._server.read(script)

    def _pause_readers(self, seconds: float) -> bool:
        return self._server.pause(seconds)

    def _resume_readers(self) -> None:
        self._server.resume()

    def _listen(self, listener: Callable[[Hint], None]) -> None:
        self._server.listen(listener)

    def _ring(self, hint: Hint) -> None:
        if not self._rang:
            self._server.notify(hint)


def _unread(address: Address) -> StoreUnavailable:
    return StoreUnavailable(f"{address} did not answer within {PATIENCE:.0f} s; call again", definite=True)
