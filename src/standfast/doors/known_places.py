"""Checks queues and handlers that a caller names: a typo is reported at the door, where the caller can correct it."""

from __future__ import annotations

from difflib import get_close_matches

from standfast.application import Standfast
from standfast.errors import StoreUnavailable, UnknownHandler


async def check_handler(sf: Standfast, queue: str, handler: str | None) -> None:
    """Refuse a handler that no process ever published, if its queue has published ones: its job would wait forever.

    A queue without any may be declared later. While the store is away nothing is refused: the job may be spooled.
    """
    if handler is None or handler == queue:
        return
    try:
        await sf.resolve_handler(f"{queue}/{handler}")
    except UnknownHandler:
        published = [each.name for each in await sf.queues.handlers() if each.queue == queue]
        if published and handler not in published:  # a worker may publish it between the two reads
            raise UnknownHandler.for_name(handler, published) from None
    except StoreUnavailable:
        return


async def queue_hint(sf: Standfast, queue: str) -> str | None:
    """Return a hint if no process has declared a queue, with the declared one that was probably meant."""
    try:
        if await sf.queues.published(queue):
            return None
        near = [each for each in get_close_matches(queue, await sf.queues.list()) if await sf.queues.published(each)]
    except StoreUnavailable:
        return None
    what_next = f"did you mean {near[0]!r}?" if near else "its jobs wait until one does"
    return f"no process has declared queue {queue!r}; {what_next}"
