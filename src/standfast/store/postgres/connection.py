"""Open a connection that can be trusted: no call hangs, and a server that may lose acknowledged work is refused."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import psycopg
from psycopg import pq, waiting
from psycopg.conninfo import conninfo_to_dict

from standfast.errors import ConfigurationError, WrongAddress
from standfast.store.migrations import check_readable
from standfast.store.postgres.address import Address
from standfast.store.postgres.refusal import is_refused_for_good
from standfast.store.postgres.session import CommitUnanswered, Opening, Session, Unanswered, numbered
from standfast.store.statements import Statement
from standfast.store.steps import Rows

LONGEST_CALL = 5.0
"""Seconds that one statement may take, until its answer has arrived. A server that swallowed the call is given up
then. The server in turn drops a client that falls silent within a transaction, with all its locks."""
LONGEST_STATEMENT = 0.9
"""The share of this after which the server cancels a statement: its answer is definite, so it must come first."""
LONGEST_LOCK = 1.0
"""Seconds to wait for another transaction."""
SHORTEST_LOCK = 0.1
"""Seconds to wait for a transaction that is known to take long, because other requests wait behind this one."""
CONNECT_SECONDS = 4
"""Seconds to wait for a host that does not answer; if the URL names several hosts, they share them."""
SHORTEST_CONNECT = 2
OLDEST_SERVER = 13
WRITING = "READ COMMITTED"
TELL_THE_TIME = "SELECT extract(epoch FROM clock_timestamp())::double precision"

MEND_ADDRESS = "nothing was written, and waiting does not help: correct the address, role, password or rights"
OPTIONS: dict[str, Any] = {
    "client_encoding": "utf8",
    "application_name": "standfast",
    "keepalives_idle": 10,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": int(LONGEST_CALL * 1000),
}


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection on which every wait ends: with an answer, or with an error."""

    session: Session | None = None
    """A faster way to run statements, if the session is not shared with other clients."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for the server, but not forever. While the server is silent, psycopg checks in ten times a second."""
        return super().wait(_bounded(gen, time.monotonic() + LONGEST_CALL), *args, **options)

    @classmethod
    def connect_to(cls, server: str) -> Self:
        """Connect; raise WrongAddress for errors that waiting cannot fix.

        No statement is prepared by name yet, because a pooler would mix the names up.
        """
        hosts = 1 + str(conninfo_to_dict(server).get("host", "")).count(",")
        each = max(SHORTEST_CONNECT, CONNECT_SECONDS // hosts)
        options = {**OPTIONS, "connect_timeout": each}
        try:
            return cls.connect(server, autocommit=True, prepare_threshold=None, **options)
        except psycopg.OperationalError as error:
            if not is_refused_for_good(server, error, options):
                raise
            raise WrongAddress(f"{str(error).strip()}; {MEND_ADDRESS}") from error

    def is_direct(self) -> bool:
        """Return whether this session is not shared: a pooler invents the backend number that it gives its clients."""
        [(session,)] = self.execute("SELECT pg_backend_pid()")
        return bool(session == self.info.backend_pid)

    def prepare_statements(self) -> None:
        """Let the server plan each statement once. psycopg prepares none: it forgets all of them at a ROLLBACK."""
        self.session = Session(self, LONGEST_CALL)

    def begin(self, opening: str) -> Rows:
        """Open a transaction; return the answer of the opening's last statement."""
        if self.session is not None:
            return self.session.begin(opening)
        cursor = self.execute(opening.encode())
        while cursor.nextset():
            pass
        return cursor.fetchall()

    def begin_at_once(self, opening: Opening, expected: Mapping[str, Any]) -> None:
        """Open a transaction without waiting for the server, if the session is not shared."""
        if self.session is not None:
            self.session.begin_at_once(opening, expected)

    def finish(self, notice: tuple[str, str] | None = None) -> None:
        """Commit; raise CommitUnanswered if it is unknown whether the COMMIT was carried out.

        The notice, a channel and a message, is sent only if the session is not shared.
        """
        if self.session is not None:
            self.session.commit(notice)
            return
        try:
            self.execute("COMMIT", prepare=False)  # there is nothing to plan
        except psycopg.Error as error:
            raise CommitUnanswered(str(error)) from error


def _bounded(gen: Generator[Any, Any, Any], until: float) -> Generator[Any, Any, Any]:
    """Pass on what a wait asks for; end it if nothing becomes ready before `until`."""
    ready = None
    while True:
        try:
            wanted = gen.send(ready)
        except StopIteration as done:
            return done.value
        ready = yield wanted
        if ready == waiting.Ready.NONE and time.monotonic() > until:
            raise Unanswered(LONGEST_CALL)


def connect(address: Address) -> Connection:
    """Connect to a server that keeps what it acknowledges."""
    connection = Connection.connect_to(address.server)
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
    """Close the connection unless the block succeeds."""
    with ExitStack() as stack:
        stack.callback(connection.close)
        yield
        stack.pop_all()


@contextmanager
def rolled_back_on_failure(connection: Connection) -> Iterator[None]:
    """Roll back the open transaction unless the block succeeds."""
    with ExitStack() as stack:
        stack.callback(roll_back, connection)
        yield
        stack.pop_all()


def roll_back(connection: Connection) -> None:
    """Roll back if that is possible; a connection that is gone takes its transaction with it."""
    if connection.closed or connection.info.transaction_status == pq.TransactionStatus.UNKNOWN:
        return
    try:
        if connection.session is not None:
            connection.session.roll_back()
        else:
            connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def found_at_opening(rows: Rows, store: str) -> tuple[float, int]:
    """Read the answer of a transaction's opening: the time and the schema. Refuse a schema that has become too new."""
    [(now, readable_by)] = rows
    check_readable("postgres", readable_by, store)
    return float(now), readable_by


def opening(address: Address, isolation: str = WRITING, lock: float = LONGEST_LOCK) -> str:
    """Return the statements that begin a transaction, and that answer with the time and who may read the schema.

    Its settings end with the transaction, because a pooler shares sessions.

    The isolation level is explicit, because a database or a role may have a different default.
    """
    set_all = "; ".join(f"SET LOCAL {name} = {value}" for name, value in _settings(address, isolation, lock).items())
    return f"BEGIN ISOLATION LEVEL {isolation}; {set_all}; {TELL_THE_TIME}, readable_by FROM schema"


def opening_at_once(address: Address) -> Opening:
    """Return the same for a writer that knows time and schema: the server only checks that they are still right."""
    settings = _settings(address, WRITING, LONGEST_LOCK).items()
    set_all = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings)
    as_known = f"readable_by = :readable_by AND abs(({TELL_THE_TIME}) - :time) < :off"
    check = f"SELECT {set_all}, 1 / ({as_known})::integer FROM {address.schema}.schema"  # noqa: S608 - the name was checked
    begin = f"BEGIN ISOLATION LEVEL {WRITING}".encode()
    return Opening(begin, numbered("opening", Statement(check, gives_rows=True)))


def _settings(address: Address, isolation: str, lock: float) -> dict[str, str]:
    """Return the settings of a transaction.

    Writing transactions use the indexes: plans are made once, mostly while the store is new, when reading a whole table
    would seem cheap. They use index scans, row by row: a bitmap scan would take rows, and locks, in the table's order.
    """
    statement, longest = f"{LONGEST_STATEMENT * LONGEST_CALL * 1000:.0f}", f"{LONGEST_CALL * 1000:.0f}"
    return {
        "search_path": address.schema,
        "statement_timeout": statement,
        "idle_in_transaction_session_timeout": longest,
        "jit": "off",
        "lock_timeout": f"{lock * 1000:.0f}",
        "enable_seqscan": "off" if isolation == WRITING else "on",
        "enable_bitmapscan": "off" if isolation == WRITING else "on",
    }
