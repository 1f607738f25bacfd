"""Commands that group letters, change them, end them or carry them, beside `dead list`, `show` and `replay`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from standfast.cli.applications import application, application_and
from standfast.cli.filter_options import filter_from, filter_options
from standfast.cli.group import about, ask, look, look_into, look_up, shared
from standfast.cli.parameters import job_id, operation_id, payload_from
from standfast.cli.progress_bar import bar
from standfast.cli.terminal import Cell, Table, show, show_json, show_line
from standfast.cli.words import ago, now
from standfast.spine.accept import user
from standfast.wings.records.figures import count_of, number
from standfast.wings.records.letter_filter import as_filter
from standfast.wings.records.letter_query import WantedLetters

COLUMNS = ("letters", "fingerprint", "queue", "first seen", "last seen", "again", "sample", "what")
reason = click.option("--reason", required=True, help="Why; recorded with your name.")


@click.command("groups")
@filter_options(WantedLetters)
@shared
def groups(*, url: str | None, as_json: bool, **filters: Any) -> None:
    """Group letters by cause, the largest group first. Other commands take a group as --fingerprint."""
    found = look(url, lambda sf: sf.dead_letters.groups(as_filter(filter_from(WantedLetters, filters))))
    if as_json:
        show_json({"items": found})
    elif found:
        show(Table([_row(group) for group in found], COLUMNS))
    else:
        show_line("no letters")


@click.command()
@click.argument("names", metavar="[APP:SF] ID JSON", nargs=-1)
@operation_id
@reason
@shared
def amend(*, names: Sequence[str], reason: str, url: str | None, as_json: bool) -> None:
    """Change a letter's payload: JSON, or - for standard input. It does not run; replay it then.

    APP:SF names the application that has the handler, whose input the payload must fit. Headers that are shown as ***
    stay as they are stored.
    """
    app, [job_id, text] = application_and(names, ["ID", "JSON"])
    sf, payload = application(app, url), payload_from(text)
    options: dict[str, Any] = {"by": user(), "reason": reason}
    found = look_into(sf, lambda sf: about(sf, job_id, lambda sf, id_: sf.dead_letters.amend(id_, payload, **options)))
    replay = f"replay it with: standfast dead replay {found.id}"
    _tell(found, f"{found.id} amended, generation {found.generation}; {replay}", as_json)


@click.command()
@job_id
@reason
@shared
def discard(*, job_id: str, reason: str, url: str | None, as_json: bool) -> None:
    """Cancel a letter for good. It never runs again."""
    found = look_up(url, job_id, lambda sf, id_: sf.dead_letters.discard(id_, by=user(), reason=reason))
    _tell(found, f"{found.id} discarded", as_json)


@click.command()
@job_id
@reason
@click.option("--owner", help="Who is to look after it.")
@shared
def quarantine(*, job_id: str, reason: str, owner: str | None, url: str | None, as_json: bool) -> None:
    """Quarantine a letter: it is never replayed automatically."""
    options: dict[str, Any] = {"by": user(), "reason": reason, "owner": owner}
    found = look_up(url, job_id, lambda sf, id_: sf.dead_letters.quarantine(id_, **options))
    _tell(found, f"{found.id} quarantined" + (f" for {owner}" if owner else ""), as_json)


@click.command()
@filter_options(WantedLetters)
@click.option("--confirm", type=click.IntRange(min=0), help="How many letters match; otherwise none is deleted.")
@click.option("--reason", help="Why; recorded with your name. Required with --confirm.")
@shared
def purge(*, confirm: int | None, reason: str | None, url: str | None, as_json: bool, **filters: Any) -> None:
    """Delete dead and discarded letters for good; held ones stay. Without --confirm it only tells how many match."""
    if confirm is not None and reason is None:
        raise click.UsageError("--confirm deletes, so say why with --reason")
    options: dict[str, Any] = {"by": user(), "reason": reason, "confirm": confirm}
    wanted = as_filter(filter_from(WantedLetters, filters))
    with bar("purged") as progress:
        done = look(url, lambda sf: sf.dead_letters.purge(wanted, progress=progress, **options))
    _tell(done, f"{count_of(done['purged'], 'letter')} purged", as_json)


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@filter_options(WantedLetters)
@click.option("--reason", help="Why; recorded with your name.")
@shared
def export(*, file: str, reason: str | None, url: str | None, as_json: bool, **filters: Any) -> None:
    """Write letters to a new FILE (- is standard output), one JSON line each. Nothing is hidden in it."""
    to = sys.stdout if file == "-" else file
    wanted = as_filter(filter_from(WantedLetters, filters))
    with bar("exported") as progress:
        options: dict[str, Any] = {"by": user(), "reason": reason, "progress": progress}
        done = look(url, lambda sf: sf.dead_letters.export(to, wanted, **options))
    if file != "-":
        _tell(done, f"{count_of(done['letters'], 'letter')} written to {file}; it holds payloads as they are", as_json)


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@reason
@shared
def import_letters(*, file: str, reason: str, url: str | None, as_json: bool) -> None:
    """Import letters that export wrote (- is standard input) as dead letters with their own ids, each once.

    A missing store is created.
    """
    source = sys.stdin.buffer if file == "-" else file
    with bar("imported") as progress:
        options: dict[str, Any] = {"by": user(), "reason": reason, "progress": progress}
        done = ask(url, lambda sf: sf.dead_letters.import_(source, **options))
    line = f"{count_of(done['imported'], 'letter')} imported, {number(done['known'])} known already"
    _tell(done, line + (f", {number(done['without_key'])} without their key" if done["without_key"] else ""), as_json)


def _tell(found: Any, line: str, as_json: bool) -> None:  # noqa: FBT001 - as every command has it
    if as_json:
        show_json(found)
    else:
        show_line(line)


def _row(group: dict[str, Any]) -> list[str | Cell]:
    seen = [ago(group["first_seen"], now()), ago(group["last_seen"], now())]
    again = Cell(number(group["regressed"]), "bold red" if group["regressed"] else "dim")
    words = ": ".join(group[name] for name in ("reason_code", "cause", "message") if group[name])
    count = Cell(number(group["count"]), "bold")
    return [count, group["fingerprint"], group["queue"], *seen, again, group["sample"], words]


COMMANDS = (groups, amend, discard, quarantine, purge, export, import_letters)
