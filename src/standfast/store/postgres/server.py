"""One store on a PostgreSQL server, as a process uses it: a writer's connection, parallel readers, and a notifier."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import psycopg

from standfast.concurrency.threads import Threads
from standfast.errors import ConfigurationError, StoreUnavailable, WrongAddress
from standfast.store.hints import Hint
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import (
    MEND_ADDRESS,
    Connection,
    closed_on_failure,
    connect,
    found_at_opening,
    opening,
    rolled_back_on_failure,
)
from standfast.store.postgres.driver import drive
from standfast.store.postgres.identity import identity_sql
from standfast.store.postgres.notifications import ServerNotifier, channel
from standfast.store.postgres.refusal import is_unknown_host
from standfast.store.postgres.server_schema import migrate
from standfast.store.reached_server import ReachedServer
from standfast.store.steps import Script

READERS = 3
READING = "REPEATABLE READ"
PATIENCE = 5.0
"""Seconds for which a read is tried again."""
PAUSE = 0.1
AWAY = (psycopg.OperationalError, psycopg.InterfaceError)
"""The errors of a server that restarts, fails over or cannot be reached."""


class Server:
    """The connections of one process to one store."""

    def __init__(self, address: Address, reached: ReachedServer) -> None:
        self.address = address
        self._reached = reached
        self._begin_reading = opening(address, READING)
        self._readers = Threads(READERS, "standfast-reader")
        self._reading = threading.Semaphore(READERS)
        self._own = threading.local()
        self._opened: list[Connection] = []
        self._notifier = ServerNotifier(address)
        self.identity = ""
        """The store that the writer found: a caller's transaction must lead to the same one."""

    def open(self) -> Connection:
        """Open the writer's connection, and bring the schema up to date."""
        with self._explaining():
            connection = connect(self.address)
            with closed_on_failure(connection):
                migrate(connection, self.address)
                [(self.identity,)] = connection.execute(f"SELECT {identity_sql(self.address)}")
        self._reached.note()
        return connection

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn errors during connecting into errors that name the next step."""
        try:
            yield
        except WrongAddress as error:
            raise WrongAddress(f"cannot open {self.address}: {error}") from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise self.without_right(error) from error
        except psycopg.Error as error:
            if is_unknown_host(self.address.server) and not self._reached.before():
                raise WrongAddress(
                    f"cannot open {self.address}: {str(error).strip()}; this host has never reached it, so the "
                    f"name is probably wrong; {MEND_ADDRESS}"
                ) from error
            raise StoreUnavailable(
                f"cannot open {self.address}: {str(error).strip()}; nothing was written: "
                "see that the server runs and lets this user in, then call again",
                definite=True,
            ) from error

    def without_right(self, error: psycopg.Error) -> WrongAddress:
        """Explain what the role may not do."""
        return WrongAddress(f"{self.address} does not let this role in: {str(error).strip()}; {MEND_ADDRESS}")

    def read(self, script: Script[Any]) -> Future[Any]:
        """Run a reading script on a reader's thread, in one snapshot."""
        return self._readers.submit(self._read, script)

    def _read(self, script: Script[Any]) -> Any:
        with self._reading:
            try:
                connection = self._reader_in_transaction()
                with rolled_back_on_failure(connection):
                    found = drive(connection, script)
                    connection.finish()
            except psycopg.DataError as error:
                why = str(error).strip()
                raise ConfigurationError(f"{self.address} cannot answer this request: {why}") from error
            except psycopg.errors.InsufficientPrivilege as error:
                self._drop_reader()
                raise self.without_right(error) from error
            except psycopg.Error as error:
                self._drop_reader()
                why = str(error).strip()
                raise StoreUnavailable(f"cannot read {self.address}: {why}; call again", definite=True) from error
        return found

    def _reader_in_transaction(self) -> Connection:
        """Return this thread's connection in a new transaction; replace a connection that the server has dropped."""
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                connection = self._reader()
                found = connection.begin(self._begin_reading)
            except AWAY:
                self._drop_reader()
                if time.monotonic() > give_up:
                    raise
                time.sleep(PAUSE)
            else:
                with rolled_back_on_failure(connection):
                    found_at_opening(found, str(self.address))
                return connection

    def _reader(self) -> Connection:
        connection: Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = connect(self.address)
            self._own.connection = connection
            self._opened.append(connection)
        return connection

    def _drop_reader(self) -> None:
        connection, self._own.connection = getattr(self._own, "connection", None), None
        if connection is not None:
            self._opened.remove(connection)
            connection.close()

    def listen(self, listener: Callable[[Hint], None]) -> None:
        """Listen for what other processes put into this store."""
        self._notifier.listen(listener)

    def notify(self, hint: Hint) -> None:
        """Notify other processes soon."""
        self._notifier.notify(hint)

    def message_now(self, hint: Hint) -> tuple[str, str] | None:
        """Return channel and message of a hint that a writer may send with its commit."""
        message = self._notifier.message_now(hint)
        return None if message is None else (channel(self.address), message)

    def pause(self, seconds: float) -> bool:
        """Close every connection but the writer's until `resume`; return False if a read takes too long."""
        taken = [self._reading.acquire(timeout=seconds) for _ in range(READERS)]
        if not all(taken):
            for _ in filter(None, taken):
                self._reading.release()
            return False
        self._close_readers()
        self._notifier.pause()
        return True

    def resume(self) -> None:
        """Let the readers and the notifier connect again."""
        self._notifier.resume()
        self._reading.release(READERS)

    def close(self) -> None:
        """Close every connection but the writer's."""
        self._readers.shutdown()
        self._notifier.close()
        self._close_readers()

    def _close_readers(self) -> None:
        for connection in self._opened:
            connection.close()
        self._opened.clear()
        self._own = threading.local()
