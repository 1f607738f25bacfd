"""Commands about queues: queue list, queue pause, queue resume."""

from __future__ import annotations

import click

from standfast.cli.group import look, shared
from standfast.cli.terminal import show, show_json, show_line
from standfast.wings.queues.boards import queue_board


@click.group()
def queue() -> None:
    """List, pause and resume queues."""


@queue.command("list")
@shared
def list_queues(*, url: str | None, as_json: bool) -> None:
    """List every queue: what it holds, who serves it, and the rules in force."""
    found = look(url, lambda sf: sf.queues.describe())
    if as_json:
        show_json({"items": [{"name": name, **facts} for name, facts in found.items()]})
    else:
        show(queue_board(found))


@queue.command()
@click.argument("name")
@shared
def pause(*, name: str, url: str | None, as_json: bool) -> None:
    """Pause a queue in every process; running jobs finish."""
    look(url, lambda sf: sf.queues.pause(name))
    _tell(name, as_json=as_json, paused=True)


@queue.command()
@click.argument("name")
@shared
def resume(*, name: str, url: str | None, as_json: bool) -> None:
    """Resume a paused queue."""
    look(url, lambda sf: sf.queues.resume(name))
    _tell(name, as_json=as_json, paused=False)


def _tell(name: str, *, as_json: bool, paused: bool) -> None:
    if as_json:
        show_json({"name": name, "paused": paused})
    else:
        show_line(f"{name} is paused" if paused else f"{name} goes on")
