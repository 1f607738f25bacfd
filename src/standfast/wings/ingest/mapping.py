"""Deliveries of other sources: read by their standard, and made into jobs by the paths in their settings."""

from __future__ import annotations

from typing import Any

from standfast.errors import PayloadRejected
from standfast.rules import TRIGGER_PRIORITIES
from standfast.spine.payload import parse
from standfast.wings.ingest import signatures
from standfast.wings.ingest.arrival import Arrival, Delivery, Reading, Refused, labelled, name, text
from standfast.wings.ingest.paths import MISSING, is_path, value_at
from standfast.wings.ingest.sources import USUAL, MappedTable, Signature, Source

HIGHEST = 2**31 - 1


def refusal(delivery: Delivery, source: Source, table: MappedTable, now: float) -> Refused | None:
    """Check who sent a delivery, by its source's method; None if it is accepted."""
    if not source.secrets:
        return None
    match _signature(table):
        case "standard-webhooks", _:
            return signatures.standard(delivery, source.secrets, now)
        case "bearer", header:
            return signatures.bearer(delivery, source.secrets, header)
        case _, header:
            return signatures.hub(delivery, source.secrets, header)


def early_refusal(delivery: Delivery, source: Source, table: MappedTable, now: float) -> Refused | None:
    """Check who sent a delivery as far as its headers tell; None if it is accepted so far."""
    if not source.secrets:
        return None
    match _signature(table):
        case "standard-webhooks", _:
            return signatures.standard_is_there(delivery, now)
        case "bearer", header:
            return signatures.bearer(delivery, source.secrets, header)
        case _, header:
            return signatures.hub_is_there(delivery, header)


def vouches_for_headers(source: Source, table: MappedTable) -> bool:
    """Return whether headers can be trusted: a signature covers only the body, so an attacker can change them."""
    return not source.secrets or _signature(table)[0] == "bearer"


def _signature(table: MappedTable) -> tuple[Signature, str]:
    """Return how a source signs, and the header with the signature."""
    kind = table.signature or USUAL[table.kind]
    usual = "authorization" if kind == "bearer" else signatures.HUB
    return kind, (table.signature_header or usual).lower()


def body_of(delivery: Delivery) -> Any:
    """Read a body as JSON, or return why it is not JSON."""
    try:
        return parse(delivery.body, "the body")
    except PayloadRejected as error:
        return Refused(400, str(error), "send JSON")


def arrival(table: MappedTable, body: Any, key: str | None, source: str) -> Reading:
    """Make a job of a body. The name of its queue must be there; without the rest it is still a job."""
    queue = _text_at(table.queue, body)
    if queue is None or (is_path(table.queue) and queue not in table.queues):
        named = "nothing" if queue is None else repr(text(queue, 100))
        return Refused(422, f"{table.queue} names {named}, which is not one of this source's queues", "see its queues")
    if table.kind == "json" and table.idempotency_key is not None:
        key = _text_at(table.idempotency_key, body)
        if key is None:
            return Refused(422, f"the body has no {table.idempotency_key}, which is its key", "send it with its key")
    thread = None if table.thread_key is None else _text_at(table.thread_key, body)
    labels = {label: _text_at(given, body) for label, given in table.labels.items()}
    return Arrival(
        queue=queue,
        payload=_payload(table, body),
        key=None if key is None else name(key),
        thread_key=None if thread is None else name(thread),
        coalesce=table.coalesce,
        priority=_priority(table, body),
        handler=table.handler,
        labels=labelled({"source": source, **labels}),
    )


def _payload(table: MappedTable, body: Any) -> Any:
    if isinstance(table.payload, dict):
        return {field: _present(value_at(path, body)) for field, path in table.payload.items()}
    return _present(value_at(table.payload, body))


def _present(value: Any) -> Any:
    return None if value is MISSING else value


def _text_at(given: str, body: Any) -> str | None:
    """Return a text: the setting itself, or the value at its path; numbers are written as text."""
    if not is_path(given):
        return given
    value = value_at(given, body)
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _priority(table: MappedTable, body: Any) -> int | None:
    """Return a priority: a number, or that of the trigger it names."""
    if not isinstance(table.priority, str):
        return table.priority
    value = value_at(table.priority, body)
    if isinstance(value, str):
        return TRIGGER_PRIORITIES.get(value)
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= HIGHEST
    return value if whole else None
