"""Open a connection that can be trusted: no call hangs, and a server that may lose acknowledged work is refused."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import psycopg
from psycopg import pq, waiting

from standfast.errors import ConfigurationError
from standfast.store.postgres.address import Address

LONGEST_CALL = 5.0
"""Seconds one statement may take, the answer's way back included. A server that swallowed the call is given up then,
and the server gives up a client that fell silent within a transaction, with all it had locked."""
LONGEST_LOCK = 1.0
"""Seconds to wait for somebody else's transaction."""
SHORTEST_LOCK = 0.1
"""Seconds to wait for one that is known to take long: others wait behind this."""
MOST_PREPARED = 400
"""More than there are statements, so that none is planned twice."""
CONNECT_SECONDS = 4
OLDEST_SERVER = 13
TELL_THE_TIME = "SELECT extract(epoch FROM clock_timestamp())::double precision"

OPTIONS: dict[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "standfast",
    "keepalives_idle": 10,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": int(LONGEST_CALL * 1000),
}


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection on which every wait ends: with an answer, or with an error."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for the server, but not for ever. While it says nothing, psycopg looks up ten times a second."""
        return super().wait(_bounded(gen, time.monotonic() + LONGEST_CALL), *args, **options)

    @classmethod
    def to(cls, server: str) -> Self:
        """Connect. No statement is prepared by name yet: a pooler would mix the names up."""
        return cls.connect(server, autocommit=True, prepare_threshold=None, **OPTIONS)

    def is_direct(self) -> bool:
        """Tell whether this session is ours alone: a pooler makes up the number it gives its clients."""
        [(session,)] = self.execute("SELECT pg_backend_pid()")
        return bool(session == self.info.backend_pid)

    def prepare_statements(self) -> None:
        """Have the server plan each statement once."""
        self.prepare_threshold = 1
        self.prepared_max = MOST_PREPARED


def _bounded(gen: Generator[Any, Any, Any], until: float) -> Generator[Any, Any, Any]:
    """Pass on what a wait asks for; when it has been ready for nothing until then, end it."""
    ready = None
    while True:
        try:
            wanted = gen.send(ready)
        except StopIteration as done:
            return done.value
        ready = yield wanted
        if ready == waiting.Ready.NONE and time.monotonic() > until:
            raise psycopg.OperationalError(f"the server did not answer within {LONGEST_CALL:.0f} s")


def connect(address: Address) -> Connection:
    """Connect to a server that keeps what it acknowledges."""
    connection = Connection.to(address.server)
    with closed_on_failure(connection):
        check_server(connection)
        if address.prepares or (address.prepares is None and connection.is_direct()):
            connection.prepare_statements()
    return connection


def check_server(connection: Connection) -> None:
    """Refuse a server that is too old, cannot write, or may lose what it acknowledged."""
    [(version, standby, read_only, fsync, commit)] = connection.execute(
        "SELECT current_setting('server_version_num')::integer / 10000, pg_is_in_recovery(),"
        " current_setting('transaction_read_only'), current_setting('fsync'), current_setting('synchronous_commit')"
    )
    if version < OLDEST_SERVER:
        raise ConfigurationError(f"PostgreSQL {version} is too old; standfast needs {OLDEST_SERVER} or newer")
    if standby:
        raise psycopg.OperationalError("the server is a standby and takes no writes; connect to the primary")
    if read_only == "on":
        raise psycopg.OperationalError("the server is read-only and takes no writes; see default_transaction_read_only")
    if fsync == "off":
        raise ConfigurationError("the server has fsync=off and may lose acknowledged work; set fsync=on")
    if commit == "off":
        raise ConfigurationError(
            "the connection has synchronous_commit=off and may lose acknowledged work; set it to on, for the server, "
            "the database or the role"
        )


@contextmanager
def closed_on_failure(connection: Connection) -> Iterator[None]:
    """Close the connection unless everything inside went well."""
    with ExitStack() as stack:
        stack.callback(connection.close)
        yield
        stack.pop_all()


@contextmanager
def rolled_back_on_failure(connection: Connection) -> Iterator[None]:
    """Roll the open transaction back unless everything inside went well."""
    with ExitStack() as stack:
        stack.callback(_roll_back, connection)
        yield
        stack.pop_all()


def _roll_back(connection: Connection) -> None:
    """Roll back where that is possible; a connection that is gone takes its transaction with it."""
    if connection.closed or connection.info.transaction_status == pq.TransactionStatus.UNKNOWN:
        return
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def opening(address: Address, isolation: str = "READ COMMITTED", lock: float = LONGEST_LOCK) -> str:
    """Word the beginning of a transaction that tells the time. What it sets ends with it: a pooler shares sessions.

    The isolation is named, because a database or a role may have another default.
    """
    longest = f"{LONGEST_CALL * 1000:.0f}"
    settings = {
        "search_path": address.schema,
        "statement_timeout": longest,
        "idle_in_transaction_session_timeout": longest,
        "jit": "off",
        "lock_timeout": f"{lock * 1000:.0f}",
    }
    set_all = "; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items())
    return f"BEGIN ISOLATION LEVEL {isolation}; {set_all}; {TELL_THE_TIME}"
