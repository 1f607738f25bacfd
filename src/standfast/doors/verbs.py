"""Every verb of a `Standfast`, and where each door offers it, or why it does not. A test checks the doors against it.

Add a new verb here first: its route, its command, its page or form, its tool.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Why(StrEnum):
    """Why a door does not offer a verb."""

    CODE = "it declares what an application does, and that is code"
    PART = "it is a part that doors and workers are made of"
    PROGRAM = "it is for programs"
    SHELL = "it reads or writes files of a machine, and so belongs to a shell there"
    PERSON = "it is a person's decision, not an agent's"
    SLIM = "agents are given few tools, and `health`, `explain` and resources tell them this"
    CALLS = "agents call handlers, with `run` and `submit`"
    LIVE = "pages follow what happens by themselves"
    INSIDE = "a handler says it while it runs"
    LONG = "a request would wait too long; `GET /notices` tells the end"
    FINAL = "it deletes for good, and so is not one click away"
    AGENTS = "inboxes are for agents"
    LATER = "it is not offered here yet"


Offer = str | tuple[str, ...] | Why
"""What a door calls a verb, or the several names it has for it, or why it has none."""


class Verb(NamedTuple):
    """One verb. Routes and pages are written as `METHOD /path`, commands as typed, tools by their names."""

    name: str
    route: Offer
    command: Offer
    page: Offer
    tool: Offer


def _nowhere(why: Why, *names: str) -> tuple[Verb, ...]:
    """Return verbs that no door offers, for one reason."""
    return tuple(Verb(name, why, why, why, why) for name in names)


def _letter(verb: str) -> Verb:
    """Return a verb that ends or changes one letter."""
    path = f"POST /dead-letters/{{id}}/{verb}"
    return Verb(f"dead_letters.{verb}", path, f"dead {verb}", path, Why.PERSON)


def _steering(verb: str) -> Verb:
    """Return a verb that steers a redrive."""
    path = f"POST /redrives/{{id}}/{verb}"
    return Verb(f"redrive.{verb}", path, f"dead redrive --{verb}", path, Why.PERSON)


def _switch(noun: str, command: str, verb: str, tool: Why) -> Verb:
    """Return a verb that pauses or resumes something that has a name."""
    path = f"POST /{noun}/{{name}}/{verb}"
    return Verb(f"{noun}.{verb}", path, f"{command} {verb}", path, tool)


_WORK = (
    Verb("enqueue", "POST /jobs", "enqueue", Why.PROGRAM, Why.CALLS),
    Verb("enqueue_http", "POST /jobs", "http", Why.PROGRAM, Why.CALLS),
    Verb("enqueue_many", "POST /jobs:bulk", "enqueue --jsonl", Why.PROGRAM, Why.CALLS),
    Verb("enqueue_each", "POST /jobs:bulk", "enqueue --jsonl", Why.PROGRAM, Why.CALLS),
    Verb("ingest", "POST /ingest/{source}", "ingest", Why.PROGRAM, Why.PROGRAM),
    Verb("run", "POST /run", "run", Why.PROGRAM, "run"),
    Verb("submit", "POST /submit", "submit", Why.PROGRAM, "submit"),
    Verb("hand_over", "POST /hand-over", Why.PROGRAM, Why.PROGRAM, Why.PROGRAM),
    Verb("run_worker", Why.SHELL, "worker", Why.SHELL, Why.SHELL),
    Verb("handler.enqueue", "POST /jobs", "enqueue", Why.PROGRAM, Why.CALLS),
    Verb("handler.enqueue_many", "POST /jobs:bulk", "enqueue --jsonl", Why.PROGRAM, Why.CALLS),
    Verb("handler.run", "POST /run", "run", Why.PROGRAM, "run"),
    Verb("handler.submit", "POST /submit", "submit", Why.PROGRAM, "submit"),
    *_nowhere(Why.PART, "handler.read", "handler.identity_of", "worker.run_suspects"),
    *_nowhere(Why.PART, "job.as_it_stands", "job.fetch_result", "job.keep", "job.with_payload"),
    *_nowhere(Why.CODE, "worker.drain", "worker.run_due", "outbox.relay", "outbox.close"),
    *_nowhere(Why.PART, "outbox.loop"),
    *_nowhere(Why.CODE, "prepare", "wrap_handlers"),
    *_nowhere(
        Why.INSIDE, *(f"job.{name}" for name in ("effect", "once", "once_sync", "progress", "step", "step_sync"))
    ),
    *_nowhere(Why.CODE, "queue", "handler", "schedule", "workflow", "worker", "outbox", "alerting", "enqueue_sync"),
    *_nowhere(Why.CODE, "on_failure", "on_startup", "on_shutdown", "middleware", "error_kinds"),
    *_nowhere(Why.PART, "worker.finish_due", "worker.finish_claimed"),
    *_nowhere(
        Why.PART,
        "open",
        "close",
        "begin",
        "resolve_handler",
        "full_id",
        "unknown_job",
        "snapshot",
        "exists",
        "count_ignored",
        "publish_nothing",
        "run_suspects",
    ),
)
_JOBS = (
    Verb("status", "GET /jobs/{id}", "status", "GET /jobs/{id}", "status"),
    Verb("wait", Why.LONG, "wait", Why.LIVE, "wait"),
    Verb("result", "GET /jobs/{id}/result", "status --json", "GET /jobs/{id}", "result"),
    Verb("explain", "GET /jobs/{id}/explain", "explain", "GET /jobs/{id}", "explain"),
    Verb("jobs", "GET /jobs", "jobs", "GET /jobs", "jobs"),
    Verb("retry", "POST /jobs/{id}/retry", "retry", ("POST /jobs/{id}/retry", "POST /jobs/many"), "retry"),
    Verb("cancel", "POST /jobs/{id}/cancel", "cancel", ("POST /jobs/{id}/cancel", "POST /jobs/many"), "cancel"),
)
_WHOLE = (
    Verb("stats", "GET /stats", "stats", ("GET /", "GET /workers"), Why.SLIM),
    Verb("workers", "GET /workers", "workers", "GET /workers", Why.SLIM),
    Verb("alerts.list", "GET /alerts", "alerts list", "GET /", "health"),
    Verb("health", "GET /health", "health", "GET /", "health"),
    Verb("ready", "GET /readyz", Why.PROGRAM, Why.PROGRAM, Why.PROGRAM),
    Verb("measures", "GET /metrics", Why.PROGRAM, Why.PROGRAM, Why.PROGRAM),
    Verb("subscribe", "GET /notices", "tail", Why.LIVE, Why.AGENTS),
    Verb("doctor", Why.SHELL, "doctor", Why.SHELL, Why.SHELL),
    Verb("migrate", Why.SHELL, "migrate", Why.SHELL, Why.SHELL),
    Verb("backup", Why.SHELL, "backup", Why.SHELL, Why.SHELL),
    Verb(
        "imports.bring_in",
        Why.SHELL,
        ("import jsonl", "import sqlite", "import ops", "import redis", "import-jsonl"),
        Why.SHELL,
        Why.SHELL,
    ),
    *_nowhere(Why.PART, "reader", "as_event"),
)
_QUEUES = (
    Verb("queues.list", "GET /queues", "queue list", "GET /queues", Why.SLIM),
    Verb("queues.describe", "GET /queues", "queue list", ("GET /queues", "GET /queues/{name}"), Why.SLIM),
    _switch("queues", "queue", "pause", Why.PERSON),
    _switch("queues", "queue", "resume", Why.PERSON),
    Verb("queues.handlers", Why.LATER, Why.LATER, Why.LATER, "status"),
    Verb("queues.try_now", "POST /breakers/try", "queue try", "POST /breakers/try", Why.PERSON),
    *_nowhere(Why.PART, "queues.published"),
)
_LETTERS = (
    Verb("dead_letters.list", "GET /dead-letters", "dead list", "GET /dead-letters", "list_dead_letters"),
    Verb("dead_letters.get", "GET /dead-letters/{id}", "dead show", "GET /jobs/{id}", "status"),
    Verb("dead_letters.groups", "GET /dead-letters/groups", "dead groups", "GET /dead-letters", Why.SLIM),
    _letter("replay")._replace(tool="propose_replay"),
    *map(_letter, ("amend", "resolve", "discard", "quarantine")),
    Verb("dead_letters.purge", "DELETE /dead-letters", "dead purge", Why.FINAL, Why.PERSON),
    Verb("dead_letters.export", Why.SHELL, "dead export", Why.SHELL, Why.PERSON),
    Verb("dead_letters.import_", Why.SHELL, "dead import", Why.SHELL, Why.PERSON),
    Verb("dead_letters.plan", "POST /dead-letters/plan", "dead plan", "POST /dead-letters/plan", Why.PERSON),
    Verb("dead_letters.redrive", "POST /redrives", "dead redrive", "POST /redrives", Why.PERSON),
)
_REDRIVES = (
    Verb("redrive.progress", "GET /redrives/{id}", "dead redrive --show", "GET /redrives/{id}", Why.PERSON),
    Verb("redrive.failures", "GET /redrives/{id}", "dead redrive --show", "GET /redrives/{id}", Why.PERSON),
    *map(_steering, ("pause", "resume", "cancel")),
    Verb("dead_letters.redrives.list", "GET /redrives", "dead redrives", "GET /redrives", Why.PERSON),
    *_nowhere(
        Why.PART,
        *(
            f"dead_letters.redrives.{name}"
            for name in ("plan", "start", "get", "progress", "failures", "steer", "queue_of", "drive")
        ),
    ),
)
_GOVERNANCE = (
    Verb("approvals.list", "GET /approvals", "approvals list", "GET /approvals", Why.PERSON),
    Verb("approvals.get", "GET /approvals/{id}", "approvals show", "GET /approvals/{id}", Why.PERSON),
    Verb(
        "approvals.approve",
        "POST /approvals/{id}/approve",
        "approvals approve",
        "POST /approvals/{id}/approve",
        Why.PERSON,
    ),
    Verb("approvals.deny", "POST /approvals/{id}/deny", "approvals deny", "POST /approvals/{id}/deny", Why.PERSON),
    *_nowhere(Why.PART, *(f"approvals.{name}" for name in ("of", "asked_by_agent", "file", "filing", "sweep"))),
    Verb("policy.show", "GET /policy", "policy show", "GET /policy", Why.PERSON),
    Verb("policy.check", "POST /policy/check", "policy check", "POST /policy/check", Why.PERSON),
    *_nowhere(Why.CODE, "policy.load", "policy.use"),
    *_nowhere(Why.PART, *(f"policy.{name}" for name in ("permit", "permit_many", "refresh", "reload", "keep_out"))),
    *_nowhere(Why.PART, *(f"policy.{name}" for name in ("put_in_force", "learn", "declares", "take_over"))),
    Verb("audit.entries", "GET /audit", "audit log", "GET /audit", Why.SLIM),
    Verb("audit.last", "GET /audit", "audit log --last", "GET /audit", Why.SLIM),
    Verb("audit.verify", "GET /audit/verify", "audit verify", "GET /audit/verify", Why.SLIM),
    Verb("audit.export", Why.SHELL, "audit export", Why.SHELL, Why.SHELL),
    Verb("tokens.create", "POST /tokens", "token create", "POST /tokens", Why.PERSON),
    Verb("tokens.list", "GET /tokens", "token list", "GET /tokens", Why.PERSON),
    Verb("tokens.revoke", "DELETE /tokens/{name}", "token revoke", "POST /tokens/{name}/revoke", Why.PERSON),
    *_nowhere(Why.PART, "tokens.grant", "tokens.current_grant", "tokens.bounded"),
    *_nowhere(Why.PART, "browser_sessions.open", "browser_sessions.grant", "browser_sessions.close"),
    *_nowhere(Why.PART, "shared_settings.put_in_force", "shared_settings.look", "shared_settings.groups_of"),
    *_nowhere(Why.PART, *(f"shared_settings.{name}" for name in ("loop", "keep_up", "published_replay"))),
)
_AGENTS = (
    Verb("inbox.list", "GET /sessions/{id}/inbox", "inbox", Why.AGENTS, "inbox"),
    Verb("inbox.ack", "POST /sessions/{id}/inbox/{message}/ack", "inbox --ack", Why.AGENTS, "ack"),
    Verb("inbox.overview", Why.LATER, Why.LATER, Why.AGENTS, "status"),
    *_nowhere(Why.PART, "inbox.keep_reply", "inbox.received"),
    Verb("consent.grant", "POST /consents", "consent grant", "POST /consents", Why.PERSON),
    Verb("consent.deny", "POST /consents", "consent deny", "POST /consents", Why.PERSON),
    Verb(
        "consent.answer",
        ("POST /consents/{id}/grant", "POST /consents/{id}/deny"),
        ("consent grant", "consent deny"),
        ("POST /consents/{id}/grant", "POST /consents/{id}/deny"),
        Why.PERSON,
    ),
    Verb("consent.revoke", "POST /consents/revoke", "consent revoke", "POST /consents/revoke", Why.PERSON),
    Verb("consent.list", "GET /consents", "consent list", "GET /consents", Why.PERSON),
    Verb("consent.asks", "GET /consents", "consent list", "GET /consents", Why.PERSON),
    Verb("consent.check", Why.PROGRAM, Why.PROGRAM, Why.PROGRAM, Why.PROGRAM),
    *_nowhere(Why.PART, "consent.sweep", "consent.foreseen", "consent.withdraw"),
)
_IN_ORDER = (
    Verb("schedules.list", "GET /schedules", "schedule list", "GET /schedules", Why.SLIM),
    Verb("schedules.add", "POST /schedules", "schedule add", Why.LATER, Why.SLIM),
    Verb(
        "schedules.remove", "DELETE /schedules/{name}", "schedule remove", "POST /schedules/{name}/remove", Why.PERSON
    ),
    *_nowhere(Why.PART, "schedules.put", "schedules.check_times"),
    _switch("schedules", "schedule", "pause", Why.PERSON),
    _switch("schedules", "schedule", "resume", Why.PERSON),
    Verb("workflows.get", "GET /workflows/{id}", "workflow show", "GET /workflows/{id}", Why.SLIM),
    Verb("workflows.list", "GET /workflows", "workflow list", "GET /workflows", Why.SLIM),
    Verb(
        "workflows.cancel", "POST /workflows/{id}/cancel", "workflow cancel", "POST /workflows/{id}/cancel", Why.PERSON
    ),
    *_nowhere(Why.PART, "workflows.job", "workflows.start"),
    *_nowhere(Why.CODE, "workflow.step", "workflow.start"),
)
VERBS = (*_WORK, *_JOBS, *_WHOLE, *_QUEUES, *_LETTERS, *_REDRIVES, *_GOVERNANCE, *_AGENTS, *_IN_ORDER)
"""The table."""

OF_THE_SHELL = {
    "serve": "opens a door",
    "mcp": "opens a door",
    "alive": "looks at a file, and opens no store",
    "config": "shows the settings of a directory",
    "restore": "makes a store, before there is one to ask",
    "promote": "moves a store to another",
    "policy test": "asks a policy about cases in a file",
    "policy drill": "rehearses in its own store",
    "demo": "shows the product in its own store",
    "bench": "measures in its own stores",
    "scan": "reads source files and needs no store",
}
"""Commands that are not verbs of a store, and what they do instead."""


def offers(offer: Offer) -> tuple[str, ...]:
    """Return the names that a door has for a verb."""
    if isinstance(offer, Why):
        return ()
    return (offer,) if isinstance(offer, str) else offer
