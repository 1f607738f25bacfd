"""A whole server for a browser to visit: in a thread of its own, with a worker, on a port of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import uvicorn

from standfast import Standfast
from standfast.server.app import Server
from standfast.server.connections import Connections
from standfast.server.wire import Wire

T = TypeVar("T")


class House:
    """Serves one queue until it is left; `ask` runs something beside the server, and gives what it gave."""

    def __init__(self, sf: Standfast, *, working: bool = True, connections: Connections | None = None) -> None:
        self.sf = sf
        self.connections = connections or Connections(1000, 1000)
        self._working = working
        self._open = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), daemon=True)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._loop: asyncio.AbstractEventLoop
        self._serving: uvicorn.Server
        self.server: Server

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self.sf:
            self.server = Server(self.sf)
            config = uvicorn.Config(
                self.server.app,
                http=Wire.limited(self.connections),
                ws="none",
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=1,
            )
            self._serving = uvicorn.Server(config)
            if self._working:
                async with self.sf.worker(grace=1):
                    await self._serve()
            else:
                await self._serve()

    async def _serve(self) -> None:
        self._loop.call_soon(self._open.set)
        await self._serving._serve([self._socket])  # noqa: SLF001 - `serve` would take the process's signals
        await self.server.close()

    def ask(self, what: Callable[[Standfast], Awaitable[T]]) -> T:
        """Run something on the queue, beside the server."""

        async def asked() -> T:
            return await what(self.sf)

        return asyncio.run_coroutine_threadsafe(asked(), self._loop).result(60)

    def token(self, name: str, role: str, **more: Any) -> str:
        """Make a token; the person has the token's name."""
        return str(self.ask(lambda sf: sf.tokens.create(name, person=name, role=role, **more))["token"])

    def link(self, name: str, role: str, **more: Any) -> str:
        """Make a token, and give the address that signs one browser in with it."""
        made = self.ask(lambda sf: sf.tokens.create(name, person=name, role=role, **more))
        return f"{self.url}/sign-in?code={self.server.gate.link(made['id'])}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._open.wait(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self.server.shutdown.begin)
        self._serving.should_exit = True
        self._thread.join(30)
        self._socket.close()
