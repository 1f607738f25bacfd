"""Pages about workflows: the list, and one workflow drawn as a graph."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from standfast.dashboard.actions import Action, ReturnTo
from standfast.dashboard.page import Page, RenderedPage, Visit
from standfast.server import visible as reached
from standfast.server.token_view import workflow_for
from standfast.wings.records.view import one_of
from standfast.wings.workflows.rules import layers
from standfast.wings.workflows.words import Progress

PAGE = 50
MOST_DRAWN = 200
"""The most steps that are drawn; a larger workflow is shown only as its table."""

WIDTH, HEIGHT, ACROSS, DOWN = 190, 46, 60, 18

LONGEST_NAME = 22


class Box(NamedTuple):
    """A step in the drawing."""

    name: str
    x: int
    y: int
    step: dict[str, Any]


class Drawing(NamedTuple):
    """A workflow's graph: its size, its steps, and the curves between them as SVG paths."""

    width: int
    height: int
    boxes: list[Box]
    ways: list[str]


async def workflows(visit: Visit) -> RenderedPage:
    """Show workflows, the newest first."""
    state = visit.form_values("state").get("state", "")
    found = await visit.sf.workflows.list(one_of("state", state or None, Progress), limit=PAGE)
    if visit.grant.queues is not None:  # the list does not say which queues a workflow's steps are in
        found = []
    return RenderedPage("workflows.html", {"workflows": found, "asked": state, "states": list(Progress)})


async def workflow(visit: Visit) -> RenderedPage:
    """Show one workflow as a graph, and its steps as a table."""
    shown = workflow_for(await reached.workflow(visit.sf, visit.grant, visit.path["id"]), visit.grant)
    return RenderedPage("workflow.html", {"workflow": shown, "drawing": drawing(shown["steps"])})


def drawing(steps: dict[str, dict[str, Any]]) -> Drawing | None:
    """Lay the steps out from left to right, each behind the steps it waits for; None if there are none or too many."""
    if not 0 < len(steps) <= MOST_DRAWN:
        return None
    depths = layers({name: step["after"] for name, step in steps.items()})
    columns: defaultdict[int, list[str]] = defaultdict(list)
    for name, depth in depths.items():
        columns[depth].append(name)
    places = {name: (depth, row) for depth, names in columns.items() for row, name in enumerate(names)}
    boxes = {name: _box(name, *places[name], steps[name]) for name in steps}
    ways = [_way(boxes[before], boxes[name]) for name, step in steps.items() for before in step["after"]]
    width = len(columns) * (WIDTH + ACROSS) - ACROSS + 2
    height = max(map(len, columns.values())) * (HEIGHT + DOWN) - DOWN + 2
    return Drawing(width, height, list(boxes.values()), ways)


def _box(name: str, column: int, row: int, step: dict[str, Any]) -> Box:
    return Box(name, column * (WIDTH + ACROSS) + 1, row * (HEIGHT + DOWN) + 1, step)


def _way(before: Box, after: Box) -> str:
    """Draw a curve from a step to one that waits for it."""
    x1, y1, x2, y2 = before.x + WIDTH, before.y + HEIGHT // 2, after.x, after.y + HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"


PAGES = (Page("/workflows", workflows), Page("/workflows/{id}", workflow))
ACTIONS = (
    Action(
        "/workflows/{id}/cancel",
        "POST",
        "/workflows/{id}/cancel",
        ReturnTo("/workflows/{id}", "workflow-cancel", "The workflow is being cancelled."),
    ),
)
