"""Standard Webhooks (standardwebhooks.com), and plain JSON that is signed in other ways."""

from __future__ import annotations

from standfast.wings.ingest.arrival import Delivery, Reading, Refused
from standfast.wings.ingest.mapping import arrival, body_of, refusal
from standfast.wings.ingest.sources import MappedTable, Source


def read(delivery: Delivery, source: Source, now: float) -> Reading:
    """Return what a delivery results in; `webhook-id` is its key. The time is checked only if it is signed."""
    table = source.table
    assert isinstance(table, MappedTable)  # noqa: S101 - of every source but github
    refused = refusal(delivery, source, table, now)
    if refused is not None:
        return refused
    key = delivery.headers.get("webhook-id")
    if table.kind == "standard-webhooks" and not key:
        return Refused(400, "the delivery has no webhook-id header", "send it as Standard Webhooks says")
    body = body_of(delivery)
    return body if isinstance(body, Refused) else arrival(table, body, key or None, source.name)
