"""standfast in a FastAPI or Starlette application that is there already.

`mount(app, sf)` gives it the API, the dashboard and a worker; `lifespan(sf)` a queue that is open while it runs, and no
routes; `current` is the dependency that gives the queue to a route; `answer_errors(app)` answers errors of standfast
with the status that the API gives them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from standfast.application import Standfast
from standfast.errors import ConfigurationError, StandfastError
from standfast.wings.access.words import Grant, Role
from standfast.wings.ingest.verbs import check

try:
    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import Response

    from standfast.server.app import Server
    from standfast.server.auth import HostAuth
    from standfast.server.problems import of_error
except ModuleNotFoundError as error:
    needed = f"standfast.fastapi needs {error.name}; run: pip install 'standfast[server]'"
    raise ModuleNotFoundError(needed, name=error.name) from None

__all__ = ["answer_errors", "current", "grant", "lifespan", "mount"]

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def current(connection: HTTPConnection) -> Standfast:
    """Give the queue of the application that a request came to: `sf: Annotated[Standfast, Depends(current)]`.

    Starlette's routes call it themselves: `current(request)`.
    """
    found = getattr(connection.app.state, "standfast", None)
    if not isinstance(found, Standfast):
        raise ConfigurationError(
            "this application has no queue that is open: give it one with mount(app, sf), or with "
            "FastAPI(lifespan=lifespan(sf))"
        )
    return found


def answer_errors(app: Starlette) -> None:
    """Answer a StandfastError that a route of yours raises with a problem document, as the API does, and not with 500.

    A full queue is 429, a store that is away 503, a payload that does not fit or a key that is taken 422. A handler of
    yours for one of these errors comes first.
    """
    app.add_exception_handler(StandfastError, _problem)


def _problem(_request: Request, error: Exception) -> Response:
    if not isinstance(error, StandfastError):
        raise error
    return of_error(error).response()


def lifespan(sf: Standfast, inner: Lifespan | None = None, *, worker: bool = True) -> Lifespan:
    """Give a lifespan in which the queue is open, and a worker runs: `FastAPI(lifespan=lifespan(sf))`.

    `inner` is the lifespan that the application has already; it begins once the queue is open, and ends before the
    queue is closed. `worker=False` leaves the jobs to workers elsewhere.
    """

    @asynccontextmanager
    async def open_queue(app: Any) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(sf)
            if worker:
                await stack.enter_async_context(sf.worker())
            app.state.standfast = sf
            yield None if inner is None else await stack.enter_async_context(inner(app))

    return open_queue


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
    app.state.standfast = sf
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def serving(running: Any) -> AsyncIterator[Any]:
        async with _working(sf, server, worker=worker), outer(running) as state:
            yield state

    app.router.lifespan_context = serving
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
