"""Write inside one of the caller's transactions: through the caller's connection, in the store's schema.

The caller commits. Only rows are left behind: errors are rolled back to a savepoint, and the search path is restored.
A notification is sent with the caller's commit, and wakes the workers then.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from typing import Any, NamedTuple, TypeVar

from standfast.clock import Clock
from standfast.concurrency.flows import Answer, SyncOrAsync
from standfast.concurrency.threads import run_in_thread
from standfast.errors import ConfigurationError, OtherDatabase
from standfast.store.migrations import check_readable
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import TELL_THE_TIME
from standfast.store.postgres.driver import as_crossing
from standfast.store.postgres.identity import identity_sql
from standfast.store.postgres.libraries import Awaited, Blocking, Given, Psycopg, SqlAlchemy, library_of
from standfast.store.postgres.notifications import channel, messages
from standfast.store.scripts import Call, Item, Result, RoundScripts, Write
from standfast.store.statements import Statement, load
from standfast.store.steps import Batch, Round, Script

T = TypeVar("T")

BEGIN: tuple[Statement, Given] = (Statement("SAVEPOINT standfast", gives_rows=True), {})
UNDO: tuple[Statement, Given] = (Statement("ROLLBACK TO SAVEPOINT standfast", gives_rows=True), {})
END: tuple[Statement, Given] = (Statement("RELEASE SAVEPOINT standfast", gives_rows=True), {})
STATEMENTS = load("postgres") | {
    "use_schema": Statement("SELECT set_config('search_path', :path, true)", gives_rows=True),
    "notify": Statement("SELECT pg_notify(:channel, :message)", gives_rows=True),
}


class Facts(NamedTuple):
    """What must be known about a transaction before anything is written in it."""

    store: str
    now: float
    synchronous_commit: str
    path: str


class Foreign:
    """A transaction of the caller's, and the store that its connection must lead to."""

    def __init__(self, tx: object, address: Address, identity: str, clock: Clock, scripts: RoundScripts) -> None:
        self._theirs = library_of(tx)
        self._address = address
        self._identity = identity
        self._clock = clock
        self._scripts = scripts
        facts = f"SELECT {identity_sql(address)}, ({TELL_THE_TIME})"
        facts += ", current_setting('synchronous_commit'), current_setting('search_path')"
        enter = f"SELECT readable_by, set_config('search_path', '{address.schema}', true) FROM {address.schema}.schema"  # noqa: S608 - the name was checked
        own = {"facts": Statement(facts, gives_rows=True), "enter": Statement(enter, gives_rows=True)}
        self._statements = STATEMENTS | own

    def write(self, script: Write[Item, Result], item: Item) -> Answer[Result]:
        """Run a script in the caller's transaction."""
        return SyncOrAsync(
            lambda: self._write(self._in_schema(script, item)), lambda: self._block(self._in_schema(script, item))
        )

    async def _write(self, script: Script[T]) -> T:
        """Run the script on the event loop. A blocking connection is used in a thread, until it is free again."""
        if isinstance(self._theirs, Psycopg | SqlAlchemy):
            return await _to_the_end(run_in_thread(partial(self._block_on, self._theirs, script)))
        return await self._await(self._theirs, script)

    def _block(self, script: Script[T]) -> T:
        if not isinstance(self._theirs, Psycopg | SqlAlchemy):
            raise ConfigurationError(
                "tx is a connection to be awaited; nothing was written: await sf.enqueue(…, tx=…) instead"
            )
        return self._block_on(self._theirs, script)

    def _in_schema(self, script: Write[Item, Result], item: Item) -> Script[Result]:
        """Check the connection, switch to the store's schema, do the work, notify, and switch back."""
        [row] = yield "facts", {}
        facts = Facts(*row)
        self._check(facts)
        [(readable_by, _)] = yield "enter", {}
        check_readable("postgres", readable_by, str(self._address))
        round_ = Round(self._clock.of_server(facts.now), 0.0, "", self._scripts.riders)
        results: list[list[Result]] = yield from self._scripts.run(round_, [Call(script, [item])], None)
        for message in messages(round_.work):
            yield "notify", {"channel": channel(self._address), "message": message}
        yield "use_schema", {"path": facts.path}
        return results[0][0]

    def _check(self, facts: Facts) -> None:
        if facts.store != self._identity:
            raise OtherDatabase(
                f"tx is a connection to another database than the store's, which is {self._address}; nothing was "
                "written: pass a connection to that one"
            )
        if facts.synchronous_commit == "off":
            raise ConfigurationError(
                "tx has synchronous_commit=off, and its commit may be lost after it was acknowledged; nothing was "
                "written: SET LOCAL synchronous_commit TO on"
            )

    def _step(self, name: str, parameters: dict[str, Any] | Batch) -> tuple[Statement, Given]:
        return self._statements[name], as_crossing(parameters)

    # --- the two ways to wait

    def _block_on(self, connection: Blocking, script: Script[T]) -> T:
        connection.check()
        connection.ask(*BEGIN)
        with ExitStack() as always:
            always.callback(connection.ask, *END)
            with ExitStack() as failed:
                failed.callback(connection.ask, *UNDO)
                results = self._drive(connection, script)
                failed.pop_all()
        return results

    def _drive(self, connection: Blocking, script: Script[T]) -> T:
        try:
            step = next(script)
            while True:
                step = script.send(connection.ask(*self._step(*step)))
        except StopIteration as done:
            result: T = done.value
            return result

    async def _await(self, connection: Awaited, script: Script[T]) -> T:
        await connection.check()
        await connection.ask(*BEGIN)
        async with AsyncExitStack() as always:
            always.push_async_callback(connection.ask, *END)
            async with AsyncExitStack() as failed:
                failed.push_async_callback(connection.ask, *UNDO)
                results = await self._drive_awaiting(connection, script)
                failed.pop_all()
        return results

    async def _drive_awaiting(self, connection: Awaited, script: Script[T]) -> T:
        step = next(script)
        while True:
            rows = await connection.ask(*self._step(*step))
            try:
                step = script.send(rows)
            except StopIteration as done:
                result: T = done.value
                return result


async def _to_the_end(answer: asyncio.Future[T]) -> T:
    """Wait until a thread is done with the connection, even if the caller is cancelled: only one may use it."""
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        await asyncio.wait([answer])
        answer.exception()  # the caller is told only that it was cancelled
        raise
