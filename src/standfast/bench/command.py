"""`standfast bench`: measure, then show."""

from __future__ import annotations

import click
import msgspec

from standfast.bench import table
from standfast.bench.bench_place import directory_of
from standfast.bench.progress import ProgressLine
from standfast.bench.report import run
from standfast.bench.sizes import FULL, QUICK
from standfast.errors import ConfigurationError

ON_A_SERVER = ("postgresql://", "postgres://")


def main(url: str | None, quick: bool, rounds: int, as_json: bool, peers: str | None = None) -> None:  # noqa: FBT001 - the command line's own flags
    """Measure standfast on the disk or server that `url` names, and print the results."""
    if url is not None and url.startswith(ON_A_SERVER):
        _on_server(url, quick=quick, rounds=max(1, rounds), as_json=as_json, peers=peers)
    else:
        _on_disk(url, quick=quick, rounds=max(1, rounds), as_json=as_json)


def _on_disk(url: str | None, *, quick: bool, rounds: int, as_json: bool) -> None:
    """Compare with raw SQLite."""
    line = ProgressLine()
    try:
        report = run(directory_of(url), QUICK if quick else FULL, rounds, line)
    finally:
        line.clear()
    if as_json:
        click.echo(to_json(report))
    else:
        table.show(report)


def _on_server(url: str, *, quick: bool, rounds: int, as_json: bool, peers: str | None) -> None:
    """Compare with other queues on PostgreSQL."""
    try:
        from standfast.bench.postgres import peer_report as report  # noqa: PLC0415 - needs an extra
        from standfast.bench.postgres import peer_sizes as sizes  # noqa: PLC0415
        from standfast.bench.postgres import peer_table as postgres_table  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError("postgresql:// needs an extra: pip install 'standfast[postgres]'") from error
    line = ProgressLine()
    try:
        found = report.run(url, sizes.QUICK if quick else sizes.FULL, rounds, peers, line)
    finally:
        line.clear()
    if as_json:
        click.echo(to_json(found))
    else:
        postgres_table.show(found)


def to_json(report: msgspec.Struct) -> str:
    """Return everything as JSON: rows, rounds, figures, machine, versions, date, settings."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
