"""Alerts as people see them: those that are open, with since when, what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from standfast.wings.alerts.conditions import Open
from standfast.wings.alerts.rules import severity
from standfast.wings.alerts.words import ADVICE, Condition, Key
from standfast.wings.records.view import moments


def shown(alerts: Iterable[Open], skew: float, seen: Mapping[Key, Condition]) -> list[dict[str, Any]]:
    """Lay open alerts out, as they are seen now where they are.

    One whose condition is gone is `clearing`, until it has been so for a minute.
    """
    moment = moments(skew)
    return [_shown(each, seen.get(each.condition.key), msgspec.to_builtins(moment(each.started_at))) for each in alerts]


def _shown(alert: Open, seen: Condition | None, since: str) -> dict[str, Any]:
    condition = seen or alert.condition
    return {
        "kind": str(condition.kind),
        "queue": condition.queue or None,
        "subject": condition.subject or None,
        "since": since,
        "message": condition.message,
        "value": condition.value,
        "threshold": condition.threshold,
        "severity": severity(condition.kind, condition.value, condition.threshold),
        "clearing": alert.clear_since is not None,
        "advice": ADVICE[condition.kind],
    }
