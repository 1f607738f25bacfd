"""The `mcp` command, which agents start: an MCP server over standard input and output."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click

from standfast.application import Standfast
from standfast.cli import logs
from standfast.cli.applications import application
from standfast.cli.group import shared
from standfast.cli.version import version
from standfast.errors import ConfigurationError
from standfast.portable import on_signal

if TYPE_CHECKING:
    from standfast.mcp.agent_identity import Identity
    from standfast.mcp.agent_server import AgentServer

LAST_WORD = 1.0
"""Seconds that a stopping server gives to the queued jobs it runs.

Clients send SIGTERM two seconds after they hang up, and SIGKILL two seconds later: by then every job is given back.
"""


@click.command()
@click.argument("app", metavar="[APP:SF]", required=False)
@click.option(
    "--session",
    envvar="STANDFAST_SESSION",
    help="The agent's session: its inbox and its work. Under the same name it finds them again.",
)
@click.option("--worker/--no-worker", default=True, show_default=True, help="Run queued jobs in this process too.")
@shared
def mcp(*, app: str | None, session: str | None, worker: bool, url: str | None, as_json: bool) -> None:
    """Serve agents over MCP, on standard input and output.

    APP:SF names the application whose handlers are called here, as for `standfast worker`. Without a session's name,
    every start is a new session. Put the whole line into your client's configuration as the command.
    """
    try:
        from standfast.mcp.agent_identity import identity  # noqa: PLC0415
        from standfast.mcp.agent_server import agent_server  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        raise ConfigurationError("the MCP server needs an extra: pip install 'standfast[mcp]'") from error
    sf = application(app, url)
    logs.start(sf.settings.log.value, as_json=as_json, level=sf.settings.log_level.value)
    who = identity(session)
    served = agent_server(sf, who, version=version())
    asyncio.run(_serve(sf, served, who, worker=worker))


async def _serve(sf: Standfast, served: AgentServer, who: Identity, *, worker: bool) -> None:
    """Serve until the client hangs up or a signal arrives; running jobs are finished or given back."""
    task = asyncio.current_task()
    for each in (signal.SIGTERM, signal.SIGINT):
        on_signal(each, _stop, task)
    click.echo(f"standfast: serving MCP as session {who.session}", err=True)
    try:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(sf)
            if worker:
                await stack.enter_async_context(sf.worker(grace=LAST_WORD))
            try:
                await _serve_client(served)
            except asyncio.CancelledError:
                if task is None or not task.uncancel():
                    click.echo("standfast: stopping", err=True)
            await served.agent.finish()
    except asyncio.CancelledError:  # stopped while calls were still finishing for a client that had hung up
        click.echo("standfast: stopping; what still ran is given back", err=True)


async def _serve_client(served: AgentServer) -> None:
    """Serve until the client hangs up. A killed client reads no answers: that counts as hanging up, too."""
    try:
        await served.run_stdio_async()
    except* BrokenPipeError:
        click.echo("standfast: the client is gone", err=True)


def _stop(task: asyncio.Task[Any] | None) -> None:
    """Stop serving; a second signal exits at once."""
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(each)
        signal.signal(each, lambda number, _frame: os._exit(128 + number))
    if task is not None:
        task.cancel()
