"""The application's hooks for the start and end of a worker process (`@sf.on_startup`, `@sf.on_shutdown`)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from standfast.concurrency.user_code import call_user_code, in_own_task
from standfast.errors import ConfigurationError, StartupFailed

log = logging.getLogger("standfast.worker")

Hook = TypeVar("Hook", bound=Callable[..., Any])
LONGEST_SHUTDOWN = 30.0
"""Seconds after which a shut-down hook is no longer waited for: the process must end."""


class LifeHooks:
    """The hooks of one process. They run once for each event loop, however many workers it has."""

    def __init__(self) -> None:
        self.on_startup: list[Callable[[], Any]] = []
        self.on_shutdown: list[Callable[[], Any]] = []
        self._workers: dict[asyncio.AbstractEventLoop, int] = {}
        self._turns: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}

    def take_over(self, other: LifeHooks) -> None:
        """Add the hooks of another instance."""
        self.on_startup += other.on_startup
        self.on_shutdown += other.on_shutdown

    async def enter(self) -> None:
        """Run the start-up hooks before the first worker of this loop claims; stop at the first that fails."""
        loop = asyncio.get_running_loop()
        async with self._turn(loop):
            if not self._workers.get(loop):
                for hook in list(self.on_startup):
                    await _started(hook)
            self._workers[loop] = self._workers.get(loop, 0) + 1

    async def leave(self) -> None:
        """Run the shut-down hooks once the last worker of this loop has left; log their errors."""
        loop = asyncio.get_running_loop()
        async with self._turn(loop):
            left = self._workers.pop(loop, 1) - 1
            if left:
                self._workers[loop] = left
                return
            self._turns.pop(loop, None)
            for hook in list(self.on_shutdown):
                await _shut_down(hook)

    @asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        """Run the start-up hooks before a block, and the shut-down hooks after it."""
        await self.enter()
        try:
            yield
        finally:
            await self.leave()

    def _turn(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        return self._turns.setdefault(loop, asyncio.Lock())


async def _started(hook: Callable[[], Any]) -> None:
    call = asyncio.ensure_future(_call(hook))
    try:
        await asyncio.wait([call])
    finally:
        call.cancel()
    error = asyncio.CancelledError("it was cancelled") if call.cancelled() else call.exception()
    if error is not None:
        log.debug("the start-up hook %s failed", _name(hook), exc_info=error)
        raise StartupFailed(f"the start-up hook {_name(hook)} failed: {_worded(error)}; nothing was claimed") from error


async def _shut_down(hook: Callable[[], Any]) -> None:
    call = asyncio.ensure_future(_call(hook))
    await asyncio.wait([call], timeout=LONGEST_SHUTDOWN)
    if not call.done():
        call.cancel()
        log.error("the shut-down hook %s took longer than %g s and is left behind", _name(hook), LONGEST_SHUTDOWN)
    elif not call.cancelled() and call.exception() is not None:
        log.error("the shut-down hook %s failed", _name(hook), exc_info=call.exception())


async def _call(hook: Callable[[], Any]) -> None:
    await in_own_task(call_user_code(hook))


def _worded(error: BaseException) -> str:
    """Describe in one line what was raised, and where."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" ({last[0].filename}, line {last[0].lineno})" if last else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{f': {text}' if text else ''}{where}"


def _name(hook: Callable[..., Any]) -> str:
    return getattr(hook, "__qualname__", repr(hook))


def checked_life_hook(hook: Hook, decorator: str) -> Hook:
    """Refuse a function that cannot be called as a hook, now rather than when a worker starts."""
    try:
        inspect.signature(hook).bind()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"@sf.{decorator} takes a function without arguments, not {hook!r}") from error
    return hook
