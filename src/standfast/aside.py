"""Blocking work beside the event loop, on a thread of its own.

The loop's own threads are few and the application's: handlers that fill them must not stop the queue's bookkeeping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Answer = TypeVar("Answer")


def aside(work: Callable[..., Answer], *given: object) -> asyncio.Future[Answer]:
    """Do the work on a new thread; its answer comes to the running loop."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="standfast-aside")
    answer = asyncio.wrap_future(thread.submit(work, *given))
    thread.shutdown(wait=False)  # it ends with this work
    return answer
