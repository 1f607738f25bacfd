"""MCP progress notifications, for clients that asked for them: the progress that the job itself reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from standfast.errors import StandfastError
from standfast.redact import redacted_text
from standfast.views import JobView

EVERY = 1.0
"""Seconds between two checks; a job's progress is stored as often."""

Tell = Callable[[float, float, str | None], Awaitable[None]]
"""Tells the client how much of how much is done, with a note."""
Look = Callable[[str], Awaitable[JobView | None]]
_tell: ContextVar[Tell | None] = ContextVar("tell", default=None)


@contextmanager
def telling(tell: Tell | None) -> Iterator[None]:
    """Report the progress of this context's calls with `tell`; None if the client did not ask for it."""
    before = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(before)


@asynccontextmanager
async def told_progress(job_id: str | None, look: Look) -> AsyncIterator[None]:
    """Report a job's progress while the block lasts, if the client asked for it."""
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
            following.exception()  # a client that is gone gets no more reports, and its call goes on


async def _follow(job_id: str, look: Look, tell: Tell) -> None:
    """Report each step forward. MCP progress must grow: after a repeat, it is reported once it exceeds the old value.

    A store that does not answer ends the reports; the call itself goes on.
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
