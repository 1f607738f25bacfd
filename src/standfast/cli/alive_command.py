"""The `alive` command tells a supervisor whether a worker is alive, by the file that the worker touches."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from standfast.cli.parameters import duration
from standfast.worker.alive_file import WITHIN, why_not_alive


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--within", type=duration, default=WITHIN, show_default=True, help="How old its last touch may be.")
def alive(*, file: Path, within: float) -> None:
    """Tell whether a worker is alive by the FILE of its --alive: exit code 0 if it is, 1 if not.

    It opens no store. A worker touches its file every two seconds, unless its event loop or its claims are stuck.
    """
    why = why_not_alive(file, within)
    if why is not None:
        click.echo(f"standfast: {why}", err=True)
        sys.exit(1)
