"""Wraps handlers for frameworks: in a context, entered and left in the very thread that a plain function runs in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from standfast.spine.registry import Handler

Function = Callable[..., Any]


class Wrap(Protocol):
    """Returns the function to call instead of a handler's own."""

    def __call__(self, function: Function, *, is_async: bool) -> Function:
        """Wrap a function; wrap an async function in an async one."""


def wrap_function(handler: Handler, wrap: Wrap) -> None:
    """Wrap a handler's function."""
    handler.function = wrap(handler.function, is_async=handler.is_async)
