"""What is measured: standfast or a peer, each step on an empty database of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from standfast.bench.figure import Figures
from standfast.bench.sizes import Sizes


class Contestant(Protocol):
    """One queue. Each step returns its figures under the same names."""

    title: str

    async def enqueues(self, url: str, sizes: Sizes) -> Figures:
        """Measure `enqueue_one`, `enqueue_64` and `bulk`."""

    async def drains(self, url: str, sizes: Sizes) -> Figures:
        """Measure `drain`."""

    async def starts(self, url: str, sizes: Sizes) -> Figures:
        """Measure `start_inside_…` and `start_across_…`, p50 and p99."""


Step = Callable[[Contestant, str, Sizes], Awaitable[Figures]]


class Failed(Exception):
    """A contestant could not be measured; the message says why."""
