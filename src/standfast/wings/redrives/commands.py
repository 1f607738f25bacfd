"""Commands about many letters at once: dead plan, dead redrive, dead redrives."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import click

from standfast.application import Standfast
from standfast.cli.filter_options import filter_from, filter_options
from standfast.cli.group import DONE, FAILED, REFUSED, look, look_up, shared
from standfast.cli.progress_bar import bar
from standfast.cli.terminal import Cell, Table, as_text, show, show_json, show_line
from standfast.cli.words import ago, now, when
from standfast.spine.accept import user
from standfast.views import Progress
from standfast.wings.records.figures import count_of, number
from standfast.wings.records.letter_filter import as_filter
from standfast.wings.records.letter_query import WantedLetters

LOOK_EVERY = 0.5
"""Seconds between two looks at a redrive that is waited for."""
CODES = {"halted": FAILED, "cancelled": FAILED, "approval_pending": REFUSED}
"""The exit code where a redrive stands; elsewhere it is DONE."""
FORESEEN = {
    "would_run": "would run",
    "already_landed": "landed already, and would be resolved",
    "need_approval": "need an approval, one for all",
    "denied": "denied by the policy, and left alone",
    "unchecked": "may have landed, nothing stored tells",
    "moved_on": "of threads that went on without them",
    "need_consent": "wait for a person's consent, and are left out; see standfast consent list",
    "quarantined": "quarantined, and left out; --replay-status quarantined plans for them",
}
HIDDEN = frozenset({"id", "letters", "failures"})


@click.command()
@filter_options(WantedLetters)
@shared
def plan(*, url: str | None, as_json: bool, **filters: Any) -> None:
    """Preview what a redrive of these letters would do. Nothing is changed; the token starts exactly this plan."""
    found = look(url, lambda sf: sf.dead_letters.plan(as_filter(filter_from(WantedLetters, filters))))
    if as_json:
        show_json(found)
        return
    rows = [(number(found[name]), words) for name, words in FORESEEN.items() if found[name]]
    show(Table([(number(found["letters"]), "letter" if found["letters"] == 1 else "letters"), *rows]))
    if found["letters"]:
        show_line(f"carry it out with: standfast dead redrive {found['token']}")


@click.command()
@click.argument("token")
@click.option("--rate", help="Replay at most so many, as in 100/s or 60/m; else as many as the workers run.")
@click.option("--canary", type=click.IntRange(min=0), default=0, help="Replay so many first; the rest waits for them.")
@click.option("--halt-on", type=click.FloatRange(0, 1), help="Stop when this share fails again, as in 0.2.")
@click.option("--reason", help="Why; it is kept with every replay.")
@click.option("--wait", is_flag=True, help="Wait until it ends or halts. It continues if you stop waiting.")
@click.option("--show", "what", flag_value="show", help="Show only its progress, and what failed again.")
@click.option("--pause", "what", flag_value="pause", help="Replay no more until it is resumed.")
@click.option("--resume", "what", flag_value="resume", help="Go on after a pause or a halt.")
@click.option("--cancel", "what", flag_value="cancel", help="Leave the rest as it is, for good.")
@shared
def redrive(*, token: str, what: str | None, wait: bool, url: str | None, as_json: bool, **course: Any) -> None:
    """Carry out a plan in the running workers. Exits 1 if it halted, 4 if it needs an approval first."""
    progress = look_up(url, token, lambda sf, id_: _done(sf, id_, what, course, wait=wait), "redrive")
    if as_json:
        show_json(progress)
    else:
        show_line(_describe(progress))
        show(Table([(name, _cell(name, value)) for name, value in progress.items() if value and name not in HIDDEN]))
        if failures := progress["failures"]:
            show(Table([_failed_row(each) for each in failures], ("job", "queue", "error"), "Failed again"))
    raise click.exceptions.Exit(DONE if what in {"pause", "cancel"} else CODES.get(progress["state"], DONE))


@click.command()
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="How many at most.")
@shared
def redrives(*, limit: int, url: str | None, as_json: bool) -> None:
    """List redrives, the newest first."""
    found = look(url, lambda sf: sf.dead_letters.redrives.list(limit=limit))
    if as_json:
        show_json({"items": found})
    elif found:
        show(Table([_row(each) for each in found], ("id", "state", "letters", "started", "by", "reason")))
    else:
        show_line("no redrives")


def _row(progress: dict[str, Any]) -> list[str | Cell]:
    style = "bold red" if progress["state"] == "halted" else ""
    settled = progress["letters"] - progress["waiting"] - progress["running"]
    started = ago(progress["started_at"], now()) if progress["started_at"] else ""
    done = f"{number(settled)} of {number(progress['letters'])}"
    why = progress["why"] or progress["reason"] or ""
    return [progress["id"], Cell(progress["state"], style), done, started, progress["by"] or "", why]


async def _done(sf: Standfast, token: str, what: str | None, course: dict[str, Any], *, wait: bool) -> dict[str, Any]:
    if what is None:
        found = await sf.dead_letters.redrive(token, by=user(), **course)
    else:
        found = await sf.dead_letters.redrives.get(token, by=user())
    if what not in {None, "show"}:
        await getattr(found, what or "")()
    progress = await found.progress()
    with bar("redrive") as move:
        while wait and progress["state"] == "running":
            await asyncio.sleep(LOOK_EVERY)
            progress = await found.progress()
            left = progress["waiting"] + progress["running"]
            move(Progress("redrive", progress["letters"] - left, progress["letters"]))
    return {**progress, "failures": await found.failures() if progress["failed"] else []}


def _failed_row(each: dict[str, Any]) -> list[str]:
    why = ": ".join(filter(None, (each["cause"] or each["reason_code"], each["message"])))
    return [each["job_id"], each["queue"], why]


def _cell(name: str, value: Any) -> str:
    if isinstance(value, datetime):
        return when(value, now())
    if name == "rate":
        return f"{value:g}/s"
    return number(value) if type(value) is int else as_text(value)


def _describe(progress: dict[str, Any]) -> str:
    line = f"redrive {progress['id']} of {count_of(progress['letters'], 'letter')} is {progress['state']}"
    return f"{line}: {progress['why']}" if progress["why"] else line
