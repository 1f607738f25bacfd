"""The answers of the route that takes webhooks."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class DeliveryOutcome(TypedDict):
    """The outcome of one delivery: a job was stored, or there was nothing to do."""

    outcome: str
    id: NotRequired[str | None]
    state: NotRequired[str | None]
    queue: NotRequired[str]
    reason: NotRequired[str]


class DeliveryOutcomes(TypedDict):
    """The outcome of each event of a batch."""

    items: list[DeliveryOutcome]
