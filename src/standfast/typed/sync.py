"""Plain calls for everything that is awaited: `sf.sync`, and `handler.sync`.

No method has a second implementation. A method is looked up on its object when it is called; if it returns an
awaitable, the calling thread waits for that. `sync.pyi` has the resulting signatures, for editors and type checkers:
`python -m tests.typing.sync_stub` generates it from the table of verbs.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import cache, wraps
from types import TracebackType
from typing import Any

from standfast.concurrency.flows import is_flow, run_sync
from standfast.concurrency.loop_thread import THE_LOOP


class Plain:
    """The methods of one object as plain calls, from any thread, even while an event loop runs in it."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._target, name)
        return _plain_call(found) if inspect.isroutine(found) else _plain(found)

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._target) if not name.startswith("_")]

    def __repr__(self) -> str:
        return f"<plain calls of {self._target!r}>"

    def __enter__(self) -> Any:
        """Enter what is otherwise entered with `async with`."""
        return _plain(_waited_for(self._target.__aenter__()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Leave what `__enter__` entered."""
        left: bool | None = _waited_for(self._target.__aexit__(kind, error, trace))
        return left


class Sync(Plain):
    """`sf.sync`: every async method of a `Standfast` as a plain call."""


class SyncHandler(Plain):
    """`handler.sync`: every async method of a handler as a plain call."""


def _plain_call(verb: Callable[..., Any]) -> Callable[..., Any]:
    run: Callable[[Any], Any] = run_sync if is_flow(verb) else _waited_for

    @wraps(verb)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = verb(*args, **kwargs)
        return _plain(run(given) if inspect.isawaitable(given) else given)

    return call


def _plain(value: Any) -> Any:
    """Return a value for plain code: an iterator, or the plain calls of an object with async methods."""
    if isinstance(value, AsyncIterator):
        return _each(value)
    return Plain(value) if _has_awaited_verbs(type(value)) else value


@cache
def _has_awaited_verbs(kind: type) -> bool:
    if hasattr(kind, "__aenter__"):
        return True
    verbs = (each for name, each in inspect.getmembers_static(kind) if not name.startswith("_"))
    return kind.__module__.startswith("standfast.") and any(map(inspect.iscoroutinefunction, verbs))


def _waited_for(given: Awaitable[Any]) -> Any:
    return THE_LOOP.run(given if inspect.iscoroutine(given) else _awaited(given))


async def _awaited(given: Awaitable[Any]) -> Any:
    return await given


def _each(items: AsyncIterator[Any]) -> Iterator[Any]:
    """Yield the items of an async iterator, which is closed with this one."""
    try:
        while (found := THE_LOOP.run(_next(items))) is not None:
            yield found[0]
    finally:
        if isinstance(items, AsyncGenerator):
            THE_LOOP.begin(_closed(items))


async def _next(items: AsyncIterator[Any]) -> tuple[Any] | None:
    """Return the next item in a tuple, or None at the end: StopAsyncIteration cannot leave a coroutine."""
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return None


async def _closed(items: AsyncGenerator[Any, None]) -> None:
    with suppress(RuntimeError):  # an interrupted wait is closing it already
        await items.aclose()
