"""Commands about jobs: status, wait, retry, cancel, explain, jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from standfast.application import Standfast
from standfast.cli.filter_options import filter_from, filter_options
from standfast.cli.group import DONE, FAILED, REFUSED, USAGE, look, look_up, shared, store_words
from standfast.cli.parameters import duration, job_id
from standfast.cli.progress_bar import ShowShare, share_bar
from standfast.cli.sheets import sheet, show_page
from standfast.cli.terminal import show, show_json, show_line
from standfast.cli.words import now
from standfast.lifecycle import State
from standfast.printable import escaped
from standfast.views import JobView
from standfast.wings.calls.refused_retries import BY_POLICY
from standfast.wings.calls.replies import with_grant
from standfast.wings.jobs.job_query import WantedJobs
from standfast.wings.jobs.verbs import PROBE_FOR

STOPPED = frozenset({State.DEAD, State.HELD, State.CANCELLED})
"""States in which a job is not done and will not be by itself."""
LOOK_EVERY = 0.5
"""Seconds between two looks at the progress of a job that a person waits for on a terminal."""
MOVING = frozenset({"ok", "queued", "running"})
"""Statuses of a retry that did what was asked; a worker may run the job before the answer is written."""


@click.command()
@job_id
@shared
def status(*, job_id: str, url: str | None, as_json: bool) -> None:
    """Show one job. Exits 1 if it is dead, held or cancelled."""
    job = look_up(url, job_id, _find)
    _show(job, as_json=as_json)


@click.command()
@job_id
@click.option("--timeout", type=duration, default=60.0, show_default=True, help="How long to wait.")
@shared
def wait(*, job_id: str, timeout: float, url: str | None, as_json: bool) -> None:
    """Wait until a job is settled, and show it.

    Exits 0 if it completed, 1 if it is dead, held or cancelled, 2 if the time ran out.
    """
    try:
        with share_bar() as show_share:
            job = look_up(url, job_id, lambda sf, id_: _wait(sf, id_, timeout, show_share))
    except TimeoutError as error:
        click.echo(f"standfast: {escaped(str(error))}", err=True)
        raise click.exceptions.Exit(USAGE) from error
    _show(job, as_json=as_json)


@click.command()
@job_id
@click.option("--probe", metavar="URL", help="Wait until this answers 2xx.")
@click.option("--timeout", type=duration, default=PROBE_FOR, show_default=True, help="How long to wait for the probe.")
@shared
def retry(*, job_id: str, probe: str | None, timeout: float, url: str | None, as_json: bool) -> None:
    """Run a job again as soon as possible: a waiting job now, a letter by replay.

    A running one is left alone. Exits 1 if it is running, waits for other steps, is cancelled, or stays dead or held, 2
    if the probe never answered 2xx, 4 if the policy refuses.
    """
    replied = look_up(url, job_id, lambda sf, id_: sf.retry(id_, probe=probe, timeout=timeout))
    answer = with_grant(dict(replied), store_words())
    if as_json:
        show_json(answer)
    else:
        show_line(f"{answer['operation_id']} {answer['status']}: {answer['hint']}")
    raise click.exceptions.Exit(_retried(answer))


@click.command()
@job_id
@shared
def cancel(*, job_id: str, url: str | None, as_json: bool) -> None:
    """Cancel a job. A running one is asked to stop.

    Exits 1 if it is too late: the job is already done.
    """
    job = look_up(url, job_id, lambda sf, id_: sf.cancel(id_))
    if as_json:
        show_json(job)
    else:
        show_line(f"{job.id} {_cancelled(job)}")
    raise click.exceptions.Exit(FAILED if job.state == State.COMPLETED else DONE)


@click.command()
@job_id
@shared
def explain(*, job_id: str, url: str | None, as_json: bool) -> None:
    """Explain why a job is where it is, and what to do next."""
    whole, sentence = look_up(url, job_id, _explained)
    if as_json:
        show_json({"id": whole, "explanation": sentence})
    else:
        show_line(sentence)


@click.command()
@filter_options(WantedJobs)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most.")
@click.option("--cursor", type=click.IntRange(min=1), help="Continue where the last page ended.")
@shared
def jobs(*, limit: int, cursor: int | None, url: str | None, as_json: bool, **filters: Any) -> None:
    """List jobs, newest first."""
    page = look(url, lambda sf: sf.jobs(**filter_from(WantedJobs, filters), limit=limit, cursor=cursor))
    show_page(page, as_json=as_json)


async def _explained(sf: Standfast, job_id: str) -> tuple[str, str]:
    return job_id, await sf.explain(job_id)


async def _wait(sf: Standfast, job_id: str, seconds: float, show_share: ShowShare | None) -> JobView:
    """Wait for a job; if a person is watching, show the progress that it reports."""
    if show_share is None:
        return await sf.wait(job_id, seconds)
    waiting = asyncio.ensure_future(sf.wait(job_id, seconds))
    while not (await asyncio.wait([waiting], timeout=LOOK_EVERY))[0]:
        job = await sf.status(job_id)
        if job is not None and job.progress is not None:
            show_share(job.view, job.progress["fraction"], job.progress["note"] or "")
        elif job is not None:
            show_share(job.view, 0.0, "")
    return waiting.result()


async def _find(sf: Standfast, job_id: str) -> JobView:
    found = await sf.status(job_id)
    if found is None:
        raise await sf.unknown_job(job_id)
    return found


COMMANDS = (status, wait, retry, cancel, explain, jobs)


def _show(job: JobView, *, as_json: bool) -> None:
    if as_json:
        show_json(job)
    else:
        show(*sheet(job, now()))
    raise click.exceptions.Exit(FAILED if job.state in STOPPED else DONE)


def _retried(answer: dict[str, Any]) -> int:
    if "probe" in answer:
        return USAGE
    if answer["status"] == "ok" or (answer["status"] in MOVING and not answer.get("refused")):
        return DONE
    return REFUSED if answer.get("reason_code") in BY_POLICY else FAILED


def _cancelled(job: JobView) -> str:
    match job.state:
        case State.CANCELLED:
            return "cancelled"
        case State.COMPLETED:
            return "is already completed, and stays so"
        case _:
            return f"is {job.view} and was asked to stop; it ends cancelled unless this attempt succeeds"
