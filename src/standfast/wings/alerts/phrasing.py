"""How an alert is worded: for surfaces, for people, and as a pain signal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from standfast.failure import Failure
from standfast.failure.letter_advice import as_letter
from standfast.redact import redacted_text
from standfast.wings.alerts.rules import severity
from standfast.wings.alerts.words import ADVICE, Condition, Key, OpenAlert
from standfast.wings.records.reads import JobRow
from standfast.wings.records.view import moments

SOURCE = "standfast"


def pain(condition: Condition, since: str) -> dict[str, Any]:
    """Word a condition as a pain signal."""
    measured = {"value": condition.value, "threshold": condition.threshold, "subject": condition.subject or None}
    return {
        "source": SOURCE,
        "category": str(condition.kind),
        "message": condition.message,
        "severity": severity(condition.kind, condition.value, condition.threshold),
        "queue": condition.queue or None,
        "details": {**measured, "since": since, "advice": ADVICE[condition.kind]},
    }


def told(condition: Condition, *, state: str, since: str, until: str | None = None) -> dict[str, Any]:
    """Word a beginning or an end as it is announced."""
    when = {"since": since} if until is None else {"since": since, "until": until}
    return {"state": state, **_worded(condition), **when}


def shown(alerts: Iterable[OpenAlert], skew: float, seen: Mapping[Key, Condition]) -> list[dict[str, Any]]:
    """Word open alerts for people, with the present values of those that are seen now.

    An alert whose condition is gone is `clearing` until it has been gone for a minute. For a queue any process sees
    that, even while no worker runs that would write it down.
    """
    moment = moments(skew)
    return [
        {
            **_worded(seen.get(each.key) or each.condition),
            "since": msgspec.to_builtins(moment(each.started_at)),
            "clearing": each.clear_since is not None or (bool(each.condition.queue) and each.key not in seen),
        }
        for each in alerts
    ]


def _worded(condition: Condition) -> dict[str, Any]:
    about = {"queue": condition.queue or None, "subject": condition.subject or None}
    worth = severity(condition.kind, condition.value, condition.threshold)
    return {**msgspec.to_builtins(condition), **about, "severity": worth, "advice": ADVICE[condition.kind]}


def event(alert: dict[str, Any]) -> dict[str, Any]:
    """Build the event that an alert is sent as."""
    said = alert["state"] if "severity" in alert else None
    kind = "standfast.alert" if said is None else f"standfast.alert_{said}"
    return {
        "type": kind,
        "title": title(alert),
        "timestamp": alert.get("until") or alert["since"],
        "data": alert,
    }


def title(alert: dict[str, Any]) -> str:
    """Word an alert in one line."""
    if "severity" in alert:
        over = "over: " if alert["state"] == "ended" else ""
        return f"standfast: {over}{alert['message']} ({alert['kind']})"
    count, more = alert["count"], "more " if alert["more"] else ""
    if alert.get("reason_code") == "consent_required":
        waits = "job waits for its session's consent" if count == 1 else "jobs wait for their sessions' consent"
        return f"standfast: {count} {more}{waits} in {alert['queue']}"
    letters = "letter" if count == 1 else "letters"
    return f"standfast: {count} {more}{letters} in {alert['queue']} ({alert.get('reason_code', alert['state'])})"


def body(alert: dict[str, Any]) -> str:
    """Word the rest of an alert: what happened, and what to do."""
    if "severity" in alert:
        ended = alert["state"] == "ended"
        return f"From {alert['since']} to {alert['until']}." if ended else f"{alert['advice']}\nSince {alert['since']}."
    look = f"Look: standfast dead show {alert['job_id']}"
    parts = [alert.get("message"), alert.get("advice"), look, f"Since {alert['since']}."]
    return "\n".join(part for part in parts if part)


LONGEST_MESSAGE = 500


def sample(row: JobRow, kind: str, failure: Failure | None) -> dict[str, Any]:
    """Describe one letter of a cause, without anything confidential."""
    said: dict[str, Any] = {"kind": kind, "job_id": row.id, "queue": row.queue, "handler": row.handler}
    if failure is None:
        return {**said, "state": row.state}
    message = redacted_text(failure.summary, longest=LONGEST_MESSAGE)
    told: dict[str, str] = {"reason_code": failure.reason_code, "class": failure.cls, "landed": failure.landed}
    if failure.cause is not None:
        told["cause"] = failure.cause
    return {**said, "state": row.state, **told, "message": message, "advice": as_letter(failure).advice}
