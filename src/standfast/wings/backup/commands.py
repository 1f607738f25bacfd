"""Commands that copy a store: backup, restore."""

from __future__ import annotations

from typing import Any

import click

from standfast import settings
from standfast.application import store_at
from standfast.cli.applications import settings_for
from standfast.cli.group import look, shared
from standfast.cli.terminal import show_json, show_line
from standfast.wings.records.figures import count_of, number


@click.command()
@click.argument("file", type=click.Path())
@shared
def backup(*, file: str, url: str | None, as_json: bool) -> None:
    """Copy the store to a new file while work continues, and verify the copy."""
    report = look(url, lambda sf: sf.backup(file))
    _report(report, f"backed up to {report['path']}", as_json=as_json)


@click.command()
@click.argument("file", type=click.Path())
@click.option("--run", is_flag=True, help="Run these jobs again instead of holding them.")
@shared
def restore(*, file: str, run: bool, url: str | None, as_json: bool) -> None:
    """Restore a backup to a new store; an existing one is never overwritten.

    Jobs that were queued or running in the backup may have run since: they come back held, unless you give --run.
    Automatic replays may have run too: they are taken back, and their letters wait for a person. Redrives are paused.
    """
    from standfast.wings.backup import verbs as backups  # noqa: PLC0415 - loaded only when asked for

    report = backups.restore(settings_for(url).url.value, file, store_at, run=run)
    report["path"] = settings.without_password(report["path"])
    held = f" ({number(report['held'])} held: look with standfast dead list)" if report["held"] else ""
    _report(report, f"restored to {report['path']}", held, as_json=as_json)
    if not as_json and report["replays_taken_back"]:
        taken_back = count_of(report["replays_taken_back"], "automatic replay")
        show_line(f"{taken_back} taken back: look with standfast dead list")


def _report(report: dict[str, Any], what: str, held: str = "", *, as_json: bool) -> None:
    if as_json:
        show_json(report)
    else:
        show_line(f"{what}: {count_of(report['jobs'], 'job')}{held}, {count_of(report['keys'], 'key')}")
