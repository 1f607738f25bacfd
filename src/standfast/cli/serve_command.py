"""The command that serves: REST, dashboard and a worker in one process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from standfast.application import Standfast
from standfast.cli import logs
from standfast.cli.door import shared
from standfast.cli.worker_command import application
from standfast.errors import ConfigurationError
from standfast.ingest import check
from standfast.queue.accept import user

if TYPE_CHECKING:
    from standfast.server import Server

FIRST = "first"
"""The name of the token that the first `serve` makes."""
LAST_WORD = 2
"""Seconds that open connections, live views above all, are given when the server is told to stop; then the jobs."""
ENDING = (signal.SIGTERM, signal.SIGINT)


@click.command()
@click.argument("app", metavar="[APP:SF]", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 for any free one.")
@click.option("--worker/--no-worker", default=True, show_default=True, help="Run jobs in this process too.")
@shared
def serve(*, app: str | None, host: str, port: int, worker: bool, url: str | None, as_json: bool) -> None:
    """Serve REST and the dashboard, and run jobs. The first start prints a link that signs your browser in.

    SIGTERM or Ctrl-C ends it: what runs is finished or given back.
    """
    try:
        from standfast.server import Server  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        if error.name not in {"starlette", "uvicorn"}:
            raise
        raise ConfigurationError("the server needs an extra: pip install 'standfast[server]'") from error
    sf = application(app, url)
    check(sf)
    logs.start(sf.settings.log.value, as_json=as_json)
    asyncio.run(_serve(sf, Server(sf, hosts=(host,)), host, port, worker=worker))


async def _serve(sf: Standfast, server: Server, host: str, port: int, *, worker: bool) -> None:
    import uvicorn  # noqa: PLC0415 - an extra

    config = uvicorn.Config(
        server.app,
        host,
        port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=LAST_WORD,
        server_header=False,
    )
    serving = uvicorn.Server(config)
    serving.capture_signals = lambda: _ending(serving.handle_exit)  # type: ignore[method-assign]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(sf)
        stack.push_async_callback(server.close)
        if worker:
            await stack.enter_async_context(sf.worker(grace=LAST_WORD))
        with config.bind_socket() as socket:
            socket.listen(config.backlog)  # whoever is told the address may use it at once
            await _greet(sf, server, f"http://{host}:{socket.getsockname()[1]}")
            await serving.serve([socket])


@contextmanager
def _ending(stop: Callable[[int, None], None]) -> Iterator[None]:
    """Have signals end the serving and no more: uvicorn's own way ends the process before its jobs are given back."""
    loop = asyncio.get_running_loop()
    for each in ENDING:
        loop.add_signal_handler(each, stop, each, None)
    yield
    for each in ENDING:
        loop.remove_signal_handler(each)


async def _greet(sf: Standfast, server: Server, address: str) -> None:
    """Say where it is, and let the first browser in."""
    if await sf.tokens.list():
        click.echo(f"standfast: serving at {address}", err=True)
        return
    made = await sf.tokens.create(FIRST, person=user(), role="admin")
    click.echo(f"standfast: serving at {address}; sign in once with this link:", err=True)
    click.echo(f"{address}/sign-in?code={server.gate.link(made['token'])}", err=True)
