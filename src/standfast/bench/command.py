"""`standfast bench`: measure, then show."""

from __future__ import annotations

import click
import msgspec

from standfast.bench import table
from standfast.bench.place import directory_of
from standfast.bench.progress import ProgressLine
from standfast.bench.report import Report, run
from standfast.bench.sizes import FULL, QUICK


def main(url: str | None, quick: bool, rounds: int, as_json: bool) -> None:  # noqa: FBT001 - the command line's own flags
    """Measure the product beside raw SQLite on the disk that `url` names, and print what was found."""
    line = ProgressLine()
    try:
        report = run(directory_of(url), QUICK if quick else FULL, max(1, rounds), line)
    finally:
        line.clear()
    if as_json:
        click.echo(to_json(report))
    else:
        table.show(report)


def to_json(report: Report) -> str:
    """Give everything: rows, rounds, figures, machine, versions, date, settings."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
