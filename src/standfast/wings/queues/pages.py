"""Pages about queues: all of them, and one with its rules and its newest jobs."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from standfast.dashboard.actions import Action, ReturnTo
from standfast.dashboard.incidents import incidents
from standfast.dashboard.page import Page, Redirect, RenderedPage, Visit
from standfast.errors import UnknownQueue
from standfast.server.route import Call
from standfast.server.token_view import gates_of, job_for, queue_of_issue, text_for, value_for, values_for
from standfast.wings.access.words import Grant, Right
from standfast.wings.limits.outages import breaker_words, dependency_of
from standfast.wings.queues.rule_words import rules_in_words
from standfast.wings.records.figures import count_of, number, span

RECENT = 20


def rows_of(queues: dict[str, dict[str, Any]], grant: Grant) -> list[tuple[str, dict[str, Any]]]:
    """Return the queues that a token reaches: those with letters first, then the busy ones."""
    reached = [(name, each) for name, each in queues.items() if grant.reaches(name)]
    return sorted(reached, key=lambda row: (-row[1]["letters"], -row[1]["due"], row[0]))


async def queues(visit: Visit) -> RenderedPage:
    """Show every queue."""
    return RenderedPage("queues.html", {"rows": rows_of(await visit.queues(), visit.grant)})


async def queue(visit: Visit) -> RenderedPage:
    """Show one queue: what it holds, its rules, and its newest jobs."""
    name = visit.path["name"]
    jobs = await visit.sf.jobs(queue=name, limit=RECENT)  # before the slow reads: the store does one read at a time
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
        "rules": value_for(rules_in_words(found["rules"]), visit.grant),
        "attempts": count_of(found["rules"].attempts, "attempt"),
        "workers": count_of(found["workers"], "worker"),
        "jobs": [job_for(job, visit.grant) for job in jobs],
        "gates": [{**gate, "now": gate_words(gate), "try": held_back_for(gate, visit.grant)} for gate in gates],
        "incidents": incidents(issues, alerts, [name]),
    }
    return RenderedPage("queue.html", context)


def gate_words(gate: dict[str, Any]) -> str:
    """Describe a gate: what is taken, what does not answer, why it is closed; and when that changes."""
    soon = "" if not gate["opens_in"] else f" in {span(gate['opens_in'])}"
    match gate["kind"]:
        case "limit":
            return f"{number(gate['used'])} of {number(gate['limit'])} taken"
        case "breaker":
            return breaker_words(gate)
    words = [gate.get("why"), f"opens{soon}" if soon else None]
    return "; ".join(filter(None, words))


def held_back_for(gate: dict[str, Any], grant: Grant) -> str | None:
    """Return the dependency that a breaker waits for, if the visitor may have it tried now."""
    open_ = gate["kind"] == "breaker" and gate["state"] == "open"
    return dependency_of(gate["key"]) if open_ and grant.may(Right.OPERATE) and grant.queues is None else None


TRIED, NOT_TRIED = "tried", "not-tried"


class Tried:
    """Leads to the overview, which says whether anything was held back."""

    says: ClassVar = {
        TRIED: "The next job that waits for it tries it now.",
        NOT_TRIED: "Nothing is held back for it any more.",
    }

    def __call__(self, _call: Call, said: Any) -> Redirect:
        """Return the redirect."""
        return Redirect(f"/?done={TRIED if said['trying'] else NOT_TRIED}")


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
        ReturnTo("/queues/{name}", "resume", "The queue is resumed."),
    ),
    Action("/breakers/try", "POST", "/breakers/try", Tried()),
)
