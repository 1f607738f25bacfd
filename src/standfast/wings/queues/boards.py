"""Tables of queues and counts for people to read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from standfast.cli.terminal import Cell, Table
from standfast.cli.words import ago
from standfast.profiles import RULES
from standfast.rules import DEFAULTS, Backoff, QueueRules
from standfast.wings.limits.outages import breaker_words
from standfast.wings.queues.pauses import pause_words
from standfast.wings.queues.rule_words import rule_in_words, wait_in_words
from standfast.wings.records.figures import count_of, number, span

ALWAYS = ("attempts", "backoff", "lease", "timeout")
"""The rules that are always shown; the others are shown if they are not the default."""


def queue_board(queues: dict[str, dict[str, Any]], now: datetime) -> Table:
    """Lay out the queues, one per row."""
    counts = ("due", "running", "scheduled", "parked", "letters", "workers")
    columns = ("queue", "state", *counts, "from", "rules in force", "handlers")
    return Table([_queue_row(name, facts, now) for name, facts in queues.items()], columns)


def stats_board(counted: dict[str, Any], now: datetime) -> list[Table]:
    """Lay out the totals, then the queues and the workers."""
    tables = [Table(list(_totals(counted, now)))]
    if counted["queues"]:
        columns = ("queue", "state", "due", "running", "scheduled", "parked", "letters", "so far")
        rows = [_count_row(name, facts, now) for name, facts in sorted(counted["queues"].items())]
        tables.append(Table(rows, columns, "Queues"))
    if (counted["spool"] or {}).get("depth"):
        rows = [_spool_row(entry) for entry in counted["spool"]["entries"]]
        tables.append(Table(rows, ("job", "queue", "waits for", "why it is not in the store"), "Spool"))
    if counted.get("outboxes"):
        rows = [_outbox_row(each) for each in counted["outboxes"]]
        tables.append(Table(rows, ("outbox", "jobs that wait", "oldest", "last relayed"), "Outboxes"))
    if counted.get("gates"):
        rows = [[gate["key"], *_gate_state(gate)] for gate in counted["gates"]]
        tables.append(Table(rows, ("gate", "state", "opens in"), "Limits, rates, breakers and gates"))
    if counted["workers"]:
        rows = [_worker_row(worker) for worker in counted["workers"]]
        tables.append(Table(rows, ("worker", "pid", "last seen", "queues"), "Workers"))
    return tables


def _queue_row(name: str, facts: dict[str, Any], now: datetime) -> list[str | Cell]:
    counts = [
        _count_cell(facts, "due"),
        _count_cell(facts, "running", "green"),
        _count_cell(facts, "scheduled", "blue"),
    ]
    return [
        name,
        _open(facts, now),
        *counts,
        _count_cell(facts, "parked", "yellow"),
        _count_cell(facts, "letters", "bold red"),
        _count_cell(facts, "workers", "green"),
        facts["rules_from"],
        in_words(facts["rules"]),
        ", ".join(handler_words(each, name) for each in facts["handlers"]),
    ]


def profile_board() -> Table:
    """Lay out the profiles: ready-made rules for queues of these names."""
    return Table([(name, in_words(rules)) for name, rules in RULES.items()], ("queue", "rules"), "Profiles")


def _totals(counted: dict[str, Any], now: datetime) -> Iterator[tuple[str, str | Cell]]:
    yield "pending", _count_cell(counted, "total_pending")
    yield "parked", _parked(list(counted["queues"].values()))
    yield "running", _count_cell(counted, "total_processing", "green")
    yield "dead letters", _count_cell(counted, "total_dead_letter", "bold red")
    if counted["total_awaiting_consent"]:
        yield "of these, waiting for consent", _count_cell(counted, "total_awaiting_consent", "bold yellow")
    if counted["oldest_pending_seconds"] is not None:
        yield "oldest pending", f"{span(counted['oldest_pending_seconds'])} ago"
    if counted["next_retry_at"] is not None:
        yield "next due", ago(datetime.fromisoformat(counted["next_retry_at"]), now)
    yield "workers", _number(len(counted["workers"]), "green")
    if (counted["spool"] or {}).get("depth"):
        spool = counted["spool"]
        yield (
            "spooled here",
            Cell(f"{number(spool['depth'])}, the oldest for {span(spool['oldest_seconds'])}", "bold yellow"),
        )


def _parked(queues: list[dict[str, Any]]) -> Cell:
    """Count the jobs of all queues that wait for something other than a worker."""
    return _number(sum(facts["parked"] for facts in queues), "yellow")


def _count_row(name: str, facts: dict[str, Any], now: datetime) -> list[str | Cell]:
    doing = [_count_cell(facts, what).text for what in ("due", "running", "scheduled", "parked")]
    so_far = ", ".join(f"{kind} {number(count)}" for kind, count in sorted(facts["counters"].items()))
    return [name, _open(facts, now), *doing, _count_cell(facts, "letters", "bold red"), so_far]


def _gate_state(gate: dict[str, Any]) -> list[str | Cell]:
    """Describe what a gate counts or why it is shut, and when it opens by itself."""
    opens = "" if gate["opens_in"] is None else span(gate["opens_in"])
    match gate["kind"]:
        case "limit":
            full = gate["used"] >= gate["limit"]
            return [Cell(f"{number(gate['used'])} of {number(gate['limit'])} taken", "yellow" if full else ""), opens]
        case "breaker":
            away = gate["state"] in {"open", "half", "probing"}
            return [Cell(breaker_words(gate), "bold red" if away else ""), opens]
        case "probe" if gate["up"]:
            return ["up in one process, not in another", ""]
        case "gate" | "probe" | "hold":
            return [Cell(f"closed for {span(gate['closed_seconds'])}: {gate['why']}", "bold yellow"), opens]
        case _:
            return ["", opens]


def _worker_row(worker: dict[str, Any]) -> list[str | Cell]:
    queues = ", ".join(worker["queues"]) or "no queue of its own"
    return [worker["id"], str(worker["pid"]), f"{span(worker['beat_seconds_ago'])} ago", queues]


def workers_board(workers: list[dict[str, Any]], now: datetime) -> list[Table]:
    """Lay out the workers, then their running jobs, the longest-running first."""
    rows = [_working_row(each, now) for each in workers]
    jobs = [(job, each["id"]) for each in workers for job in each["jobs"]]
    jobs.sort(key=lambda found: (found[0]["since"], found[1], found[0]["id"]))
    running = [(job["id"], job["queue"], str(job["attempt"]), ago(job["since"], now), of) for job, of in jobs]
    tables = [Table(rows, ("worker", "host", "pid", "started", "heard", "running", "serves"))]
    return [*tables, Table(running, ("job", "queue", "attempt", "since", "worker"), "Running")] if running else tables


def _working_row(worker: dict[str, Any], now: datetime) -> list[str | Cell]:
    _, pid, heard, queues = _worker_row(worker)
    running = _number(sum(worker["running"].values()), "green")
    return [worker["id"], worker["host"], pid, ago(worker["started_at"], now), heard, running, queues]


def _spool_row(entry: dict[str, Any]) -> list[str | Cell]:
    return [entry["id"], entry["queue"], span(entry["waited_seconds"]), entry["reason"]]


def _outbox_row(outbox: dict[str, Any]) -> list[str | Cell]:
    """Describe an outbox; how many jobs wait there is known only where it is declared."""
    relayed = outbox["relayed_seconds_ago"]
    jobs: str | Cell = "see the application" if outbox["jobs"] is None else _number(outbox["jobs"], "yellow")
    return [
        outbox["database"],
        jobs,
        span(outbox["oldest_seconds"]),
        "never" if relayed is None else f"{span(relayed)} ago",
    ]


def _open(facts: dict[str, Any], now: datetime) -> Cell:
    return Cell(pause_words(facts.get("pause"), now), "bold yellow") if facts["paused"] else Cell("active", "green")


def _count_cell(counts: dict[str, Any], name: str, style: str = "") -> Cell:
    return _number(counts[name], style)


def _number(count: int, style: str = "") -> Cell:
    return Cell(number(count), style if count else "dim")


def in_words(rules: QueueRules) -> str:
    """Describe the rules that are always shown, and each other rule that is not the default."""
    words = [count_of(rules.attempts, "attempt"), _backoff(rules.backoff), f"lease {span(rules.lease)}"]
    words.append("no timeout" if rules.timeout is None else f"timeout {span(rules.timeout)}")
    for name in QueueRules.__struct_fields__:
        value = getattr(rules, name)
        if name not in ALWAYS and value != getattr(DEFAULTS, name):
            words.append(f"{name} {'none' if value is None else rule_in_words(name, value)}")
    return ", ".join(words)


def handler_words(handler: dict[str, Any], queue: str) -> str:
    """Describe a published handler: its name, unless that is the queue's, and what follows an unknown outcome."""
    name = "" if handler["name"] == queue else f"{handler['name']}: "
    words = [f"replay={handler['replay']}"]
    words += ["asks for consent"] if handler["consent"] else []
    words += [f"risk {handler['risk']}"] if handler["risk"] else []
    return name + "; ".join(words)


def _backoff(backoff: Backoff) -> str:
    return "no backoff" if backoff.table and not any(backoff.table) else f"backoff {wait_in_words(backoff)}"
