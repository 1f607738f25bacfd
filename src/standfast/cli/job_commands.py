"""Commands about jobs: enqueue, status, wait, jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from standfast.application import Standfast
from standfast.cli.door import DONE, FAILED, USAGE, ask, shared
from standfast.cli.parameters import duration, label, moment, payload_from
from standfast.cli.sheets import listing, sheet
from standfast.cli.terminal import show, show_json, show_line
from standfast.errors import UnknownJob
from standfast.job import JobView
from standfast.lifecycle import State
from standfast.printable import escaped
from standfast.queue.accept import RISKS

STOPPED = frozenset({State.DEAD, State.HELD, State.CANCELLED})
"""Where a job is not done and will not be by itself."""


@click.command()
@click.argument("queue")
@click.argument("payload", metavar="[JSON]", required=False)
@click.option("--handler", help="Which handler of the queue; else the one named like it.")
@click.option("--key", "idempotency_key", help="Idempotency key: the same key and payload is stored once.")
@click.option("--priority", type=int, help="Higher runs first.")
@click.option("--delay", type=duration, help="Start this much later.")
@click.option("--at", type=moment, help="Start at this time.")
@click.option("--expires", type=moment, help="Do not start after this time.")
@click.option("--attempts", type=int, help="How often to try, the first included.")
@click.option("--session", help="Whose session this belongs to.")
@click.option("--risk", type=click.Choice(RISKS), help="How much harm it could do.")
@click.option("--label", "labels", type=label, multiple=True, help="A label; may be repeated.")
@shared
def enqueue(
    *, queue: str, payload: str | None, labels: list[tuple[str, str]], url: str | None, as_json: bool, **options: Any
) -> None:
    """Store a job; it is on disk when its receipt is printed.

    JSON is the payload, `-` reads it from standard input.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if labels:
        given["labels"] = dict(labels)
    content = payload_from(payload)
    receipt = ask(url, lambda sf: sf.enqueue(queue, content, **given))
    if as_json:
        show_json(receipt._asdict())
    else:
        show_line(f"{receipt.id} {receipt.outcome} {receipt.state}")


@click.command()
@click.argument("job_id", metavar="ID")
@shared
def status(*, job_id: str, url: str | None, as_json: bool) -> None:
    """Show one job. Exits 1 if it is dead, held or cancelled."""
    job = ask(url, lambda sf: _find(sf, job_id))
    _show(job, as_json=as_json)


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--timeout", type=duration, default=60.0, show_default=True, help="How long to wait.")
@shared
def wait(*, job_id: str, timeout: float, url: str | None, as_json: bool) -> None:
    """Wait until a job is settled, and show it.

    Exits 0 if it completed, 1 if it is dead, held or cancelled, 2 if the time ran out.
    """
    try:
        job = ask(url, lambda sf: sf.wait(job_id, timeout))
    except TimeoutError as error:
        click.echo(f"standfast: {escaped(str(error))}", err=True)
        raise click.exceptions.Exit(USAGE) from error
    _show(job, as_json=as_json)


@click.command()
@click.option("--queue", help="Only of this queue.")
@click.option("--state", type=click.Choice([str(state) for state in State]), help="Only in this state.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most.")
@click.option("--cursor", type=int, help="Go on where the last page ended.")
@shared
def jobs(
    *, queue: str | None, state: str | None, limit: int, cursor: int | None, url: str | None, as_json: bool
) -> None:
    """List jobs, newest first."""
    page = ask(url, lambda sf: sf.jobs(queue=queue, state=state, limit=limit, cursor=cursor))
    if as_json:
        show_json({"items": page, "next_cursor": page.next_cursor})
        return
    show(listing(page, _now()))
    if page.next_cursor is not None:
        click.echo(f"there is more: add --cursor {page.next_cursor}", err=True)


async def _find(sf: Standfast, job_id: str) -> JobView:
    found = await sf.status(job_id)
    if found is None:
        raise UnknownJob(f"no job has the id {job_id!r}: it never existed here, or it was pruned")
    return found


def _show(job: JobView, *, as_json: bool) -> None:
    if as_json:
        show_json(job)
    else:
        show(*sheet(job, _now()))
    raise click.exceptions.Exit(FAILED if job.state in STOPPED else DONE)


def _now() -> datetime:
    return datetime.now(UTC)
