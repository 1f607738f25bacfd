"""A workflow drawn as lines of text, one step on each, or as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from standfast.lifecycle import State
from standfast.wings.workflows.rules import layers

Shown = Mapping[str, Any]
"""A workflow as `get` returns it."""

MARKS = {
    State.COMPLETED: "✔",
    State.RUNNING: "▶",
    State.QUEUED: "○",
    State.WAITING: "…",
    State.DEAD: "✘",
    State.HELD: "‖",
    State.CANCELLED: "-",
}
DEEPEST = 12
"""How deep lines are indented; a deeper step has its depth written before its name."""
WIDTH = 30
MOST_AFTER = 4
COLOURS = {
    State.COMPLETED: "fill:#d5f5d5,stroke:#2a7a2a",
    State.RUNNING: "fill:#d5e8ff,stroke:#1f5fa8",
    State.QUEUED: "fill:#fff8d5,stroke:#9a7d0a",
    State.WAITING: "fill:#f2f2f2,stroke:#888888",
    State.DEAD: "fill:#ffd5d5,stroke:#a81f1f",
    State.HELD: "fill:#f0d5ff,stroke:#6f1fa8",
    State.CANCELLED: "fill:#ffffff,stroke:#aaaaaa,stroke-dasharray:4",
}


class Line(NamedTuple):
    """One step: its drawing in the graph, and the text beside it."""

    state: str
    drawn: str
    said: str


def bar(workflow: Shown) -> str:
    """Draw how far a workflow has come."""
    total, done = workflow["total"], workflow["completed"]
    full = done * WIDTH // total
    return f"[{'#' * full}{'-' * (WIDTH - full)}] {done} of {total} steps completed"


def lines(workflow: Shown) -> list[Line]:
    """Draw each step below the steps it waits for, indented by its depth in the graph."""
    steps: Mapping[str, Shown] = workflow["steps"]
    depths = layers({name: step["after"] for name, step in steps.items()})
    return [_line(name, steps[name], depths[name]) for name in sorted(steps, key=lambda name: depths[name])]


def _line(name: str, step: Shown, depth: int) -> Line:
    indent = "  " * min(depth, DEEPEST)
    deep = f"({depth}) " if depth > DEEPEST else ""
    arrow = "└ " if depth else ""
    after = f"after {_join(step['after'])}" if step["after"] else ""
    text = "  ".join(part for part in (step["view"], after, step["reason"] or "") if part)
    return Line(step["state"], f"{indent}{arrow}{deep}{MARKS[State(step['state'])]} {name}", text)


def _join(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_AFTER])
    return shown if len(names) <= MOST_AFTER else f"{shown} and {len(names) - MOST_AFTER} more"


def mermaid(workflow: Shown) -> str:
    """Draw a workflow as a Mermaid flowchart, its steps coloured by state."""
    steps: Mapping[str, Shown] = workflow["steps"]
    places = {name: f"s{place}" for place, name in enumerate(steps)}
    drawn = ["flowchart TD"]
    drawn += [f'    {places[name]}["{_quoted(name)}<br/>{step["view"]}"]' for name, step in steps.items()]
    drawn += [f"    {places[each]} --> {places[name]}" for name, step in steps.items() for each in step["after"]]
    for state, colour in COLOURS.items():
        of_state = ",".join(places[name] for name, step in steps.items() if step["state"] == state)
        if of_state:
            drawn += [f"    classDef {state} {colour}", f"    class {of_state} {state}"]
    return "\n".join(drawn)


def _quoted(name: str) -> str:
    """Escape a name so that Mermaid, and the page it is shown in, can read it only as text."""
    return "".join(each if each.isalnum() or each in " _-./:" else f"#{ord(each)};" for each in name)
