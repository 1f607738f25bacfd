"""Into an application that is there already: `mount(app, sf)` gives a FastAPI or Starlette one the API and a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from starlette.applications import Starlette

from standfast.application import Standfast
from standfast.errors import ConfigurationError
from standfast.server.app import Server
from standfast.server.auth import HostAuth
from standfast.wings.access.words import Grant, Role
from standfast.wings.ingest.verbs import check

__all__ = ["grant", "mount"]


def mount(
    app: Starlette,
    sf: Standfast,
    prefix: str = "/standfast",
    auth: HostAuth | None = None,
    *,
    worker: bool = True,
    hosts: Sequence[str] = ("*",),
) -> Server:
    """Serve the API under a prefix; the queue is open, and a worker runs, as long as the application does.

    `auth(request)` says who asks, by the application's own means: a `grant(…)`, or None for nobody. A standfast token
    counts too. Which hosts the application answers to is its own affair, unless `hosts` names them.
    """
    if not prefix.startswith("/") or prefix.endswith("/"):
        raise ConfigurationError(f"prefix must begin with / and not end with it, such as '/standfast', not {prefix!r}")
    server = Server(sf, hosts=tuple(hosts), auth=auth)
    app.mount(prefix, server.app)
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(running: Any) -> AsyncIterator[Any]:
        async with _working(sf, server, worker=worker), outer(running) as state:
            yield state

    app.router.lifespan_context = lifespan
    return server


@asynccontextmanager
async def _working(sf: Standfast, server: Server, *, worker: bool) -> AsyncIterator[None]:
    check(sf)
    server.shutdown.reset()
    async with AsyncExitStack() as stack:
        stack.enter_context(server.shutdown.on_signals())
        await stack.enter_async_context(sf)
        stack.push_async_callback(server.close)
        await stack.enter_async_context(sf.worker() if worker else sf.alerting())
        yield


def grant(
    person: str,
    role: str,
    *,
    groups: Sequence[str] = (),
    queues: Sequence[str] | None = None,
    sessions: Sequence[str] = (),
) -> Grant:
    """Say what a person of your application may do here; with `sessions`, what an agent may, and in which sessions."""
    try:
        allowed = Role(role)
    except ValueError as error:
        raise ConfigurationError.unknown("role", role, [str(each) for each in Role]) from error
    scope = None if queues is None else tuple(queues)
    about = {"groups": tuple(groups), "queues": scope, "sessions": tuple(sessions)}
    return Grant(id=person, name=person, person=person, role=allowed, host=True, **about)  # type: ignore[arg-type]
