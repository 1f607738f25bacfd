"""An agent at one connection: what it may see and call, and how it is answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from standfast.application import Standfast
from standfast.errors import PolicyDenied
from standfast.lifecycle import FINAL
from standfast.mcp.agent_identity import Identity
from standfast.mcp.outside import answer
from standfast.server import visible as reached
from standfast.server.token_view import left_out
from standfast.views import JobView
from standfast.wings.access.words import Right

PATIENCE = 30.0
"""Seconds a call may keep its client waiting; clients give up after about a minute."""
_patience: ContextVar[float] = ContextVar("patience", default=PATIENCE)


@contextmanager
def impatient(seconds: float) -> Iterator[None]:
    """Have a call of this context wait no longer than this for its end."""
    before = _patience.set(seconds)
    try:
        yield
    finally:
        _patience.reset(before)


def patience() -> float:
    """Give the seconds that a call of this context waits for its end."""
    return _patience.get()


class Agent:
    """One connection's agent: the queue it asks, and who it is."""

    def __init__(self, sf: Standfast, who: Identity) -> None:
        self.sf = sf
        self.who = who
        self.left_out = left_out(who.grant)
        self.answer = partial(answer, without=self.left_out)

    @property
    def as_caller(self) -> dict[str, Any]:
        """As whom a call is made."""
        return {"session": self.who.session, "requester": self.who.person}

    async def handler_named(self, handler: str) -> str:
        """Find what a name means, and refuse what this connection may not call."""
        self.who.check(Right.ENQUEUE)
        grant = self.who.grant
        target = await self.sf.resolve_handler(handler, queues=None if grant is None else grant.queues)
        self.who.check_queue(target.queue)
        if grant is not None and not await reached.takes_work(self.sf, grant, target.queue):
            raise PolicyDenied(f"no process has published queue {target.queue}; nothing was done: correct the name")
        return f"{target.queue}/{target.handler}"

    async def find_job(self, id: str) -> JobView:
        """Find a job that must be there for this connection."""
        return self.who.visible(await self.sf.status(id), id)

    async def look(self, id: str) -> JobView | None:
        """Look at a job, if it is there for this connection."""
        job = await self.sf.status(id)
        return job if job is not None and self.who.sees(job) else None

    async def cancel(self, id: str) -> bool:
        """End a job of this connection's own that is no longer wanted; False if it is another's."""
        job = await self.find_job(id)
        if self.who.owns(job) and job.state not in FINAL:
            await self.sf.cancel(job.id, by=self.who.person)
        return self.who.owns(job)

    async def keep_reply(self, id: str | None) -> None:
        """Keep the end of a call in the inbox, because its reply was not received."""
        job = None if id is None else await self.sf.status(id)
        if job is not None and self.who.owns(job):
            await self.sf.inbox.keep_reply(job.id)
