"""The command that moves a store to PostgreSQL while it is in use."""

from __future__ import annotations

from typing import Any

import click

from standfast.cli.group import shared
from standfast.cli.parameters import duration
from standfast.cli.progress_bar import bar
from standfast.cli.terminal import show_json, show_line
from standfast.errors import ConfigurationError
from standfast.wings.records.figures import count_of, span


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--wait", type=duration, default=60, show_default=True, help="Seconds that running jobs may take to end.")
@shared
def promote(*, source: str, target: str, wait: float, url: str | None, as_json: bool) -> None:
    """Move a store from a file to PostgreSQL while it is in use.

    Producers and workers continue while everything is copied. Then nothing starts for a moment, the rest is copied
    and compared, and the file records where the store has gone. If this is interrupted, run the same command again.
    """
    if url is not None:
        raise ConfigurationError("promote takes both stores as arguments: standfast promote FROM TO")
    from standfast.wings.promote import verbs as promotions  # noqa: PLC0415 - loaded only when asked for

    with bar("copied") as seen:
        account = promotions.promote(source, target, wait=wait, progress=seen)
    _tell(account, as_json=as_json)


def _tell(account: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(account)
        return
    show_line(
        f"moved to {account['to']}: {count_of(account['jobs'], 'job')}, {count_of(account['keys'], 'key')}, compared"
    )
    for state, found in account["states"].items():
        show_line(f"  {state}: {count_of(found['jobs'], 'job')}, sha256 {found['sha256'][:16]}")
    show_line(f"nothing was accepted or started for {span(account['frozen'])}; use the new URL from now on")
