"""Write inside a transaction of the caller's own: through their connection, in the store's schema, theirs to commit.

Nothing of ours is left behind in it but rows: what goes wrong is undone to a savepoint, and their search path is put
back. A notification leaves with their commit, and wakes the workers then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any, NamedTuple

from standfast.clock import Clock
from standfast.concurrency.threads import aside
from standfast.errors import ConfigurationError
from standfast.spine import apply as scripts
from standfast.store.migrations import check_readable
from standfast.store.postgres.address import Address
from standfast.store.postgres.bell import channel, messages
from standfast.store.postgres.connection import TELL_THE_TIME
from standfast.store.postgres.identity import identity_sql
from standfast.store.postgres.libraries import Awaited, Blocking, Given, Psycopg, SqlAlchemy, library_of
from standfast.store.scripts import Write
from standfast.store.statements import Statement, load
from standfast.store.steps import Batch, Round, Script, text

BEGIN: tuple[Statement, Given] = (Statement("SAVEPOINT standfast", gives_rows=True), {})
UNDO: tuple[Statement, Given] = (Statement("ROLLBACK TO SAVEPOINT standfast", gives_rows=True), {})
END: tuple[Statement, Given] = (Statement("RELEASE SAVEPOINT standfast", gives_rows=True), {})
STATEMENTS = load("postgres") | {
    "use_schema": Statement("SELECT set_config('search_path', :path, true)", gives_rows=True),
    "notify": Statement("SELECT pg_notify(:channel, :message)", gives_rows=True),
}


class Facts(NamedTuple):
    """What must be known of a transaction before anything is written there."""

    store: str
    now: float
    synchronous_commit: str
    path: str


class Foreign:
    """A transaction of the caller's, and which store its connection must lead to."""

    def __init__(self, tx: object, address: Address, identity: str, clock: Clock) -> None:
        self._theirs = library_of(tx)
        self._address = address
        self._identity = identity
        self._clock = clock
        facts = f"SELECT {identity_sql(address)}, ({TELL_THE_TIME})"
        facts += ", current_setting('synchronous_commit'), current_setting('search_path')"
        enter = f"SELECT readable_by, set_config('search_path', '{address.schema}', true) FROM {address.schema}.schema"  # noqa: S608 - the name was checked
        own = {"facts": Statement(facts, gives_rows=True), "enter": Statement(enter, gives_rows=True)}
        self._statements = STATEMENTS | own

    async def write(self, script: Write[Any, Any], items: Sequence[Any]) -> Any:
        """Run a script in their transaction. A connection that blocks is used on a thread, until it is free again."""
        if isinstance(self._theirs, Psycopg | SqlAlchemy):
            return await _to_the_end(aside(self._block, self._theirs, self._whole(script, items)))
        return await self._await(self._theirs, self._whole(script, items))

    def write_blocking(self, script: Write[Any, Any], items: Sequence[Any]) -> Any:
        """Do the same for a caller without a loop."""
        if not isinstance(self._theirs, Psycopg | SqlAlchemy):
            raise ConfigurationError(
                "tx is a connection to be awaited; nothing was written: await sf.enqueue(…, tx=…) instead"
            )
        return self._block(self._theirs, self._whole(script, items))

    def _whole(self, script: Write[Any, Any], items: Sequence[Any]) -> Script[Any]:
        """Look where this is, go to the store's schema, do the work, tell of it, go back."""
        [row] = yield "facts", {}
        facts = Facts(*row)
        self._check(facts)
        [(readable_by, _)] = yield "enter", {}
        check_readable("postgres", readable_by, str(self._address))
        round_ = Round(self._clock.of_server(facts.now), 0.0, "")
        results = yield from script(round_, items)
        yield from scripts.close(round_)
        for message in messages(round_.work):
            yield "notify", {"channel": channel(self._address), "message": message}
        yield "use_schema", {"path": facts.path}
        return results

    def _check(self, facts: Facts) -> None:
        if facts.store != self._identity:
            raise ConfigurationError(
                f"tx is a connection to another database than the store's, which is {self._address}; nothing was "
                "written: pass a connection to that one"
            )
        if facts.synchronous_commit == "off":
            raise ConfigurationError(
                "tx has synchronous_commit=off, and its commit may be lost after it was acknowledged; nothing was "
                "written: SET LOCAL synchronous_commit TO on"
            )

    def _step(self, name: str, parameters: dict[str, Any] | Batch) -> tuple[Statement, Given]:
        given = parameters if isinstance(parameters, dict) else {"rows": text(parameters)}
        return self._statements[name], given

    # --- the two ways to wait

    def _block(self, theirs: Blocking, script: Script[Any]) -> Any:
        theirs.check()
        theirs.ask(*BEGIN)
        with ExitStack() as always:
            always.callback(theirs.ask, *END)
            with ExitStack() as failed:
                failed.callback(theirs.ask, *UNDO)
                results = self._drive(theirs, script)
                failed.pop_all()
        return results

    def _drive(self, theirs: Blocking, script: Script[Any]) -> Any:
        rows = None
        try:
            while True:
                rows = theirs.ask(*self._step(*script.send(rows)))  # type: ignore[arg-type]
        except StopIteration as done:
            return done.value

    async def _await(self, theirs: Awaited, script: Script[Any]) -> Any:
        await theirs.check()
        await theirs.ask(*BEGIN)
        async with AsyncExitStack() as always:
            always.push_async_callback(theirs.ask, *END)
            async with AsyncExitStack() as failed:
                failed.push_async_callback(theirs.ask, *UNDO)
                results = await self._drive_awaiting(theirs, script)
                failed.pop_all()
        return results

    async def _drive_awaiting(self, theirs: Awaited, script: Script[Any]) -> Any:
        rows = None
        while True:
            try:
                step = script.send(rows)  # type: ignore[arg-type]
            except StopIteration as done:
                return done.value
            rows = await theirs.ask(*self._step(*step))


async def _to_the_end(answer: asyncio.Future[Any]) -> Any:
    """Wait until a thread is done with their connection, also if the caller is cancelled: it must not use it beside."""
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        await asyncio.wait([answer])
        answer.exception()  # the caller hears that it was cancelled, and nothing else
        raise
