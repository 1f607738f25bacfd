"""Health in words: its one-line form, and what two processes declare differently."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from standfast.wings.effects.default_replay import SETTING as DEFAULT_REPLAY
from standfast.wings.records.figures import count_of, span


def at_rest(health: Mapping[str, Any]) -> str:
    """Say what is stopped without being an issue: dead letters, jobs that wait for consent, and paused queues.

    Empty if there is nothing, or while the store is away. A server of an earlier version counts jobs that wait for
    consent only among the letters.
    """
    waiting = health.get("total_awaiting_consent") or 0
    counts = (
        ((health["total_dead_letter"] or 0) - waiting, "dead letter", ""),
        (waiting, "job", " waiting for consent"),
        (health["paused_queues"], "paused queue", ""),
    )
    return ", ".join(f"{count_of(count, what)}{more}" for count, what, more in counts if count)


def in_one_line(health: Mapping[str, Any]) -> str:
    """Return the status, and what is stopped although it is no issue."""
    stopped = at_rest(health)
    return f"{health['status']}; {stopped}" if stopped else str(health["status"])


def alert_line(alert: Mapping[str, Any], now: datetime) -> str:
    """Say what an alert is about. If it is clearing, its numbers are from when the condition last held."""
    started = f"started {span((now - datetime.fromisoformat(alert['since'])).total_seconds())} ago"
    if alert["clearing"]:
        return f"alert {alert['kind']} is clearing; it {started}, and was: {alert['message']}"
    return f"alert {alert['kind']} {started}: {alert['message']}"


class Conflict(NamedTuple):
    """A queue, queue/handler or `[store] replay` that two live processes declare differently, and how each does."""

    name: str
    sides: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say what differs, and what to do. A settings file has rules only for queues."""
        same = "start both from the same code"
        advice = same if "/" in self.name or " " in self.name else f"{same}, or set it in standfast.toml"
        if self.name == DEFAULT_REPLAY:
            advice = "write the same one into both settings files"
        return f"{self.name}: two live processes declare different rules: {', '.join(self.sides)}; {advice}"
