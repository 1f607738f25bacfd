"""The command about alerts: alerts list."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from standfast.cli.group import DONE, FAILED, look, shared
from standfast.cli.terminal import Cell, Table, show, show_json, show_line
from standfast.cli.words import ago, now

COLUMNS = ("alert", "queue", "started", "what", "next")


@click.group()
def alerts() -> None:
    """List open alerts."""


@alerts.command("list")
@shared
def list_alerts(*, url: str | None, as_json: bool) -> None:
    """List open alerts, the most harmful first. Exits 1 if there are any."""
    found = look(url, lambda sf: sf.alerts.list())
    if as_json:
        show_json({"items": found})
    elif found:
        show(Table([_row(each) for each in found], COLUMNS))
    else:
        show_line("no open alerts", "green")
    raise click.exceptions.Exit(FAILED if found else DONE)


def _row(alert: dict[str, Any]) -> list[str | Cell]:
    kind = Cell(alert["kind"], "dim" if alert["clearing"] else "bold red")
    started = ago(datetime.fromisoformat(alert["since"]), now())
    return [kind, alert["queue"] or "", started, alert["message"], alert["advice"]]
