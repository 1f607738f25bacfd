"""Commands that copy a store: backup, restore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from standfast import settings
from standfast.application import store_at
from standfast.cli.applications import settings_for
from standfast.cli.group import look, shared, store_words
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
@click.option("--revoke-tokens", is_flag=True, help="Revoke every token of the backup.")
@shared
def restore(*, file: str, run: bool, revoke_tokens: bool, url: str | None, as_json: bool) -> None:
    """Restore a backup to a new store; an existing one is never overwritten.

    Jobs that were queued or running in the backup may have run since: they come back held, unless you give --run.
    Automatic replays may have run too: they are taken back, and their letters wait for a person. Redrives are paused.
    Tokens and consents that were revoked since the backup are valid again; the command says how many are valid.
    """
    from standfast.wings.backup import verbs as backups  # noqa: PLC0415 - loaded only when asked for

    report = backups.restore(settings_for(url).url.value, file, store_at, run=run, revoke_tokens=revoke_tokens)
    report["path"] = settings.without_password(report["path"])
    held = f" ({number(report['held'])} held: look with standfast dead list)" if report["held"] else ""
    _report(report, f"restored to {report['path']}", held, as_json=as_json)
    if not as_json:
        for line in _left_to_do(report, store_words()):
            show_line(line)


def _left_to_do(report: dict[str, Any], store: str) -> Iterator[str]:
    """Say what a person has to look at after a restore, and with which commands."""
    if report["replays_taken_back"]:
        taken_back = count_of(report["replays_taken_back"], "automatic replay")
        yield f"{taken_back} taken back: look with standfast dead list{store}"
    if report["revoked_tokens"]:
        yield f"{count_of(report['revoked_tokens'], 'token')} revoked: make new ones with standfast token create{store}"
    since = "even if revoked since the backup"
    if report["valid_tokens"]:
        valid = f"{count_of(report['valid_tokens'], 'token')} valid again, {since}"
        yield f"{valid}: standfast token list{store}, then standfast token revoke NAME{store}; or use --revoke-tokens"
    if report["valid_consents"]:
        valid = f"{count_of(report['valid_consents'], 'consent')} in force again, {since}"
        yield f"{valid}: standfast consent list{store}, then standfast consent revoke SESSION{store}"


def _report(report: dict[str, Any], what: str, held: str = "", *, as_json: bool) -> None:
    if as_json:
        show_json(report)
    else:
        show_line(f"{what}: {count_of(report['jobs'], 'job')}{held}, {count_of(report['keys'], 'key')}")
