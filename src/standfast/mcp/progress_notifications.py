"""How far a call is, told to a client that asked to hear it: what the job says of itself, as MCP's notifications."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from standfast.errors import StandfastError
from standfast.redact import redacted_text
from standfast.views import JobView

EVERY = 1.0
"""Seconds between two looks; a job's progress is written as often."""

Tell = Callable[[float, float, str | None], Awaitable[None]]
"""Tells the client: so much of so much is done, in these words."""
Look = Callable[[str], Awaitable[JobView | None]]
_tell: ContextVar[Tell | None] = ContextVar("tell", default=None)


@contextmanager
def telling(tell: Tell | None) -> Iterator[None]:
    """Have calls of this context tell how far they are; None if the client did not ask for it."""
    before = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(before)


@asynccontextmanager
async def told_progress(job_id: str | None, look: Look) -> AsyncIterator[None]:
    """Tell how far a job is while this lasts, if the client wants to hear it."""
    tell = _tell.get()
    if tell is None or job_id is None:
        yield
        return
    following = asyncio.create_task(_follow(job_id, look, tell))
    try:
        yield
    finally:
        following.cancel()
        await asyncio.wait([following])
        if not following.cancelled():
            following.exception()  # a client that is gone hears nothing more, and its call goes on


async def _follow(job_id: str, look: Look, tell: Tell) -> None:
    """Tell each step forward. The protocol has progress only grow: an attempt that begins anew is told once it is past.

    A store that does not answer ends it; the call itself goes on.
    """
    furthest = 0.0
    while True:
        await asyncio.sleep(EVERY)
        try:
            job = await look(job_id)
        except StandfastError:
            return
        said = None if job is None else job.progress
        if said is not None and said["fraction"] > furthest:
            furthest = said["fraction"]
            await tell(furthest, 1.0, said["note"] and redacted_text(said["note"]))
