"""What a handler needs of the object that accepts its work: the methods of a `Standfast` that it calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from standfast.job import Receipt
from standfast.typed.job_options import EnqueueManyOptions, EnqueueOptions, RunOptions, SubmitOptions
from standfast.typed.reply import Reply

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
    R = TypeVar("R", default=Any)
else:
    from typing import TypeVar

    T, R = TypeVar("T"), TypeVar("R")


class Door(Protocol):
    """Accepts work for handlers."""

    async def enqueue(
        self, queue: str, payload: Any = None, *, handler: str | None = None, **options: Unpack[EnqueueOptions]
    ) -> Receipt:
        """Enqueue one job."""

    async def enqueue_many(
        self,
        queue: str,
        payloads: Iterable[Any],
        *,
        handler: str | None = None,
        **options: Unpack[EnqueueManyOptions],
    ) -> list[Receipt]:
        """Enqueue several at once."""


class Calls(Protocol):
    """Calls handlers."""

    async def run(self, handler: Any, params: Any = None, **options: Unpack[RunOptions]) -> Reply[Any]:
        """Call a handler here and now."""

    async def submit(self, handler: Any, params: Any = None, **options: Unpack[SubmitOptions]) -> Reply[Any]:
        """Let a worker call a handler once, later."""
