"""Commands about this installation and its store: migrate, config, bench."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from standfast import settings
from standfast.application.usual_spool import usual_spool
from standfast.cli.applications import settings_for
from standfast.cli.group import NoStore, ask, error_line, look, shared
from standfast.cli.terminal import Table, as_text, show, show_json, show_line
from standfast.errors import StandfastError
from standfast.redact import redacted
from standfast.settings import Setting, Settings

PARTS = ("queues", "commands", "ingest", "notify")
"""The tables of the settings file that contain tables themselves."""


@click.command()
@shared
def migrate(*, url: str | None, as_json: bool) -> None:
    """Migrate the store's schema to this version.

    Every process that opens a store does the same.
    """
    before, after = ask(url, lambda sf: sf.migrate())
    if as_json:
        show_json({"from": before, "to": after})
    else:
        show_line(f"schema {before} → {after}" + (" (nothing to do)" if before == after else ""))


@click.command()
@shared
def config(*, url: str | None, as_json: bool) -> None:
    """Show every setting of this directory and where it comes from; secrets are hidden.

    Of a queue, only the rules in the settings file are shown, and of what other processes published, only the default
    of `replay`, where the file names none: the rules in force are in `standfast queue list --json`.
    """
    tree = _effective(settings_for(url))
    if tree["settings"]["replay"].source == "default":
        tree["settings"]["replay"] = _published_replay(url) or tree["settings"]["replay"]
    if as_json:
        show_json(tree)
        return
    tables = {f"{part}.{name}.": rules for part in PARTS for name, rules in tree[part].items()}
    groups = {"": tree["settings"], **tables}
    rows = [
        (f"{prefix}{name}", it.source, as_text(it.value))
        for prefix, group in groups.items()
        for name, it in group.items()
    ]
    show(Table(rows, ("setting", "source", "value")))


@click.command()
@click.option("--quick", is_flag=True, help="Smaller numbers, for a first look.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Rounds to take the median of."
)
@click.option(
    "--peers", metavar="PATH", help="On PostgreSQL: an environment with the other queues, or none; else one is created."
)
@shared
def bench(*, quick: bool, rounds: int, peers: str | None, url: str | None, as_json: bool) -> None:
    """Measure standfast and raw SQLite on this machine, or standfast and other queues on a PostgreSQL server."""
    from standfast.bench import command  # noqa: PLC0415 - loaded only when asked for

    command.main(url, quick, rounds, as_json, peers)


def _published_replay(url: str | None) -> Setting | None:
    """Return the `replay` default published in the store, if there is a store and it has one."""
    try:
        found = look(url, lambda sf: sf.shared_settings.published_replay())
    except NoStore:
        return None
    except StandfastError as error:  # show the settings anyway: they may explain the error
        click.echo(f"standfast: what the store says of replay is not shown: {error_line(error)}", err=True)
        return None
    return None if found is None else Setting(found, "store")


def _effective(found: Settings) -> dict[str, dict[str, Any]]:
    """Return every setting with its source."""
    plain = {name: value for name, value in msgspec.structs.asdict(found).items() if isinstance(value, Setting)}
    plain["url"] = Setting(settings.without_password(found.url.value), found.url.source)
    if found.spool.value is None:
        plain["spool"] = Setting(usual_spool(found.url.value), found.spool.source)
    queues = {
        name: {rule: Setting(value, "file") for rule, value in rules.items()} for name, rules in found.named().items()
    }
    written = {"commands": found.commands, "ingest": found.ingest, "notify": found.notify.get("surfaces", {})}
    return {"settings": plain, "queues": queues, **{name: _written(tables) for name, tables in written.items()}}


def _written(tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Setting]]:
    """Return tables as the settings file has them, with secrets hidden."""
    return {
        name: {key: Setting(_display(key, value), "file") for key, value in of.items()} for name, of in tables.items()
    }


def _display(key: str, value: Any) -> Any:
    """Return a setting's value to show; `secret_env` names a variable, and is no secret."""
    return redacted(value) if key == "secret_env" else redacted({key: value})[key]
