"""Queues and counts laid out for reading."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from standfast.cli.terminal import Cell, Table
from standfast.cli.words import ago, count_of, span
from standfast.rules import DEFAULTS, Backoff, QueueRules

ALWAYS = ("attempts", "backoff", "lease", "timeout")
"""The rules one asks for first; the others are told where they are not the default."""


def queue_board(queues: dict[str, dict[str, Any]]) -> Table:
    """Lay out every queue, one a row."""
    columns = ("queue", "state", "due", "running", "scheduled", "parked", "letters", "workers", "rules in force")
    return Table([_queue_row(name, facts) for name, facts in queues.items()], columns)


def stats_board(counted: dict[str, Any], now: datetime) -> list[Table]:
    """Lay out the totals, then the queues and the workers."""
    tables = [Table(list(_totals(counted, now)))]
    if counted["queues"]:
        columns = ("queue", "state", "due", "running", "scheduled", "parked", "letters", "so far")
        tables.append(Table([_count_row(*item) for item in sorted(counted["queues"].items())], columns, "Queues"))
    if (counted["spool"] or {}).get("depth"):
        rows = [_spool_row(entry) for entry in counted["spool"]["entries"]]
        tables.append(Table(rows, ("job", "queue", "waits for", "why it is not in the store"), "Spool"))
    if counted.get("gates"):
        rows = [[gate["key"], *_gate_state(gate)] for gate in counted["gates"]]
        tables.append(Table(rows, ("gate", "state", "opens in"), "Limits, rates, breakers and gates"))
    if counted["workers"]:
        rows = [_worker_row(worker) for worker in counted["workers"]]
        tables.append(Table(rows, ("worker", "pid", "last seen", "queues"), "Workers"))
    return tables


def _queue_row(name: str, facts: dict[str, Any]) -> list[str | Cell]:
    counts = [
        _count_cell(facts, "due"),
        _count_cell(facts, "running", "green"),
        _count_cell(facts, "scheduled", "blue"),
    ]
    return [
        name,
        _open(facts),
        *counts,
        _count_cell(facts, "parked", "yellow"),
        _count_cell(facts, "letters", "bold red"),
        _count_cell(facts, "workers", "green"),
        in_words(facts["rules"]),
    ]


def _totals(counted: dict[str, Any], now: datetime) -> Iterator[tuple[str, str | Cell]]:
    yield "pending", _count_cell(counted, "total_pending")
    yield "parked", _parked(list(counted["queues"].values()))
    yield "running", _count_cell(counted, "total_processing", "green")
    yield "dead letters", _count_cell(counted, "total_dead_letter", "bold red")
    if counted["oldest_pending_seconds"] is not None:
        yield "oldest pending", f"{span(counted['oldest_pending_seconds'])} ago"
    if counted["next_retry_at"] is not None:
        yield "next due", ago(datetime.fromisoformat(counted["next_retry_at"]), now)
    yield "workers", _number(len(counted["workers"]), "green")
    if (counted["spool"] or {}).get("depth"):
        spool = counted["spool"]
        yield "spooled here", Cell(f"{spool['depth']}, the oldest for {span(spool['oldest_seconds'])}", "bold yellow")


def _parked(queues: list[dict[str, Any]]) -> Cell:
    """Count what waits for something else than a worker, over all queues."""
    bounded = ["parked"] if any("parked" in facts["at_least"] for facts in queues) else []
    return _count_cell({"parked": sum(facts["parked"] for facts in queues), "at_least": bounded}, "parked", "yellow")


def _count_row(name: str, facts: dict[str, Any]) -> list[str | Cell]:
    doing = [_count_cell(facts, what).text for what in ("due", "running", "scheduled", "parked")]
    so_far = ", ".join(f"{kind} {number}" for kind, number in sorted(facts["counters"].items()))
    return [name, _open(facts), *doing, _count_cell(facts, "letters", "bold red"), so_far]


def _gate_state(gate: dict[str, Any]) -> list[str | Cell]:
    """Say what a gate counts or why it is shut, and when it opens by itself."""
    opens = "" if gate["opens_in"] is None else span(gate["opens_in"])
    match gate["kind"]:
        case "limit":
            full = gate["used"] >= gate["limit"]
            return [Cell(f"{gate['used']} of {gate['limit']} taken", "yellow" if full else ""), opens]
        case "breaker":
            away = gate["state"] in {"open", "half", "probing"}
            return [
                Cell(f"{gate['state']}, {count_of(gate['failures'], 'failure')}", "bold red" if away else ""),
                opens,
            ]
        case "probe" if gate["up"]:
            return ["up in one process, not in another", ""]
        case "gate" | "probe" | "hold":
            return [Cell(f"closed for {span(gate['closed_seconds'])}: {gate['why']}", "bold yellow"), opens]
        case _:
            return ["", opens]


def _worker_row(worker: dict[str, Any]) -> list[str | Cell]:
    queues = ", ".join(worker["queues"]) or "no queue of its own"
    return [worker["id"], str(worker["pid"]), f"{span(worker['beat_seconds_ago'])} ago", queues]


def _spool_row(entry: dict[str, Any]) -> list[str | Cell]:
    return [entry["id"], entry["queue"], span(entry["waited_seconds"]), entry["reason"]]


def _open(facts: dict[str, Any]) -> Cell:
    return Cell("paused", "bold yellow") if facts["paused"] else Cell("open", "green")


def _count_cell(counts: dict[str, Any], name: str, style: str = "") -> Cell:
    """Give one count; where counting stopped at its bound, with a plus."""
    number = _number(counts[name], style)
    return Cell(f"{number.text}+", style) if name in counts["at_least"] else number


def _number(number: int, style: str = "") -> Cell:
    return Cell(str(number), style if number else "dim")


def in_words(rules: QueueRules) -> str:
    """Say the rules one asks for first, and each that is not the default."""
    words = [count_of(rules.attempts, "attempt"), _backoff(rules.backoff), f"lease {rules.lease:g} s"]
    words.append("no timeout" if rules.timeout is None else f"timeout {rules.timeout:g} s")
    for name in QueueRules.__struct_fields__:
        value = getattr(rules, name)
        if name not in ALWAYS and value != getattr(DEFAULTS, name):
            words.append(f"{name} {_plain(value)}")
    return ", ".join(words)


def _backoff(backoff: Backoff) -> str:
    if backoff.base is not None:
        return f"backoff {backoff.base:g} s doubling to {backoff.cap:g} s"
    first, last = backoff.table[0], backoff.table[-1]
    if first == last:
        return f"backoff {first:g} s" if first else "no backoff"
    return f"backoff {first:g} to {last:g} s"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
