"""Commands about workflows: workflow show, workflow list, workflow cancel."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from standfast.application import Standfast
from standfast.cli.group import DONE, FAILED, look, look_up, shared
from standfast.cli.terminal import Cell, Table, show, show_json, show_line
from standfast.cli.words import ago, now
from standfast.wings.records.figures import number
from standfast.wings.workflows.words import Progress
from standfast.wings.workflows.workflow_drawing import bar, lines, mermaid

COLUMNS = ("id", "name", "state", "steps", "started", "ended")
STYLES = {"completed": "green", "running": "cyan", "dead": "bold red", "stuck": "bold red", "held": "magenta"}


@click.group()
def workflow() -> None:
    """Show and cancel workflows."""


async def _workflow_of(sf: Standfast, named: str) -> dict[str, Any]:
    job = await sf.status(named)
    return await sf.workflows.get(named if job is None or job.workflow is None else job.workflow)


@workflow.command("show")
@click.argument("workflow_id", metavar="ID")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="Draw it as Mermaid's flowchart.")
@shared
def show_workflow(*, workflow_id: str, as_mermaid: bool, url: str | None, as_json: bool) -> None:
    """Draw a workflow: each step below those it waits for. Exits 1 if it is stuck or cancelled.

    ID is the workflow's, or that of the job of one of its steps.
    """
    found = look_up(url, workflow_id, _workflow_of, "workflow")
    if as_json:
        show_json(found)
    elif as_mermaid:
        for line in mermaid(found).splitlines():
            show_line(line)
    else:
        _draw(found)
    raise click.exceptions.Exit(FAILED if found["state"] in {Progress.STUCK, Progress.CANCELLED} else DONE)


def _draw(found: dict[str, Any]) -> None:
    show_line(f"workflow {found['name']}  {found['id']}  {found['state']}", STYLES.get(found["state"], ""))
    show_line(bar(found))
    drawn = lines(found)
    show(Table([[Cell(line.drawn, STYLES.get(line.state, "")), line.said] for line in drawn]))


@workflow.command("list")
@click.option("--state", type=click.Choice([str(it) for it in Progress]), help="Only workflows in this state.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most.")
@shared
def list_workflows(*, state: str | None, limit: int, url: str | None, as_json: bool) -> None:
    """List workflows, the newest first."""
    found = look(url, lambda sf: sf.workflows.list(state, limit=limit))
    if as_json:
        show_json({"items": found})
    elif found:
        show(Table([_row(each, now()) for each in found], COLUMNS))
    else:
        show_line("no workflows" if state is None else f"no workflow is {state}")


@workflow.command("cancel")
@click.argument("workflow_id", metavar="ID")
@shared
def cancel_workflow(*, workflow_id: str, url: str | None, as_json: bool) -> None:
    """Cancel every step that is not final; running steps are asked to stop."""
    found = look_up(url, workflow_id, lambda sf, id_: sf.workflows.cancel(id_), "workflow")
    if as_json:
        show_json(found)
        return
    left = sum(step["state"] == "running" for step in found["steps"].values())
    note = f"; {left} still running and asked to stop" if left else ""
    show_line(
        f"workflow {found['name']}: {number(found['cancelled'])} of {number(found['total'])} steps cancelled{note}"
    )


def _row(found: dict[str, Any], at: datetime) -> list[str | Cell]:
    ended = ago(found["finished_at"], at) if found["finished_at"] else ""
    state = Cell(found["state"], STYLES.get(found["state"], ""))
    steps = f"{number(found['completed'])}/{number(found['total'])}"
    return [found["id"], found["name"], state, steps, ago(found["created_at"], at), ended]
