"""Statements on a session that is not shared: planned once, and sent without waiting if the answer is not needed.

A psycopg cursor takes about twice the processor time of the call it makes, and every call is a round trip. This module
uses libpq through psycopg's `pq`, with the same deadline. Statements that are sent without waiting are answered along
with the next question, or with the commit; libpq calls this a pipeline.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGresult

from standfast.portable import wait_for
from standfast.store.statements import Statement
from standfast.store.steps import Rows

if TYPE_CHECKING:
    from standfast.store.postgres.assumptions import Assumptions

BOOLEAN, INTEGER, BIGINT, DOUBLE, UNKNOWN = 16, 23, 20, 701, 0
"""Types by the server's numbers. The server infers the type of a text by itself."""
LARGEST_INTEGER = (1 << 31) - 1
FAILED, SYNCED, FOUND = pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_SYNC, pq.ExecStatus.TUPLES_OK

BINARY = pq.Format.BINARY
"""How the server sends rows. Writing numbers out there and parsing them here took most of the time."""

PARAMETER = re.compile(r"(?<!:):([a-z_]+)")


class Numbered(NamedTuple):
    """A statement in libpq's form: its parameters have numbers, and `names` are their names."""

    name: str
    sql: bytes
    names: tuple[str, ...]
    answers: bool = True
    """Whether its answer is used."""


def numbered(name: str, statement: Statement) -> Numbered:
    """Write a statement in libpq's form."""
    names = list(dict.fromkeys(PARAMETER.findall(statement.sql)))
    sql = PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement.sql)
    return Numbered(name, sql.encode(), tuple(names), statement.answers)


NOTIFY = numbered(
    "notify",
    Statement("SELECT set_config('synchronous_commit', 'off', true), pg_notify(:channel, :message)", gives_rows=True),
)
"""A hint need not be on disk before it is received. It is sent in its own transaction, after the one it is about."""


class Opening(NamedTuple):
    """How a transaction is opened without waiting: its BEGIN, and what sets and checks all that it relies on."""

    begin: bytes
    settings: Numbered


class Unanswered(psycopg.OperationalError):
    """The server did not answer a call in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the server did not answer within {seconds:.0f} s")


class CommitUnanswered(psycopg.OperationalError):
    """It is unknown whether a COMMIT was carried out."""


class Session:
    """A connection's session. A call that is not answered in time closes the connection."""

    def __init__(self, connection: psycopg.Connection[Any], longest: float) -> None:
        self._connection = connection
        self._wire = connection.pgconn
        self._longest = longest
        self._transformer = Transformer(connection)
        self.process = connection.info.backend_pid
        """The server's process for this session."""
        self._planned: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._prefix = f"standfast_{secrets.token_hex(6)}"
        """The prefix of its plans' names: an undetected pooler may let others of our plans into the same session."""
        self.assumptions: Assumptions | None = None
        """The assumptions that save waiting, if this session is the writer's."""
        self._unanswered: list[Callable[[Rows], None] | None] = []
        """The statements that wait for their answers: for each, the function that receives its rows, or None."""

    def begin(self, opening: str) -> Rows:
        """Run the statements that open a transaction; return the answer of the last."""
        self._wire.send_query(opening.encode())
        return self._rows(self._answers()[-1])

    def begin_at_once(self, opening: Opening, given: Mapping[str, Any]) -> None:
        """Open a transaction together with the first statement that is waited for."""
        plan, values = self._ready_to_send(opening.settings, given)
        self._wire.enter_pipeline_mode()
        self._wire.send_query_params(opening.begin, None)
        self._wire.send_query_prepared(plan, values)
        self._unanswered += [None, None]

    def ask(self, statement: Numbered, given: Mapping[str, Any]) -> Rows:
        """Run a statement; return its rows, or the number of rows it changed."""
        self._wire.send_query_prepared(*self._ready_to_send(statement, given), result_format=BINARY)
        return self._rows(self._answers()[-1])

    def tell(self, statement: Numbered, given: Mapping[str, Any], heard: Callable[[Rows], None] | None = None) -> None:
        """Send a statement without waiting for its answer. If it fails, the next call raises the error."""
        plan, values = self._ready_to_send(statement, given)
        self._wire.enter_pipeline_mode()
        self._wire.send_query_prepared(plan, values, result_format=BINARY)
        self._unanswered.append(heard)

    def commit(self, notice: tuple[str, str] | None = None) -> None:
        """Commit after all statements sent so far; then send a notice, whose arrival does not matter.

        Answers come in order. Only if the session is still in a failed transaction is it certain that the COMMIT was
        skipped; a pooler that lost its server reports idle. Without an answer, it is unknown.
        """
        ready = None if notice is None else self._prepared_notice(notice)
        before = len(self._unanswered)
        try:
            self._send_commit(ready)
            answers = self._collected()
        except psycopg.Error as error:
            raise CommitUnanswered(str(error)) from error
        failed = [answer for answer in answers[:before] if _state(answer)]
        if failed and self._wire.transaction_status == pq.TransactionStatus.INERROR:
            self.roll_back()  # the server skipped the COMMIT, and accepts nothing more
            _check(failed)
        try:
            _check(answers[: before + 1])
            answers[before]
        except (psycopg.Error, IndexError) as error:
            raise CommitUnanswered(str(error)) from error

    def _prepared_notice(self, notice: tuple[str, str]) -> tuple[bytes, list[bytes | None]]:
        """Plan the notice before the COMMIT is sent, so that a failure here leaves no doubt about the COMMIT."""
        try:
            return self._ready_to_send(NOTIFY, dict(zip(NOTIFY.names, notice, strict=True)))
        except psycopg.Error:
            self.roll_back()
            raise

    def _send_commit(self, notice: tuple[bytes, list[bytes | None]] | None) -> None:
        if notice is not None:
            self._wire.enter_pipeline_mode()
        self._wire.send_query_params(b"COMMIT", None)
        if notice is not None:
            self._wire.send_query_prepared(*notice)

    def roll_back(self) -> None:
        """Roll back everything, including statements that were sent and not answered yet."""
        if self._unanswered:
            self._collected()
        self._wire.send_query(b"ROLLBACK")
        self._answers()

    # --- sending

    def _ready_to_send(self, statement: Numbered, given: Mapping[str, Any]) -> tuple[bytes, list[bytes | None]]:
        types, values = _bound(given, statement.names)
        return self._plan(statement, types), values

    def _plan(self, statement: Numbered, types: Sequence[int]) -> bytes:
        """Return the session's name for a statement with parameters of these types."""
        key = statement.name, tuple(types)
        if key not in self._planned:
            name = f"{self._prefix}_{len(self._planned)}".encode()
            self._wire.send_prepare(name, statement.sql, types)
            self._answers()
            self._planned[key] = name
        return self._planned[key]

    # --- answers

    def _answers(self) -> list[PGresult]:
        """Wait for the answers to everything that was sent; raise the first error among them."""
        answers = self._collected()
        _check(answers)
        return answers

    def _collected(self) -> list[PGresult]:
        piped = self._wire.pipeline_status != pq.PipelineStatus.OFF
        if piped:
            self._wire.pipeline_sync()
        until = time.monotonic() + self._longest
        while self._wire.flush():  # while nothing can be sent, this reads what has arrived
            self._ready(until, writable=True)
            until = time.monotonic() + self._longest  # a large round may take longer to send than one call may take
        answers: list[PGresult] = []
        while (answer := self._next(until)) is not None or piped:  # in a pipeline, a None follows each answer
            if answer is None and self._wire.status != pq.ConnStatus.OK:
                break
            if answer is not None and answer.status == SYNCED:
                self._wire.exit_pipeline_mode()
                break
            if answer is not None:
                answers.append(answer)
                until = time.monotonic() + self._longest
        told, self._unanswered = self._unanswered, []
        for heard, answer in zip(told, answers, strict=False):
            if heard is not None and answer.status == FOUND:
                heard(self._rows(answer))
        if not answers:
            raise psycopg.OperationalError("the connection was lost")
        return answers

    def _next(self, until: float) -> PGresult | None:
        while self._wire.is_busy():
            self._ready(until)
            self._wire.consume_input()
        return self._wire.get_result()

    def _ready(self, until: float, *, writable: bool = False) -> None:
        """Wait for the server, but not forever."""
        if not wait_for(self._wire.socket, max(0.0, until - time.monotonic()), writable=writable):
            self._connection.close()
            raise Unanswered(self._longest)

    def _rows(self, answer: PGresult) -> Rows:
        if not answer.nfields:
            return [(answer.command_tuples,)]
        self._transformer.set_pgresult(answer)
        return self._transformer.load_rows(0, answer.ntuples, tuple)


def _bound(given: Mapping[str, Any], names: Sequence[str]) -> tuple[list[int], list[bytes | None]]:
    bound = [_dumped(given[name]) for name in names]
    return [type_ for type_, _ in bound], [value for _, value in bound]


def _dumped(value: Any) -> tuple[int, bytes | None]:
    if value is None:
        return UNKNOWN, None
    if isinstance(value, str):
        return UNKNOWN, _text(value)
    if isinstance(value, bool):
        return BOOLEAN, b"t" if value else b"f"
    if isinstance(value, int):
        return (INTEGER if abs(value) <= LARGEST_INTEGER else BIGINT), str(int(value)).encode()
    return DOUBLE, repr(value).encode()


def _text(value: str) -> bytes:
    """Encode a text. libpq treats a NUL as the end of a text, and would silently drop what follows."""
    encoded = value.encode()
    if b"\0" in encoded:
        raise psycopg.DataError("a text cannot contain NUL (0x00) bytes")
    return encoded


def _state(answer: PGresult) -> bytes | None:
    return answer.error_field(pq.DiagnosticField.SQLSTATE)


def _check(answers: Sequence[PGresult]) -> None:
    """Raise the server's error for the first failed answer. The loss of a connection has no SQLSTATE."""
    for answer in answers:
        if answer.status == FAILED:
            if _state(answer):
                raise error_from_result(answer)
            raise psycopg.OperationalError(answer.error_message.decode(errors="replace").strip())
