"""The answer of the route about alerts."""

from __future__ import annotations

from typing import TypedDict

from standfast.wings.alerts.words import AlertKind


class ShownAlert(TypedDict):
    """An open alert: what is wrong, since when, and what to do about it.

    `clearing` is true while the condition is gone and the alert will soon end.
    """

    kind: AlertKind
    message: str
    queue: str | None
    subject: str | None
    value: float
    threshold: float
    severity: float
    advice: str
    since: str
    clearing: bool


class AlertList(TypedDict):
    """Open alerts, the most harmful first."""

    items: list[ShownAlert]
