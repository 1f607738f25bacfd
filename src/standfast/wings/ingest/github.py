"""GitHub's webhooks: checked, read by the trigger table, and made into jobs with one thread for each pull request."""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import parse_qs

from standfast.errors import PayloadRejected
from standfast.rules import TRIGGER_PRIORITIES
from standfast.spine.payload import parse
from standfast.wings.ingest import signatures
from standfast.wings.ingest.arrival import Arrival, Delivery, Ignored, Reading, Refused, labelled, name, text
from standfast.wings.ingest.sources import GithubTable, Source
from standfast.wings.ingest.triggers import EVENTS, Event, Found, found_in

FORM = "application/x-www-form-urlencoded"
"""How GitHub sends a body that is not configured as JSON: the JSON is a field of a form."""
MOST_FIELDS = 10


def read(delivery: Delivery, source: Source) -> Reading:
    """Return what a delivery results in. Its body is not read before its signature is verified."""
    table = source.table
    assert isinstance(table, GithubTable)  # noqa: S101 - of the source named github
    refused = None if not source.secrets else signatures.hub(delivery, source.secrets)
    if refused is not None:
        return refused
    event, external_id = (delivery.headers.get(f"x-github-{header}", "") for header in ("event", "delivery"))
    if not event or not external_id:
        return Refused(
            400, "the delivery has no X-GitHub-Event or no X-GitHub-Delivery header", "send it as GitHub does"
        )
    if event not in EVENTS:
        return Ignored(f"event {event!r} asks for nothing")
    try:
        body = parse(_json(delivery), "the body")
    except PayloadRejected as error:
        return Refused(400, str(error), "send it as GitHub does")
    if not isinstance(body, dict):
        return Refused(400, "the body is no JSON object", "send it as GitHub does")
    return _arrival(Event(event, body, _logins(table)), external_id, delivery, table)


def _json(delivery: Delivery) -> bytes:
    """Return the JSON of a body: the body itself, or a field if the body is a form."""
    if delivery.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        return delivery.body
    try:
        fields = parse_qs(delivery.body.decode("utf-8", "replace"), max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise PayloadRejected(f"the body is a form with more than {MOST_FIELDS} fields") from error
    return fields.get("payload", [""])[0].encode()


def _logins(table: GithubTable) -> tuple[str, ...]:
    return (table.login,) if isinstance(table.login, str) else tuple(table.login)


def _arrival(event: Event, external_id: str, delivery: Delivery, table: GithubTable) -> Reading:
    found = found_in(event)
    if isinstance(found, str):
        return Ignored(found)
    sender = text(event.part("sender").get("login"), 100)
    if not found.own_counts and _is_own(sender, event.logins):
        return Ignored(f"{event.name} {event.action} is by {sender} itself, which must not wake itself up")
    priority = table.triggers.get(found.trigger, TRIGGER_PRIORITIES[found.trigger])
    if priority is False:
        return Ignored(f"trigger {found.trigger} is turned off")
    repository = text(event.part("repository").get("full_name"), 200)
    return Arrival(
        queue=table.queue,
        payload=_payload(found, repository, external_id, sender, delivery.body),
        key=name(external_id),
        body_key=f"body:{hashlib.sha256(delivery.body).hexdigest()}",
        thread_key=_thread_key(found, repository),
        coalesce=table.coalesce,
        newest_counts=True,
        priority=int(priority),
        labels=labelled(
            {"trigger": found.trigger, "event": f"{event.name}.{event.action}".rstrip("."), "repo": repository}
        ),
    )


def _is_own(sender: str | None, logins: tuple[str, ...]) -> bool:
    """Return whether a configured login did it, also as the app of that name."""
    own = {each.lower() for login in logins for each in (login, f"{login}[bot]")}
    return sender is not None and sender.lower() in own


def _payload(found: Found, repository: str | None, external_id: str, sender: str | None, body: bytes) -> dict[str, Any]:
    return {
        "trigger": found.trigger,
        "source": "github",
        "external_id": text(external_id),
        "repo": repository,
        "number": found.number,
        "title": found.title,
        "url": found.url,
        "sender": sender,
        "body_sha256": hashlib.sha256(body).hexdigest(),
    }


def _thread_key(found: Found, repository: str | None) -> str | None:
    """Name the thread of an event: a pull request or issue by its number, else a branch or a commit."""
    if repository is None or (found.number is None and not found.about):
        return None
    return name(f"github:{repository}#{found.number}" if found.number else f"github:{repository}@{found.about}")
