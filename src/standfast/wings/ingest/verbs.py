"""One delivery, from its bytes to its answer: it is read, enqueued, and answered once it is on disk."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

from standfast.application import Standfast
from standfast.concurrency.threads import run_in_thread
from standfast.errors import (
    Backpressure,
    ConfigurationError,
    IdempotencyConflict,
    PayloadRejected,
    StandfastError,
    StoreUnavailable,
    UnknownQueue,
)
from standfast.printable import printable
from standfast.wings.ingest import cloudevents, github, signatures, standard_webhooks
from standfast.wings.ingest.arrival import Arrival, Delivery, Ignored, Reading, Refused, ambiguous, delivery
from standfast.wings.ingest.mapping import early_refusal
from standfast.wings.ingest.sources import GITHUB, MappedTable, Source, source

log = logging.getLogger("standfast.ingest")

QUICKLY_READ = 64 << 10
"""Bodies of up to this many bytes are read at once; a larger one is read in a thread."""
ANSWERS: dict[type[StandfastError], tuple[int, str]] = {
    Backpressure: (429, "send it again later"),
    IdempotencyConflict: (422, "an id names one delivery; give another one its own"),
    PayloadRejected: (422, "send less, or what the payload may hold"),
    StoreUnavailable: (503, "send it again later: the same id is stored once"),
    UnknownQueue: (500, "declare the queue that this source names"),
    ConfigurationError: (500, "correct the settings of this source"),
}
"""How each error is answered: the first match counts."""
STATUS = {"accepted": 201, "spooled": 202}
"""The status of each outcome; of any other it is 200."""

Headers = Mapping[str, str] | Iterable[tuple[str, str]]
Body = bytes | bytearray | memoryview
"""A body as it came, in bytes: if it was decoded to text on the way, its signature may no longer fit."""
Answer = tuple[int, dict[str, Any]]


async def receive(sf: Standfast, name: str, headers: Headers, raw: Body) -> Answer:
    """Take one delivery of a source; return the answer's status and body. What is accepted is on disk."""
    try:
        found = source(name, sf.settings.ingest, os.environ)
    except ConfigurationError as error:
        log.error("deliveries of %s are refused: %s", printable(name), error)  # noqa: TRY400 - its own words suffice
        return _problem(Refused(500, "this source is not ready to take deliveries", "see the log of the server"))
    if found is None:
        hint = f"write [ingest.{printable(name[:50])}] into standfast.toml, with the secret_env that names its secret"
        return _problem(Refused(404, "there is no such source", hint))
    return await take(sf, found, headers, raw)


def refused_unread(sf: Standfast, found: Source, headers: Headers) -> Answer | None:
    """Refuse a delivery by its headers alone, before its body is read; None if it may be read."""
    head = delivery(headers, b"")
    refused = ambiguous(head, getattr(found.table, "signature_header", None))
    if refused is None and isinstance(found.table, MappedTable):
        refused = early_refusal(head, found, found.table, sf.clock.wall())
    elif refused is None and found.secrets:
        refused = signatures.hub_is_there(head)
    if refused is None:
        return None
    log.warning("a delivery of %s is refused unread: %s", found.name, printable(refused.detail))
    return _problem(refused)


async def take(sf: Standfast, found: Source, headers: Headers, raw: Body) -> Answer:
    """Take one delivery of a known source."""
    raw = _bytes(raw)
    if len(raw) > found.largest:
        return _problem(Refused(413, f"the body has more than {found.largest} bytes", "send less at a time"))
    arrived, now = delivery(headers, raw), sf.clock.wall()
    refused = ambiguous(arrived, getattr(found.table, "signature_header", None))
    if refused is not None:
        return await _answer(sf, found, refused)
    readings = read(arrived, found, now) if len(raw) <= QUICKLY_READ else await run_in_thread(read, arrived, found, now)
    if not isinstance(readings, list):
        return await _answer(sf, found, readings)
    answers = [await _answer(sf, found, each) for each in readings]
    return max(status for status, _ in answers), {"items": [body for _, body in answers]}


def _bytes(raw: Body) -> bytes:
    if isinstance(raw, Body):
        return bytes(raw)
    raise ConfigurationError(
        f"the body must be the bytes as they came, not {type(raw).__name__}, because the signature covers them; "
        "nothing was taken: give what your framework calls the raw body"
    )


def read(arrived: Delivery, found: Source, now: float) -> Reading | list[Reading]:
    """Read a delivery by its source's kind."""
    if found.name == GITHUB:
        return github.read(arrived, found)
    assert isinstance(found.table, MappedTable)  # noqa: S101 - of every other source
    if found.table.kind == "cloudevents":
        return cloudevents.read(arrived, found, now)
    return standard_webhooks.read(arrived, found, now)


async def _answer(sf: Standfast, found: Source, reading: Reading) -> Answer:
    match reading:
        case Refused():
            log.warning("a delivery of %s is refused: %s", found.name, printable(reading.detail))
            return _problem(reading)
        case Ignored():
            return await _ignored(sf, found, reading)
        case _:
            return await _enqueued(sf, found.name, reading)


async def _ignored(sf: Standfast, found: Source, reading: Ignored) -> Answer:
    """Log and count a delivery that asks for nothing. It is not sent again only because the store is away."""
    log.info("a delivery of %s is ignored: %s", found.name, printable(reading.reason))
    try:
        await sf.count_ignored(found.table.queue)
    except StoreUnavailable as error:
        log.warning("an ignored delivery of %s is not counted: %s", found.name, error)
    return 200, {"outcome": "ignored", "reason": reading.reason}


async def _enqueued(sf: Standfast, name: str, arrival: Arrival) -> Answer:
    """Enqueue a job. A payload that does not fit its handler is stored too, and its job dies where people look."""
    try:
        receipt = await sf.ingest(
            arrival.queue,
            arrival.payload,
            handler=arrival.handler,
            idempotency_key=arrival.key,
            body_key=arrival.body_key,
            thread_key=arrival.thread_key,
            coalesce=arrival.coalesce if arrival.thread_key is not None else None,
            newest_counts=arrival.newest_counts,
            priority=arrival.priority,
            requester=f"ingest:{name}",
            labels=arrival.labels or None,
        )
    except StandfastError as error:
        status, hint = next((said for kind, said in ANSWERS.items() if isinstance(error, kind)), (500, "see the log"))
        return _problem(Refused(status, error.outside, hint))
    answer = {"outcome": receipt.outcome, "id": receipt.id, "state": receipt.state, "queue": arrival.queue}
    return STATUS.get(receipt.outcome, 200), answer


def _problem(refused: Refused) -> Answer:
    """Build the RFC 9457 answer to a refusal."""
    return refused.status, {"status": refused.status, "detail": refused.detail, "hint": refused.hint}


def check(sf: Standfast) -> None:
    """Refuse a source that could accept nothing when a server starts, not at the first delivery."""
    for name in sf.settings.ingest:
        source(name, sf.settings.ingest, os.environ)
