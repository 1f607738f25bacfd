"""The agent at one connection: what it may see and call, and how it is answered."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from mcp.types import CallToolResult

from standfast.application import Standfast
from standfast.application.calling import StartedCall
from standfast.errors import PolicyDenied, StandfastError
from standfast.lifecycle import FINAL
from standfast.mcp.agent_identity import Identity
from standfast.mcp.handler_tools import HandlerTool, handler_tools
from standfast.mcp.outside import answer
from standfast.rules import OURS
from standfast.server import visible as reached
from standfast.server.token_view import left_out
from standfast.settings import without_password
from standfast.views import JobView
from standfast.wings.access.words import Right
from standfast.wings.calls.replies import NOT_YOURS, reply, with_grant

PATIENCE = 30.0
"""Seconds that a call may keep its client waiting; clients give up after about a minute."""
_patience: ContextVar[float] = ContextVar("patience", default=PATIENCE)


@contextmanager
def impatient(seconds: float) -> Iterator[None]:
    """Let a call of this context wait at most this long for its end."""
    before = _patience.set(seconds)
    try:
        yield
    finally:
        _patience.reset(before)


def patience() -> float:
    """Return how many seconds a call of this context waits for its end."""
    return _patience.get()


class Agent:
    """One connection's agent: the queue it works with, and its identity."""

    def __init__(self, sf: Standfast, who: Identity, taken: Collection[str] = ()) -> None:
        self.sf = sf
        self._taken = taken
        self.who = who
        self.left_out = left_out(who.grant)
        self._store = _store_words(sf) if who.grant is None else None
        """The words that point a command to the store, if the agent may know where it is."""
        self._keeping: set[asyncio.Task[None]] = set()

    def answer(
        self,
        document: Mapping[str, Any],
        *,
        without: frozenset[str] | None = None,
        clean: Mapping[str, Any] | None = None,
    ) -> CallToolResult:
        """Answer a tool's call, without what this connection may not see."""
        shown = document if self._store is None else with_grant(dict(document), self._store)
        return answer(shown, without=self.left_out if without is None else without, clean=clean)

    def refuse(self, job: JobView, hint: str, reason_code: str = NOT_YOURS) -> CallToolResult:
        """Answer that nothing was done to a job, which is unchanged."""
        answer = {"operation_id": job.id, "status": "failed", "job_status": reply(job)["status"], "refused": True}
        return self.answer({**answer, "reason_code": reason_code, "hint": hint})

    @property
    def queues(self) -> tuple[str, ...] | None:
        """The only queues that this connection reaches; None for all."""
        return None if self.who.grant is None else self.who.grant.queues

    async def handler_tools(self) -> dict[str, HandlerTool]:
        """Return the tools of the handlers that this connection may call, by name."""
        if not self.who.may(Right.ENQUEUE):
            return {}
        published = await self.sf.queues.handlers()
        within = self.queues
        callable_ = [
            each for each in published if not each.queue.startswith(OURS) and (within is None or each.queue in within)
        ]
        return handler_tools(callable_, self._taken)

    @property
    def as_caller(self) -> dict[str, Any]:
        """The session and person that calls are made as."""
        return {"session": self.who.session, "requester": self.who.person}

    async def handler_named(self, handler: str) -> str:
        """Resolve a handler's name, and refuse one that this connection may not call."""
        self.who.check(Right.ENQUEUE)
        grant = self.who.grant
        target = await self.sf.resolve_handler(handler, queues=None if grant is None else grant.queues)
        self.who.check_queue(target.queue)
        if grant is not None and not await reached.takes_work(self.sf, grant, target.queue):
            raise PolicyDenied(f"no process has published queue {target.queue}; nothing was done: correct the name")
        return f"{target.queue}/{target.handler}"

    async def find_job(self, id: str) -> JobView:
        """Find a job, which must be visible to this connection."""
        return self.who.visible(await self.sf.status(id), id)

    async def look(self, id: str) -> JobView | None:
        """Find a job, or None if it is not visible to this connection."""
        job = await self.sf.status(id)
        return job if job is not None and self.who.sees(job) else None

    async def cancel(self, job: JobView) -> JobView:
        """Cancel a job; one that has ended stays as it is."""
        return job if job.state in FINAL else await self.sf.cancel(job.id, by=self.who.person)

    # --- replies that were not received

    async def keep_reply(self, id: str | None) -> None:
        """Keep the outcome of a call in the inbox, because its reply was not received."""
        job = None if id is None else await self.sf.status(id)
        if job is not None and self.who.owns(job):
            await self.sf.inbox.keep_reply(job.id)

    def keep_reply_of(self, beginning: asyncio.Future[StartedCall]) -> None:
        """Do so for a call that may still be starting. Its caller is cancelled and cannot wait; `finish` does."""
        keeping = asyncio.get_running_loop().create_task(self._keep_reply_of(beginning))
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)

    async def _keep_reply_of(self, beginning: asyncio.Future[StartedCall]) -> None:
        with suppress(StandfastError):  # a refused or unwritten call has no outcome to keep
            await self.keep_reply((await beginning).id)

    async def finish(self) -> None:
        """Wait until every reply that was not received is in the inbox."""
        while self._keeping:
            await asyncio.wait(self._keeping)


def _store_words(sf: Standfast) -> str | None:
    """Return how a command anywhere on this host names the store; None for one that exists only in this process."""
    url = sf.settings.url.value
    if url == ":memory:":
        return None
    return f" --url {shlex.quote(without_password(url if '://' in url else str(Path(url).absolute())))}"
