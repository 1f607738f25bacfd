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
from standfast.store.postgres.session import CommitUnanswered, Opening, Session, numbered
from standfast.store.statements import Statement
from standfast.store.steps import Rows

LONGEST_CALL = 5.0
"""Seconds one statement may take, the answer's way back included. A server that swallowed the call is given up then,
and the server gives up a client that fell silent within a transaction, with all it had locked."""
LONGEST_LOCK = 1.0
"""Seconds to wait for another transaction."""
SHORTEST_LOCK = 0.1
"""Seconds to wait for one that is known to take long: others wait behind this."""
CONNECT_SECONDS = 4
"""Seconds to wait for a host that does not answer; where the URL names several, they share them."""
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
    """The quicker way, where the session is not shared."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for the server, but not for ever. While it says nothing, psycopg looks up ten times a second."""
        return super().wait(_bounded(gen, time.monotonic() + LONGEST_CALL), *args, **options)

    @classmethod
    def connect_to(cls, server: str) -> Self:
        """Connect; raise WrongAddress for what waiting cannot mend.

        No statement is prepared by name yet: a pooler would mix the names up.
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
        """Tell whether this session is ours alone: a pooler makes up the number it gives its clients."""
        [(session,)] = self.execute("SELECT pg_backend_pid()")
        return bool(session == self.info.backend_pid)

    def prepare_statements(self) -> None:
        """Have the server plan each statement once. psycopg prepares none: at a ROLLBACK it forgets all there are."""
        self.session = Session(self, LONGEST_CALL)

    def begin(self, opening: str) -> Rows:
        """Open a transaction; give what the last statement of the opening answers."""
        if self.session is not None:
            return self.session.begin(opening)
        cursor = self.execute(opening.encode())
        while cursor.nextset():
            pass
        return cursor.fetchall()

    def begin_at_once(self, opening: Opening, expected: Mapping[str, Any]) -> None:
        """Open a transaction without waiting for it, on a session that is ours alone."""
        if self.session is not None:
            self.session.begin_at_once(opening, expected)

    def finish(self, notice: tuple[str, str] | None = None) -> None:
        """Commit; raise Unanswered where it is unknown whether that was carried out.

        The notice, of channel and message, is for a session that is ours alone.
        """
        if self.session is not None:
            self.session.commit(notice)
            return
        try:
            self.execute("COMMIT", prepare=False)  # there is nothing to plan
        except psycopg.Error as error:
            raise CommitUnanswered(str(error)) from error


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
    """Close the connection unless everything inside went well."""
    with ExitStack() as stack:
        stack.callback(connection.close)
        yield
        stack.pop_all()


@contextmanager
def rolled_back_on_failure(connection: Connection) -> Iterator[None]:
    """Roll the open transaction back unless everything inside went well."""
    with ExitStack() as stack:
        stack.callback(roll_back, connection)
        yield
        stack.pop_all()


def roll_back(connection: Connection) -> None:
    """Roll back where that is possible; a connection that is gone takes its transaction with it."""
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
    """Read what the opening of a transaction answers: give time and schema, and refuse one that has become too new."""
    [(now, readable_by)] = rows
    check_readable("postgres", readable_by, store)
    return float(now), readable_by


def opening(address: Address, isolation: str = WRITING, lock: float = LONGEST_LOCK) -> str:
    """Word the beginning of a transaction, which tells the time and who may read the schema.

    What it sets ends with it: a pooler shares sessions.

    The isolation is named, because a database or a role may have another default.
    """
    set_all = "; ".join(f"SET LOCAL {name} = {value}" for name, value in _settings(address, isolation, lock).items())
    return f"BEGIN ISOLATION LEVEL {isolation}; {set_all}; {TELL_THE_TIME}, readable_by FROM schema"


def opening_at_once(address: Address) -> Opening:
    """Word the same for a writer that knows the time and the schema: the server only checks that this is still so."""
    settings = _settings(address, WRITING, LONGEST_LOCK).items()
    set_all = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings)
    as_known = f"readable_by = :readable_by AND abs(({TELL_THE_TIME}) - :time) < :off"
    check = f"SELECT {set_all}, 1 / ({as_known})::integer FROM {address.schema}.schema"  # noqa: S608 - the name was checked
    begin = f"BEGIN ISOLATION LEVEL {WRITING}".encode()
    return Opening(begin, numbered("opening", Statement(check, gives_rows=True)))


def _settings(address: Address, isolation: str, lock: float) -> dict[str, str]:
    """Give what is set for a transaction.

    What writes goes by the indexes: plans are made once, most of them while the store is new and reading a table whole
    would seem cheap. It goes along them, row by row: a bitmap would take rows, and their locks, in the table's order.
    """
    longest = f"{LONGEST_CALL * 1000:.0f}"
    return {
        "search_path": address.schema,
        "statement_timeout": longest,
        "idle_in_transaction_session_timeout": longest,
        "jit": "off",
        "lock_timeout": f"{lock * 1000:.0f}",
        "enable_seqscan": "off" if isolation == WRITING else "on",
        "enable_bitmapscan": "off" if isolation == WRITING else "on",
    }
