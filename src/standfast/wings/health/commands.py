"""Commands about the whole: stats, health, workers, doctor."""

from __future__ import annotations

from typing import Any

import click

from standfast.cli.group import DONE, FAILED, ask, look, shared
from standfast.cli.terminal import Cell, Table, show, show_json, show_line
from standfast.cli.words import now
from standfast.errors import StandfastError
from standfast.wings.health.health_words import alert_line, in_one_line
from standfast.wings.queues.boards import stats_board, workers_board


@click.command()
@shared
def stats(*, url: str | None, as_json: bool) -> None:
    """Show counts: what the store has now, and what happened so far."""
    counted: dict[str, Any] = look(url, lambda sf: sf.stats())
    if as_json:
        show_json(counted)
    else:
        show(*stats_board(counted, now()))


@click.command()
@shared
def health(*, url: str | None, as_json: bool) -> None:
    """List what is wrong: stuck queues, missing workers, low disk space. Exits 1 if anything is."""
    judged = look(url, lambda sf: sf.health())
    if as_json:
        show_json(judged)
    elif judged["issues"]:
        for issue in judged["issues"]:
            show_line(issue, "bold red")
        for alert in judged["alerts"]:
            show_line(alert_line(alert, now()), "dim" if alert["clearing"] else "red")
    else:
        show_line(in_one_line(judged), "green")
    raise click.exceptions.Exit(FAILED if judged["issues"] else DONE)


@click.command()
@shared
def workers(*, url: str | None, as_json: bool) -> None:
    """List live workers and what they run. Exits 1 if there is none."""
    found = look(url, lambda sf: sf.workers())
    if as_json:
        show_json({"items": found})
    elif found:
        show(*workers_board(found, now()))
    else:
        show_line("no live workers; start one with: standfast worker app:sf", "bold red")
    raise click.exceptions.Exit(DONE if found else FAILED)


@click.command()
@click.option("--full", is_flag=True, help="Also compare every index with its table; takes longer.")
@shared
def doctor(*, full: bool, url: str | None, as_json: bool) -> None:
    """Check the store, in use or not, by reading all of it once. Exits 1 if something is wrong."""
    report = _examine(url, full=full)
    if as_json:
        show_json(report)
    else:
        show(Table([_check(**check) for check in report["checks"]]))
    raise click.exceptions.Exit(DONE if report["ok"] else FAILED)


def _examine(url: str | None, *, full: bool) -> dict[str, Any]:
    """Ask the application; if it cannot even be built, report the reason as the finding."""
    try:
        return ask(url, lambda sf: sf.doctor(full=full))
    except StandfastError as error:
        return {"ok": False, "checks": [{"name": "configuration", "value": "", "problem": str(error)}]}


def _check(name: str, value: str, problem: str | None) -> tuple[str, Cell, str]:
    return name, Cell("wrong", "bold red") if problem else Cell("ok", "green"), problem or value
