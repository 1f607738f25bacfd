"""What the route that takes webhooks answers."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class DeliveryOutcome(TypedDict):
    """What became of one delivery: a job was taken in, or there was nothing to do."""

    outcome: str
    id: NotRequired[str | None]
    state: NotRequired[str | None]
    queue: NotRequired[str]
    reason: NotRequired[str]


class DeliveryOutcomes(TypedDict):
    """What became of each event of a batch."""

    items: list[DeliveryOutcome]
