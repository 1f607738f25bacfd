"""The shutdown of a server: waiting requests are released at once, so that it ends in time."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from standfast.server.problems import RETRY_AFTER, Problem

ENDING = (signal.SIGTERM, signal.SIGINT)
Value = TypeVar("Value")


class Shutdown:
    """Whether a server is about to shut down."""

    def __init__(self) -> None:
        self._begun = asyncio.Event()

    def reset(self) -> None:
        """Serve again, in the event loop that runs now."""
        self._begun = asyncio.Event()

    def begin(self) -> None:
        """Release every waiting request."""
        self._begun.set()

    async def wait(self) -> None:
        """Wait until the shutdown begins."""
        await self._begun.wait()

    async def unless_begun(self, answer: Awaitable[Value]) -> Value | None:
        """Wait for an answer, but only until the shutdown begins."""
        answering, ending = asyncio.ensure_future(answer), asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait([answering, ending], return_when=asyncio.FIRST_COMPLETED)
            return answering.result() if answering.done() else None
        finally:
            await stopped(answering, ending)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Begin the shutdown on ending signals, then call the existing handlers, which may wait for connections."""
        loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in ENDING} if _is_main_thread() else {}
        heard = {number: _chained_handler(loop, self.begin, then) for number, then in before.items() if callable(then)}
        for number, handler in heard.items():
            signal.signal(number, handler)
        try:
            yield
        finally:
            for number, handler in heard.items():
                if signal.getsignal(number) is handler:
                    signal.signal(number, before[number])


class UntilShutdown:
    """An ASGI application whose requests may take long: those still open at shutdown are answered 503."""

    def __init__(self, app: ASGIApp, shutdown: Shutdown) -> None:
        self._app = app
        self._shutdown = shutdown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, unless the server ends first."""
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        async def served() -> bool:
            await self._app(scope, receive, sent)
            return True

        if not await self._shutdown.unless_begun(served()) and not begun:
            await _goodbye().response()(scope, receive, send)


def shutdown_of(request: Request) -> Shutdown:
    """Return the shutdown of the server that received a request."""
    shutdown: Shutdown = request.app.state.shutdown
    return shutdown


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _chained_handler(
    loop: asyncio.AbstractEventLoop, begin: Callable[[], None], then: Callable[[int, FrameType | None], Any]
) -> Callable[[int, FrameType | None], Any]:
    def handle(number: int, frame: FrameType | None) -> None:
        with suppress(RuntimeError):  # the loop is closed, and no request is left
            loop.call_soon_threadsafe(begin)
        then(number, frame)

    return handle


def _goodbye() -> Problem:
    hint = "Send it again: the next server goes on."
    return Problem(503, "ending", "the server ends", hint, headers=RETRY_AFTER)


async def stopped(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
