"""CloudEvents 1.0 over HTTP: one event in the body, one in the headers, or several in one body.

For the paths in its source's settings, an event is always one object: its attributes next to `data`.
"""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import unquote

from standfast.errors import PayloadRejected
from standfast.spine.payload import parse
from standfast.wings.ingest.arrival import Delivery, Reading, Refused
from standfast.wings.ingest.mapping import arrival, body_of, refusal, vouches_for_headers
from standfast.wings.ingest.sources import MappedTable, Source

STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json"
MOST_EVENTS = 1000
REQUIRED = ("id", "source", "specversion", "type")
HINT = "send it as CloudEvents 1.0 over HTTP says"


def read(delivery: Delivery, source: Source, now: float) -> Reading | list[Reading]:
    """Return what a delivery results in; each event becomes a job. Source and id together are an event's key."""
    table = source.table
    assert isinstance(table, MappedTable)  # noqa: S101 - of every source but github
    refused = refusal(delivery, source, table, now)
    if refused is not None:
        return refused
    found = _events(delivery, in_headers=vouches_for_headers(source, table))
    if isinstance(found, Refused):
        return found
    wrong = next((event for event in found if not _is_event(event)), None)
    if wrong is not None or not found:
        return Refused(400, f"an event needs {', '.join(REQUIRED)}, and specversion 1.0", HINT)
    readings = [arrival(table, event, _key(event), source.name) for event in found]
    refusals = [reading for reading in readings if isinstance(reading, Refused)]
    return refusals[0] if refusals else readings


def _events(delivery: Delivery, *, in_headers: bool) -> list[Any] | Refused:
    kind = delivery.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in {STRUCTURED, BATCHED} and not in_headers:
        hint = f"send the whole event in the body, as {STRUCTURED}"
        return Refused(415, "the event is in headers, which its signature does not cover", hint)
    if kind not in {STRUCTURED, BATCHED}:
        event = _in_headers(delivery, kind)
        return event if isinstance(event, Refused) else [event]
    body = body_of(delivery)
    if isinstance(body, Refused) or kind == STRUCTURED:
        return body if isinstance(body, Refused) else [body]
    if not isinstance(body, list) or len(body) > MOST_EVENTS:
        return Refused(400, f"a batch is a list of at most {MOST_EVENTS} events", HINT)
    return body


def _in_headers(delivery: Delivery, kind: str) -> dict[str, Any] | Refused:
    """Read an event whose attributes are headers; its data is JSON, text, or bytes, by its content type."""
    attributes: dict[str, Any] = {
        header[3:]: unquote(value) for header, value in delivery.headers.items() if header.startswith("ce-")
    }
    if not delivery.body:
        return attributes
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return {**attributes, "datacontenttype": kind, "data": parse(delivery.body, "the body")}
        except PayloadRejected as error:
            return Refused(400, str(error), HINT)
    try:
        return {**attributes, "datacontenttype": kind, "data": delivery.body.decode()}
    except UnicodeDecodeError:
        encoded = base64.b64encode(delivery.body).decode()
        return {**attributes, "datacontenttype": kind, "data_base64": encoded}


def _is_event(event: object) -> bool:
    if not isinstance(event, dict):
        return False
    named = all(isinstance(event.get(each), str) and event[each] for each in REQUIRED)
    return named and str(event["specversion"]).startswith("1.")


def _key(event: dict[str, Any]) -> str:
    """Return an event's key. The source is written without spaces, so that two events never share a key."""
    return f"{str(event['source']).replace(' ', '%20')} {event['id']}"
