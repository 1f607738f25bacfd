"""Commands about schedules: schedule list, add, remove, pause, resume."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, get_args

import click

from standfast.application import Standfast
from standfast.cli.group import ask, look, shared
from standfast.cli.parameters import duration, label, payload_from
from standfast.cli.terminal import Cell, Table, show, show_json, show_line
from standfast.cli.words import ago, now
from standfast.job import RISKS
from standfast.rules import Coalesce
from standfast.wings.records.figures import number
from standfast.wings.schedules.rules import Missed

COLUMNS = ("name", "when", "queue", "state", "next runs", "last run", "runs", "missed")


@click.group()
def schedule() -> None:
    """Enqueue jobs on a schedule."""


@schedule.command("list")
@shared
def list_schedules(*, url: str | None, as_json: bool) -> None:
    """List schedules in plain words, with their next runs."""
    found = look(url, lambda sf: sf.schedules.list())
    if as_json:
        show_json({"items": found})
    elif found:
        show(Table([_row(each, now()) for each in found], COLUMNS))
    else:
        show_line("no schedules; add one with: standfast schedule add")


@schedule.command()
@click.argument("name")
@click.argument("queue")
@click.argument("payload", metavar="[JSON]", required=False)
@click.option("--cron", help="Minute, hour, day of the month, month, day of the week: '0 9 * * 1-5'.")
@click.option("--every", type=duration, help="An interval, such as 15m; it counts from now.")
@click.option("--at", help="Once, at this time: 2026-12-24T18:00, in --tz unless it names a zone.")
@click.option("--tz", default="UTC", show_default=True, help="The time zone of --cron and --at.")
@click.option("--missed", type=click.Choice(get_args(Missed)), default="latest", show_default=True)
@click.option("--jitter", type=duration, default=0, help="Delay each run by up to this much.")
@click.option("--overlap", is_flag=True, help="Let runs start while earlier ones still run.")
@click.option("--handler", help="Which handler of the queue; by default the one with the queue's name.")
@click.option("--thread-key", help="Share this thread with other jobs.")
@click.option(
    "--coalesce", type=click.Choice(get_args(Coalesce)), help="What happens if a run already waits; latest by default."
)
@click.option("--priority", type=int, help="Higher runs first.")
@click.option("--attempts", type=int, help="How often to try, the first included.")
@click.option("--session", help="The session it belongs to.")
@click.option("--risk", type=click.Choice(RISKS), help="How much harm it could do.")
@click.option("--label", "labels", type=label, multiple=True, help="A label, name=value; may be repeated.")
@shared
def add(*, name: str, queue: str, payload: str | None, url: str | None, as_json: bool, **options: Any) -> None:
    """Enqueue a job by the clock: give one of --cron, --every and --at. A schedule of that name is changed.

    JSON is the payload, `-` reads it from standard input. --missed says what is made up for after a time without
    workers: the latest run, none (skip), or the last 100 (all).
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if "labels" in given:
        given["labels"] = dict(given["labels"])
    content = payload_from(payload)
    added = ask(url, lambda sf: sf.schedules.add(name, queue, content, **given))
    if as_json:
        show_json(added)
    else:
        show_line(f"{name} runs {added['when']}; {_next(added, now())}")


@schedule.command()
@click.argument("name")
@shared
def remove(*, name: str, url: str | None, as_json: bool) -> None:
    """Remove a schedule; jobs that it has enqueued continue."""
    _change(url, name, "removed", lambda sf: sf.schedules.remove(name), as_json=as_json)


@schedule.command()
@click.argument("name")
@shared
def pause(*, name: str, url: str | None, as_json: bool) -> None:
    """Enqueue nothing more until it is resumed."""
    _change(url, name, "paused", lambda sf: sf.schedules.pause(name), as_json=as_json)


@schedule.command()
@click.argument("name")
@shared
def resume(*, name: str, url: str | None, as_json: bool) -> None:
    """Resume a paused schedule with its next regular run."""
    _change(url, name, "resumed", lambda sf: sf.schedules.resume(name), as_json=as_json)


def _change(
    url: str | None, name: str, what: str, change: Callable[[Standfast], Awaitable[None]], *, as_json: bool
) -> None:
    look(url, change)
    if as_json:
        show_json({"name": name, "outcome": what})
    else:
        show_line(f"{name} is {what}")


def _row(schedule: dict[str, Any], at: datetime) -> list[str | Cell]:
    last = schedule["last_tick"]
    return [
        schedule["name"],
        schedule["when"],
        schedule["queue"],
        _state(schedule),
        _runs(schedule),
        "" if last is None else ago(last, at),
        number(schedule["runs"]),
        Cell(number(schedule["missed_runs"]), "yellow" if schedule["missed_runs"] else "dim"),
    ]


def _runs(schedule: dict[str, Any]) -> str:
    """Format the next runs, with the schedule's own time zone."""
    runs = ", ".join(f"{run:%a %Y-%m-%d %H:%M:%S}" for run in schedule["next_runs"])
    return f"{runs} {schedule['tz']}" if runs else ""


def _state(schedule: dict[str, Any]) -> Cell:
    if schedule["done"]:
        return Cell("done", "dim")
    return Cell("paused", "bold yellow") if schedule["paused"] else Cell("on", "green")


def _next(schedule: dict[str, Any], at: datetime) -> str:
    if schedule["paused"]:
        return "it is paused"
    if not schedule["next_runs"]:
        return "it is over, and will not run again" if schedule["runs"] else "that is past, and it will not run"
    first = schedule["next_runs"][0]
    return f"next {first:%a %Y-%m-%d %H:%M:%S} {schedule['tz']} ({ago(first, at)})"
