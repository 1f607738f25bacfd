"""The command about a session's messages: inbox."""

from __future__ import annotations

from typing import Any

import click

from standfast.application import Standfast
from standfast.cli.group import look, shared
from standfast.cli.terminal import Cell, Table, show, show_json, show_line
from standfast.cli.words import ago, now
from standfast.wings.sessions.words import QUIET

COLUMNS = ("id", "kind", "when", "job", "what", "next")


@click.command()
@click.argument("session")
@click.option("--all", "every", is_flag=True, help="Those that were read too.")
@click.option("--ack", metavar="ID", help="Acknowledge this message first.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="How many at most.")
@shared
def inbox(*, session: str, every: bool, ack: str | None, limit: int, url: str | None, as_json: bool) -> None:
    """List the messages of a session about its jobs, newest first. Listing a success marks it as read."""

    async def listed(sf: Standfast) -> list[dict[str, Any]]:
        if ack is not None:
            await sf.inbox.ack(ack, session=session)
        return await sf.inbox.list(session, unread=not every, limit=limit)

    found = look(url, listed)
    if as_json:
        show_json({"items": found})
    elif found:
        show(Table([_row(each) for each in found], COLUMNS))
    else:
        show_line("no messages" if every else "no unread messages")


def _row(message: dict[str, Any]) -> list[str | Cell]:
    style = "dim" if message["read"] else "green" if message["kind"] in QUIET else "bold red"
    when = ago(message["at"], now())
    cells = [message["job_id"], message["message"], message["hint"]]
    return [message["id"], Cell(message["kind"], style), when, *cells]
