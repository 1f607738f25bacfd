"""Pages about queues: all of them, and one with its rules and its newest jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from standfast.dashboard.actions import Action, ReturnTo
from standfast.dashboard.drawing import span
from standfast.dashboard.incidents import incidents
from standfast.dashboard.page import Page, RenderedPage, Visit
from standfast.errors import UnknownQueue
from standfast.server.token_view import gates_of, job_for, queue_of_issue, text_for, value_for, values_for
from standfast.wings.access.words import Grant

RECENT = 20


def rows_of(queues: dict[str, dict[str, Any]], grant: Grant) -> list[tuple[str, dict[str, Any]]]:
    """Give the queues that a token reaches: those with letters first, then the busy ones."""
    reached = [(name, each) for name, each in queues.items() if grant.reaches(name)]
    return sorted(reached, key=lambda row: (-row[1]["letters"], -row[1]["due"], row[0]))


async def queues(visit: Visit) -> RenderedPage:
    """Show every queue."""
    return RenderedPage("queues.html", {"rows": rows_of(await visit.queues(), visit.grant)})


async def queue(visit: Visit) -> RenderedPage:
    """Show one queue: what it holds, its rules, and its newest jobs."""
    name = visit.path["name"]
    jobs = await visit.sf.jobs(queue=name, limit=RECENT)  # before what takes long: the store reads one after the other
    queues, stats, health = await asyncio.gather(visit.queues(), visit.stats(), visit.health())
    found = queues.get(name) if visit.grant.reaches(name) else None
    if found is None:
        raise UnknownQueue(f"no queue is named {name!r}")
    issues = [text_for(each, visit.grant) for each in health["issues"] if queue_of_issue(each, queues) == name]
    alerts = values_for((each for each in health["alerts"] if each["queue"] == name), visit.grant)
    gates = gates_of(stats["gates"], name, found["rules"], visit.grant)
    context = {
        "name": name,
        "queue": found,
        "rules": value_for(msgspec.to_builtins(found["rules"]), visit.grant),
        "jobs": [job_for(job, visit.grant) for job in jobs],
        "gates": [{**gate, "now": gate_words(gate)} for gate in gates],
        "incidents": incidents(issues, alerts, [name]),
    }
    return RenderedPage("queue.html", context)


def gate_words(gate: dict[str, Any]) -> str:
    """Say how a gate stands: what is taken, what does not answer, why it is closed; and when that changes."""
    soon = "" if not gate["opens_in"] else f" in {span(gate['opens_in'])}"
    match gate["kind"], gate.get("state"):
        case "limit", _:
            return f"{gate['used']} of {gate['limit']} taken"
        case "breaker", "closed":
            return f"{_dependency(gate)} answers"
        case "breaker", "recovering":
            return f"{_dependency(gate)} answers again"
        case "breaker", _:
            missed = "has not answered" if gate["failures"] == 1 else f"has not answered {gate['failures']} times"
            return f"{_dependency(gate)} {missed}" + (f"; next try{soon}" if soon else "; it is being tried")
    words = [gate.get("why"), f"opens{soon}" if soon else None]
    return "; ".join(filter(None, words))


def _dependency(gate: dict[str, Any]) -> str:
    return str(gate["key"]).partition(":")[2]


PAGES = (Page("/queues", queues), Page("/queues/{name:path}", queue))
ACTIONS = (
    Action(
        "/queues/{name:path}/pause",
        "POST",
        "/queues/{name}/pause",
        ReturnTo("/queues/{name}", "pause", "The queue is paused: nothing more of it starts."),
    ),
    Action(
        "/queues/{name:path}/resume",
        "POST",
        "/queues/{name}/resume",
        ReturnTo("/queues/{name}", "resume", "The queue goes on."),
    ),
)
