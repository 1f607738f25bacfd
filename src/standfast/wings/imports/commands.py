"""Commands that bring in the records of other queues: import jsonl, import sqlite, import ops, import redis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec

from standfast.application import Standfast
from standfast.cli.group import FAILED, Command, ask, shared
from standfast.cli.parameters import label
from standfast.cli.progress_bar import bar
from standfast.cli.terminal import Table, show, show_json, show_line
from standfast.printable import escaped
from standfast.spine.accept import user
from standfast.views import Heard
from standfast.wings.imports import known_shapes
from standfast.wings.imports.jsonl_reader import jsonl
from standfast.wings.imports.known_shapes import Profile
from standfast.wings.imports.ops_reader import ops
from standfast.wings.imports.redis_reader import ENTRY, LIST, dump, redis
from standfast.wings.imports.sqlite_reader import sqlite
from standfast.wings.imports.words import ImportOptions, Meaning, Report, Source
from standfast.wings.records.figures import count_of

COLUMNS = ("queue", "outcome", "records")
SAID = {
    "tried": "was tried in the old store, and runs again here: what an earlier attempt did may be done twice",
    "in_doubt": "may have done its work already, and so it is a dead letter for a person to look at",
    "finished": "was finished in the old store, and is left out; --finished brings it in as completed",
}
"""What a person must know about an outcome."""


def _pair(text: str) -> tuple[str, str]:
    return label(text)


OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--map",
        "fields",
        metavar="FIELD=PATH",
        type=_pair,
        multiple=True,
        help="Where a record has a field of the job, such as payload=data.body; may be repeated. "
        "json:PATH reads JSON kept as text, =TEXT is the same for all, and an empty PATH leaves the field out.",
    ),
    click.option("--queue", help="The queue of records that name none."),
    click.option(
        "--state",
        "states",
        metavar="WORD=MEANING",
        type=_pair,
        multiple=True,
        help=f"What a state of the old store means: {', '.join(Meaning)}; may be repeated.",
    ),
    click.option("--source", help="A name for this source; another name brings every record again."),
    click.option("--finished", is_flag=True, help="Bring in finished records too, as completed jobs."),
    click.option(
        "--tried",
        type=click.Choice(["queued", "dead"]),
        default="queued",
        show_default=True,
        help="What becomes of records that wait for another attempt: an earlier one may have done the work.",
    ),
    click.option("--rejects", type=click.Path(dir_okay=False), help="The file for rejected records."),
    click.option("--dry-run", is_flag=True, help="Store nothing; count what an import would do."),
)


def described(command: Command) -> Command:
    """Add the options of every import to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.group("import")
def imports() -> None:
    """Bring in the records of another queue, each once, with their age, attempts, history and reasons.

    An import that was interrupted is run again: what is here already is not brought in twice.
    """


@imports.command("jsonl")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@described
@shared
def import_jsonl(*, file: str, url: str | None, as_json: bool, **options: Any) -> None:
    """Bring in a FILE of JSON lines (- is standard input), a record on each."""
    _bring_in(url, [(jsonl(file), known_shapes.JSONL)], options, as_json=as_json)


@imports.command("sqlite")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--table", "tables", multiple=True, help="A table; else the known ones that are there. May be repeated.")
@described
@shared
def import_sqlite(*, file: str, tables: Sequence[str], url: str | None, as_json: bool, **options: Any) -> None:
    """Bring in the rows of queued_events, dead_letter_events and events, or of another table of a SQLite FILE."""
    _bring_in(url, sqlite(file, tables), options, as_json=as_json)


@imports.command("ops")
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@described
@shared
def import_ops(*, directory: str, url: str | None, as_json: bool, **options: Any) -> None:
    """Bring in the op_*.json records of a DIRECTORY."""
    _bring_in(url, [(ops(directory), known_shapes.OPS)], options, as_json=as_json)


@imports.command("redis")
@click.option("--redis-url", default="redis://127.0.0.1:6379/0", show_default=True, help="The Redis server.")
@click.option("--list", "name", default=LIST, show_default=True, help="The list of letters, or of their names.")
@click.option("--entry", default=ENTRY, show_default=True, help="What stands before a name in the key of its letter.")
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="A file that redis-cli --raw LRANGE wrote; no server is asked.",
)
@described
@shared
def import_redis(
    *, redis_url: str, name: str, entry: str, file: str | None, url: str | None, as_json: bool, **options: Any
) -> None:
    """Bring in a Redis list of letters; nothing is taken out of it."""
    source = redis(redis_url, name, entry) if file is None else dump(file)
    _bring_in(url, [(source, known_shapes.LETTERS)], options, as_json=as_json)


def _bring_in(
    url: str | None, sources: Sequence[tuple[Source, Profile]], given: dict[str, Any], *, as_json: bool
) -> None:
    options = _options(given)
    reports: list[Report] = []
    with bar("imported") as progress:
        for source, profile in sources:
            reports.append(ask(url, _import(source, profile, options, progress)))
    if as_json:
        show_json(_summary(reports))
    else:
        _tell(reports)
    if any(report.rejected for report in reports):
        raise click.exceptions.Exit(FAILED)


def _import(source: Source, profile: Profile, options: ImportOptions, progress: Heard) -> Callable[[Standfast], Any]:
    return lambda sf: sf.imports.bring_in(source, profile, options, by=user(), progress=progress)


def _options(given: dict[str, Any]) -> ImportOptions:
    told: dict[str, Any] = {name: dict(given.pop(name)) for name in ("fields", "states")}
    letters = given.pop("tried") == "dead"
    return ImportOptions(**told, **given, tried_are_letters=letters)


def _summary(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the summary for programs."""
    whole = [{**msgspec.to_builtins(report), "outcomes": dict(report.outcomes)} for report in reports]
    total = sum((report.outcomes for report in reports), type(reports[0].outcomes)())
    records = sum(report.records for report in reports)
    return {"records": records, "outcomes": dict(total), "dry_run": reports[0].dry_run, "sources": whole}


def _tell(reports: Sequence[Report]) -> None:
    rows = [
        (queue, outcome, str(number))
        for report in reports
        for queue, counts in sorted(report.queues.items())
        for outcome, number in sorted(counts.items())
    ]
    if rows:
        show(Table(rows, COLUMNS))
    for report in reports:
        _tell_rejected(report)
    for outcome, words in SAID.items():
        number = sum(report.outcomes[outcome] for report in reports)
        if number:
            show_line(f"{outcome}: {count_of(number, 'record')}; each {words}")
    records, dry = sum(report.records for report in reports), reports[0].dry_run
    show_line(f"{count_of(records, 'record')} read" + ("; nothing was stored, this was a dry run" if dry else ""))


def _tell_rejected(report: Report) -> None:
    """Name the first rejected records on stderr, where they are seen even if the rest is piped."""
    for name, why in report.first_rejected:
        click.echo(f"{escaped(name)}: {escaped(why)}", err=True)
    more = report.rejected - len(report.first_rejected)
    if more > 0:
        click.echo(f"and {more} more", err=True)
    if report.rejected:
        where = f"; all of them are in {report.rejects_file}" if report.rejects_file else ""
        click.echo(f"{count_of(report.rejected, 'record')} of {report.source} rejected{where}", err=True)


alias = click.Command(
    "import-jsonl",
    callback=import_jsonl.callback,
    params=import_jsonl.params,
    help="Bring in a FILE of JSON lines, as `import jsonl` does.",
)
