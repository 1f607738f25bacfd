"""The command that serves: REST, dashboard and a worker in one process."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from standfast import settings
from standfast.application import Standfast
from standfast.cli import logs
from standfast.cli.applications import application
from standfast.cli.group import shared
from standfast.cli.worker_command import for_suspects
from standfast.errors import ConfigurationError
from standfast.portable import forget_signal, on_signal
from standfast.spine.accept import user
from standfast.wings.ingest.verbs import check

if TYPE_CHECKING:
    from standfast.server.app import Server

FIRST = "first"
"""The name of the token that the first `serve` makes."""
LAST_WORD = 2
"""Seconds that open connections, live views above all, are given when the server is told to stop; then the jobs."""
AT_ONCE = 64
"""Connections that are taken in at once, before the first of them is looked at."""
ROUNDS = 4
"""Rounds of the loop until a connection that was replaced is closed: `AT_ONCE` more are open in each of them.

A process that runs out of files meanwhile is worse off than one that takes fewer in: for every connection it cannot
accept, asyncio logs a traceback.
"""
WAITING = 2048
"""Connections that the kernel keeps until they are taken in; beyond that it has callers try again after seconds."""
FEWEST = 16
OWN_FILES = 256
"""Files that the store, the worker and its jobs may have open beside the server's connections."""
LOOK_FOR_GARBAGE = 5_000
"""New objects after which the server looks for garbage among them; Python itself does so after 700."""
ENDING = (signal.SIGTERM, signal.SIGINT)
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - what was asked for
"""Hosts that stand for every address, and the one at which a browser here finds it."""
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
    asyncio.run(_serve(sf, Server(sf, hosts=(host,)), host, port, suspects))


async def _serve(sf: Standfast, server: Server, host: str, port: int, suspects: Sequence[str] | None) -> None:
    """Serve until signalled. With a command that runs suspects, work too."""
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
        await serving.serve([listening])


def _room(connections: int) -> int:
    """Give how many connections there is room for among the files this process may open; raise that as far as it goes.

    A server that runs out of them could not open the store's files either, nor run its jobs.
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
    """A socket for many callers: asyncio would have the kernel keep no more than it takes in at once."""

    def listen(self, _at_once: int = WAITING, /) -> None:
        """Have the kernel keep those that come in the meantime."""
        super().listen(WAITING)


def _listening(host: str, port: int) -> Listener:
    """Bind the address before anything else starts, so that it can be used as soon as it is announced."""
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
    """Give the address that a browser here can use; one that stands for every address leads to none."""
    name = EVERYWHERE.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def _settle_down() -> None:
    """Look for garbage among what requests leave, not among all that was loaded: every look held up every answer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(LOOK_FOR_GARBAGE)


@contextmanager
def _ending(stop: Callable[[int, None], None]) -> Iterator[None]:
    """Have signals end the serving and no more: uvicorn's own way ends the process before its jobs are given back."""
    for each in ENDING:
        on_signal(each, stop, each, None)
    yield
    for each in ENDING:
        forget_signal(each)


async def _greet(sf: Standfast, server: Server, address: str) -> None:
    """Say where it is, and let the first browser in."""
    token = None if await sf.tokens.list() else await _first_token(sf)
    if token is None:
        click.echo(f"standfast: serving at {address}", err=True)
        return
    click.echo(f"standfast: serving at {address}; sign in once with this link:", err=True)
    click.echo(f"{address}/sign-in?code={server.gate.link(token)}", err=True)


async def _first_token(sf: Standfast) -> str | None:
    """Make the first token, and give its id; None where a server that began at the same moment made it."""
    try:
        return str((await sf.tokens.create(FIRST, person=user(), role="admin"))["id"])
    except ConfigurationError:
        if not await sf.tokens.list():
            raise
        return None
