"""What frameworks put around handlers: a context, entered and left in the very thread that a plain function runs in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from standfast.spine.registry import Handler

Function = Callable[..., Any]


class Wrap(Protocol):
    """Gives the function to call instead of a handler's own."""

    def __call__(self, function: Function, *, is_async: bool) -> Function:
        """Wrap it; an async one must be wrapped in an async one."""


def wrap_function(handler: Handler, wrap: Wrap) -> None:
    """Have a handler's function wrapped."""
    handler.function = wrap(handler.function, is_async=handler.is_async)
