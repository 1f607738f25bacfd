"""Commands that copy a store: backup, restore."""

from __future__ import annotations

import os
from typing import Any

import click

from standfast import settings
from standfast.application import store_at
from standfast.cli.group import look, shared
from standfast.cli.terminal import show_json, show_line
from standfast.cli.words import counted


@click.command()
@click.argument("file", type=click.Path())
@shared
def backup(*, file: str, url: str | None, as_json: bool) -> None:
    """Copy the store to a new file, verified, while work goes on."""
    told = look(url, lambda sf: sf.backup(file))
    _tell(told, f"backed up to {told['path']}", as_json=as_json)


@click.command()
@click.argument("file", type=click.Path())
@click.option("--run", is_flag=True, help="Run again what was queued or running, without holding it first.")
@shared
def restore(*, file: str, run: bool, url: str | None, as_json: bool) -> None:
    """Make a store of a backup; an existing one is never overwritten.

    What was queued or running when the backup was made may have run since: it comes back held, unless --run is given.
    """
    from standfast.wings.backup import verbs as backups  # noqa: PLC0415 - loaded only when asked for

    told = backups.restore(settings.load(url, os.environ).url.value, file, store_at, run=run)
    told["path"] = settings.without_password(told["path"])
    held = f" ({told['held']} held: look with standfast dead list)" if told["held"] else ""
    _tell(told, f"restored to {told['path']}", held, as_json=as_json)


def _tell(told: dict[str, Any], what: str, held: str = "", *, as_json: bool) -> None:
    if as_json:
        show_json(told)
    else:
        show_line(f"{what}: {counted(told['jobs'], 'job')}{held}, {counted(told['keys'], 'key')}")
