"""The `serve` command: REST, dashboard and a worker in one process."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from standfast import settings
from standfast.application import Standfast
from standfast.cli import logs
from standfast.cli.applications import application
from standfast.cli.group import MOVED, shared
from standfast.cli.worker_command import for_suspects
from standfast.concurrency.loops import Loop
from standfast.errors import ConfigurationError, StoreMoved, StoreUnavailable
from standfast.portable import forget_signal, on_signal
from standfast.spine.accept import user
from standfast.wings.alerts.surfaces import QUEUE
from standfast.wings.ingest.verbs import check
from standfast.worker.moved_store import MovedStore

if TYPE_CHECKING:
    from standfast.server.app import Server

log = logging.getLogger("standfast.server")

FIRST = "first"
"""The name of the token that the first `serve` creates."""
LAST_WORD = 2
"""Seconds that a stopping server gives to open connections, mainly live views; then the jobs get as many."""
AT_ONCE = 64
"""Connections that asyncio accepts in one go, before it handles the first of them."""
ROUNDS = 4
"""Rounds of the event loop until a replaced connection is closed: `AT_ONCE` more may open in each of them.

Running out of files meanwhile is worse than accepting fewer connections: asyncio logs a traceback for every
connection that it cannot accept.
"""
WAITING = 2048
"""Connections that the kernel queues until they are accepted; beyond that, callers retry after seconds."""
FEWEST = 16
OWN_FILES = 256
"""Files that the store, the worker and its jobs may have open besides the server's connections."""
LOOK_FOR_GARBAGE = 5_000
"""New objects after which the server's garbage collector runs; Python's default is 700."""
LOOK_AT_STORE = 2.0
"""Seconds between two looks whether the store has moved."""
ENDING = (signal.SIGTERM, signal.SIGINT)
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - the user asked for it
"""Hosts that stand for every address, and the address at which a local browser reaches each."""
AT_OTHER_NAMES = "it listens at every address; the names it is asked by from elsewhere go into [server] hosts"


@click.command()
@click.argument("app", metavar="[APP:SF]", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="The port; 0 for any free one."
)
@click.option("--worker/--no-worker", default=True, show_default=True, help="Run jobs in this process too.")
@shared
def serve(*, app: str | None, host: str, port: int, worker: bool, url: str | None, as_json: bool) -> None:
    """Serve REST and the dashboard, and run jobs. The first start prints a link that signs your browser in.

    SIGTERM or Ctrl-C shuts down: running jobs finish or are given back.
    """
    try:
        from standfast.server.app import Server  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        if error.name not in {"starlette", "uvicorn", "httptools"}:
            raise
        raise ConfigurationError("the server needs an extra: pip install 'standfast[server]'") from error
    with logs.kept_while_importing(settings.load(None, os.environ).log_level.value) as early:
        sf = application(app, url)
    check(sf)
    logs.start(sf.settings.log.value, as_json=as_json, level=sf.settings.log_level.value)
    early.write()
    suspects = for_suspects(app, url) if worker else None
    if asyncio.run(_serve(sf, Server(sf, hosts=(host,)), host, port, suspects)):
        sys.exit(MOVED)


async def _serve(sf: Standfast, server: Server, host: str, port: int, suspects: Sequence[str] | None) -> bool:
    """Serve until signalled, or until the store has moved; return whether it has.

    If given a command that runs suspects, run jobs too.
    """
    import uvicorn  # noqa: PLC0415 - an extra

    from standfast.server.connections import Connections  # noqa: PLC0415 - likewise
    from standfast.server.wire import Wire  # noqa: PLC0415 - likewise

    config = uvicorn.Config(
        server.app,
        host,
        port,
        http=Wire.limited(Connections(_room(sf.settings.connections), sf.settings.connections_per_address)),
        ws="none",
        backlog=AT_ONCE,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=LAST_WORD,
        server_header=False,
    )
    serving = uvicorn.Server(config)

    def stop(number: int, _: None) -> None:
        server.shutdown.begin()
        serving.handle_exit(number, None)

    serving.capture_signals = lambda: _ending(stop)  # type: ignore[method-assign]
    moved = MovedStore()
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(_listening(host, port))
        await stack.enter_async_context(sf)
        stack.push_async_callback(server.close)
        working = sf.alerting() if suspects is None else sf.worker(grace=LAST_WORD, suspects=suspects)
        await stack.enter_async_context(working)
        _settle_down()
        await _greet(sf, server, address_of(host, listening.getsockname()[1]))
        if host in EVERYWHERE and "*" not in sf.settings.hosts:
            click.echo(f"standfast: {AT_OTHER_NAMES}", err=True)
        _stop_when_moved(stack, sf, moved, partial(stop, signal.SIGTERM, None))
        await serving.serve([listening])
    return moved.to is not None


def _stop_when_moved(stack: AsyncExitStack, sf: Standfast, moved: MovedStore, stop: Callable[[], None]) -> None:
    """Look at the store until the stack ends, and stop the server once the store has moved."""
    looking = Loop("look at the store", LOOK_AT_STORE, moved.watched(partial(_look, sf)))
    looking.start()
    stack.push_async_callback(looking.stop)
    ending = asyncio.create_task(moved.came())
    ending.add_done_callback(lambda came: None if came.cancelled() else stop())
    stack.callback(ending.cancel)


async def _look(sf: Standfast) -> None:
    """Read something, which fails once the store has moved; that it is away is said elsewhere."""
    try:
        await sf.queues.published(QUEUE)
    except StoreMoved:
        raise
    except StoreUnavailable as error:
        log.debug("the store does not answer: %s", error)


def _room(connections: int) -> int:
    """Return how many connections fit among the files this process may open, after raising that limit if possible.

    A server that runs out of files could neither open the store's files nor run its jobs.
    """
    wanted = connections + ROUNDS * AT_ONCE + OWN_FILES
    try:
        import resource  # noqa: PLC0415 - Windows has no such limit
    except ImportError:
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    room = max(FEWEST, soft - ROUNDS * AT_ONCE - OWN_FILES)
    click.echo(
        f"standfast: this process may open {soft} files, so that it keeps {room} connections open and not "
        f"{connections}; raise its limit (ulimit -n) to {wanted}",
        err=True,
    )
    return room


class Listener(socket.socket):
    """A socket for many callers: by default asyncio sets the kernel's queue no longer than it accepts in one go."""

    def listen(self, _at_once: int = WAITING, /) -> None:
        """Let the kernel queue connections that arrive in the meantime."""
        super().listen(WAITING)


def _listening(host: str, port: int) -> Listener:
    """Bind the address before anything else starts, so that it is usable as soon as it is announced."""
    taken = Listener(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
        taken.listen()
    except OSError as error:
        taken.close()
        why = f"cannot listen at {host}, port {port}: {error.strerror or error}"
        raise ConfigurationError(f"{why}; name another with --port, or end what listens there") from error
    return taken


def address_of(host: str, port: int) -> str:
    """Return an address that a local browser can use; a host that stands for every address leads nowhere."""
    name = EVERYWHERE.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def _settle_down() -> None:
    """Restrict garbage collection to new objects: scanning everything loaded held up every answer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(LOOK_FOR_GARBAGE)


@contextmanager
def _ending(stop: Callable[[int, None], None]) -> Iterator[None]:
    """Let signals end only the serving: uvicorn's own way ends the process before its jobs are given back."""
    for each in ENDING:
        on_signal(each, stop, each, None)
    yield
    for each in ENDING:
        forget_signal(each)


async def _greet(sf: Standfast, server: Server, address: str) -> None:
    """Print the address, and a link to sign in if there is no token yet."""
    token = None if await sf.tokens.list() else await _first_token(sf)
    if token is None:
        click.echo(f"standfast: serving at {address}", err=True)
        return
    click.echo(f"standfast: serving at {address}; sign in once with this link:", err=True)
    click.echo(f"{address}/sign-in?code={server.gate.link(token)}", err=True)


async def _first_token(sf: Standfast) -> str | None:
    """Create the first token and return its id; None if a server that started at the same moment created it."""
    try:
        return str((await sf.tokens.create(FIRST, person=user(), role="admin"))["id"])
    except ConfigurationError:
        if not await sf.tokens.list():
            raise
        return None
