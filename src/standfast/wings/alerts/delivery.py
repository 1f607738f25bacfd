"""Delivers one alert to one surface: a signed webhook, or any service apprise knows. The queue retries failures."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Any

import msgspec

from standfast.clock import Clock
from standfast.concurrency.threads import run_in_thread
from standfast.errors import ConfigurationError, Permanent, Transient
from standfast.outcome import Failed
from standfast.rules import QueueRules, exponential
from standfast.spine.registry import Declaration, Handler
from standfast.typed.door import Door
from standfast.wings.alerts.phrasing import body, event, title
from standfast.wings.alerts.sinks import Sinks
from standfast.wings.alerts.surfaces import MISSING, PAIN, QUEUE, Notify, Surface
from standfast.wings.effects.handler_job import Job
from standfast.wings.http.sender import Sender
from standfast.wings.http.verbs import judge
from standfast.wings.http.words import HttpRequest

WITHIN = 15.0
"""Seconds a surface may take to answer."""
RULES = QueueRules(attempts=200, backoff=exponential(base=5, cap=300), timeout=60.0, breaker=None, dead_warning=0)
"""An alert is tried for most of a day; an alert that a surface never took is a health issue."""
GRACE = 2.0
"""Seconds for running deliveries when a process that runs nothing else ends; what is cut off is sent again."""
SIGNED = "whsec_"


def with_room(rules: QueueRules, notify: Notify) -> QueueRules:
    """Refuse a queue too small for the jobs of one alert: they are stored for every surface, or for none."""
    if rules.max_depth is not None and rules.max_depth < len(notify.surfaces):
        raise ConfigurationError(
            f"max_depth of {QUEUE} is {rules.max_depth}, and an alert goes to up to {len(notify.surfaces)} surfaces "
            "at once, so no alert would ever be sent; raise max_depth, or leave it out"
        )
    return rules


def handler(door: Door, notify: Notify, sender: Sender, clock: Clock, sinks: Sinks) -> Handler:
    """Return the handler of the queue that delivers alerts."""

    async def deliver(job: Job) -> dict[str, Any] | Failed:
        """Deliver an alert."""
        name = job.payload["surface"]
        surface = notify.surface(name)
        if surface is None:
            raise Permanent(f"[notify] has no surface named {name!r} where this worker runs; name it, then replay")
        return await sinks.sent(name, _sent(job, name, surface, sender, clock.wall()))

    return Handler(deliver, Declaration(queue=QUEUE, name=QUEUE), door)


async def _sent(job: Job, name: str, surface: Surface, sender: Sender, wall: float) -> dict[str, Any] | Failed:
    """Send a job's alert."""
    if surface.apprise_env is not None:
        return await through_apprise(surface, job.payload["alert"])
    about = job.payload["pain"] if name == PAIN else event(job.payload["alert"])
    outcome = judge(await sender.tell(webhook(surface, about, job.id, wall)))
    return outcome if isinstance(outcome, Failed) else {"surface": name, "status": outcome["status"]}


def webhook(surface: Surface, about: dict[str, Any], id_: str, wall: float) -> HttpRequest:
    """Build the webhook of an event; its id is the same at every attempt, so that a receiver can recognise repeats."""
    content, at = msgspec.json.encode(about), str(int(wall))
    headers = {"webhook-id": id_, "webhook-timestamp": at, "content-type": "application/json"}
    secret = surface.secret()
    if secret is not None:
        headers["webhook-signature"] = signature(secret, id_, at, content)
    try:
        return HttpRequest("POST", surface.address(), headers, msgspec.Raw(content), WITHIN)
    except ValueError as error:
        raise Transient(f"its address cannot be called: {error}", reason_code="user_action_required") from error


def signature(secret: str, id_: str, at: str, content: bytes) -> str:
    """Sign a webhook as the Standard Webhooks specification requires."""
    try:
        key = base64.b64decode(secret.removeprefix(SIGNED), validate=True)
    except binascii.Error as error:
        raise Transient(
            "its secret is not a Standard Webhooks secret: write whsec_ and base64", reason_code="user_action_required"
        ) from error
    signed = hmac.new(key, b".".join((id_.encode(), at.encode(), content)), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


async def through_apprise(surface: Surface, alert: dict[str, Any]) -> dict[str, Any]:
    """Send an alert through apprise, which only says whether that went well."""
    teller = await run_in_thread(_apprise)
    if not teller.add(surface.address()):
        raise Transient("apprise does not know this kind of address", reason_code="user_action_required")
    if not await teller.async_notify(title=title(alert), body=body(alert)):
        raise Transient("apprise could not deliver it", reason_code="dependency_unavailable")
    return {"told": True}


def _apprise() -> Any:
    try:
        import apprise  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        raise ConfigurationError(MISSING) from error
    return apprise.Apprise()
