"""MCP over HTTP: every token is a connection of its own, with its own session and rights."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from standfast.application import Standfast
from standfast.mcp.agent_identity import of_token
from standfast.mcp.agent_server import AgentServer, agent_server
from standfast.wings.access.words import Grant

CHECKED = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""The server's front checks host and origin, for all paths alike."""
MOST = 200
"""Tokens whose connections are kept; beyond that, all of them are closed and reopened as needed."""


class Connection:
    """Serves the calls of one token, from its first to its last."""

    def __init__(self, served: AgentServer) -> None:
        self._agent = served.agent
        self._manager: StreamableHTTPSessionManager = served.session_manager
        self._open = asyncio.Event()
        self._over = asyncio.Event()
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        """Hold the connection open in one task: what it starts must end in the same task."""
        async with self._manager.run():
            self._open.set()
            await self._over.wait()

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._open.wait()
        await self._manager.handle_request(scope, receive, send)

    async def close(self) -> None:
        """Close the connection."""
        self._over.set()
        await asyncio.wait([self._keeping])
        await self._agent.finish()


class Desk:
    """An ASGI endpoint. `granted` returns the grant of a request, or answers the request itself."""

    def __init__(
        self, sf: Standfast, granted: Callable[[Scope, Receive, Send], Awaitable[Grant | None]], *, version: str
    ) -> None:
        self._sf = sf
        self._granted = granted
        self._version = version
        self._connections: dict[Grant, Connection] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request as its token's own."""
        grant = await self._granted(scope, receive, send)
        if grant is not None:
            await (await self._connection_of(grant)).serve(scope, receive, send)

    async def _connection_of(self, grant: Grant) -> Connection:
        if grant not in self._connections:
            if len(self._connections) >= MOST:
                await self.close()
            served = agent_server(self._sf, of_token(grant), version=self._version)
            served.streamable_http_app(stateless_http=True, json_response=True, transport_security=CHECKED)
            self._connections[grant] = Connection(served)
        return self._connections[grant]

    async def close(self) -> None:
        """Close all connections."""
        gone, self._connections = self._connections, {}
        for connection in gone.values():
            await connection.close()
