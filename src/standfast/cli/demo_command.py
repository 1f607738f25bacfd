"""The `demo` command: a worker is killed, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from standfast.cli.group import DONE, FAILED, shared
from standfast.cli.progress_bar import bars
from standfast.cli.terminal import Cell, Table, show, show_json, show_line
from standfast.errors import ConfigurationError

if TYPE_CHECKING:
    from standfast.demo.account import Account
    from standfast.demo.stage import Report


@click.command()
@click.option("--jobs", type=click.IntRange(10, 100_000), default=2000, show_default=True, help="How many jobs.")
@shared
def demo(*, jobs: int, url: str | None, as_json: bool) -> None:
    """Kill a worker in the middle of its work, and show that nothing is lost.

    Starts a flaky receiver and a worker, enqueues HTTP jobs, kills the worker with SIGKILL, starts another, and
    compares the receiver's books with the queue's. Everything happens in a temporary directory, on the disk of the
    store that --url names if it is given. Exits 1 if the books do not balance.
    """
    report = _perform(jobs, _directory(url))
    if as_json:
        show_json(report)
    else:
        _show(report)
    raise click.exceptions.Exit(DONE if report.balances else FAILED)


def _perform(jobs: int, directory: Path | None) -> Report:
    from standfast.demo import stage  # noqa: PLC0415 - loaded only when asked for

    try:
        with bars(jobs) as audience:
            return stage.perform(jobs, directory, audience)
    except asyncio.CancelledError as error:  # how SIGTERM ends it
        raise KeyboardInterrupt from error


def _directory(url: str | None) -> Path | None:
    if url is None:
        return None
    if url == ":memory:" or ("://" in url and not url.startswith("sqlite:///")):
        raise ConfigurationError(f"demo runs on a disk, and {url!r} names none; write sqlite:///file.db")
    parent = Path(url.removeprefix("sqlite:///")).resolve().parent
    if not parent.is_dir():
        raise ConfigurationError(f"{parent} is not a directory; create it first, or give another --url")
    return parent


def _show(report: Report) -> None:
    account = report.account
    show(_queue_says(report), _receiver_says(account))
    sums = f"accepted {account.accepted} = completed {account.completed} + dead {account.dead}"
    rest = f"lost {account.lost}, effects doubled without a record {account.doubled_without_record}"
    verdict = f"the books balance: {sums}, {rest}"
    click.echo()
    if report.balances:
        show_line(verdict, "bold green")
    else:
        show_line(verdict.replace("balance", "do not balance").replace(" = ", " against "), "bold red")


def _queue_says(report: Report) -> Table:
    account = report.account
    rows: list[Sequence[str | Cell]] = [
        ("accepted", str(account.accepted), "on disk before the receipt was given"),
        ("completed", str(account.completed), "the receiver's books have the effect"),
        ("dead", str(account.dead), "the receiver refused them for good (422); each waits as a letter"),
        ("lost", _wrong(account.lost), "accepted, and neither done nor dead"),
        ("running when killed", str(report.killed_with_running), f"all settled after {report.seconds:g} s"),
    ]
    return Table(rows, ("jobs", "number", "meaning"), "What the queue says")


def _receiver_says(account: Account) -> Table:
    recorded = account.doubled - account.doubled_without_record
    rows: list[Sequence[str | Cell]] = [
        ("requests", str(account.requests), "some were answered 503, or 500 although done, or late, or not at all"),
        ("effects", str(account.effects), "what was done, first time or again"),
        ("repeats recognised", str(account.recognised), "the same Idempotency-Key: not done again"),
        ("doubled, recorded", str(recorded), "done again; the job's history says possible_duplicate"),
        ("doubled without a record", _wrong(account.doubled_without_record), "done again, and no record says so"),
        ("dead without a record", _wrong(account.dead_without_record), "done, although the letter says it cannot be"),
        ("never asked for", _wrong(account.never_asked_for), "effects of jobs that were never enqueued"),
    ]
    return Table(rows, ("books", "number", "meaning"), "What the receiver wrote down")


def _wrong(number: int) -> Cell:
    return Cell(str(number), "bold red" if number else "bold green")
