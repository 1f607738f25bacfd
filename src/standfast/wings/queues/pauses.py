"""Who paused a queue, when and why: kept with the shared settings while the queue is paused.

An older library version pauses and resumes without this. A record that it leaves behind is not shown, unless the queue
is paused again.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from standfast.printable import printable
from standfast.redact import redacted_text
from standfast.store.steps import Round, Script, text
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision, Kind
from standfast.wings.records.figures import span

PREFIX = "pause "
"""The prefix of these settings' names; a queue's name follows."""


class PauseRequest(NamedTuple):
    """A queue to pause or resume; without `by`, it is not recorded who asked."""

    queue: str
    paused: bool
    by: str | None = None
    reason: str | None = None


class Pause(NamedTuple):
    """Who paused a queue, when in queue time, and why if a reason was given."""

    by: str
    at: float
    reason: str | None = None


def keep(round_: Round, request: PauseRequest, *, changed: bool) -> Script[None]:
    """Record who asked, and add it to the audit chain: for a change, and for a reason that is given later."""
    if request.by is None or not (changed or request.reason):
        return
    by, reason = _safe(request.by), request.reason and _safe(request.reason)
    name = f"{PREFIX}{request.queue}"
    if request.paused:
        yield "keep_pause", {"name": name, "value": text({"reason": reason}), "by": by, "now": round_.now}
    else:
        yield "forget_pause", {"name": name}
    kind: Kind = "pause" if request.paused else "resume"
    audit.record(round_, Decision(kind=kind, queue=request.queue, by=by, reason=reason, outcome=f"{kind}d"))


def pauses() -> Script[dict[str, Pause]]:
    """Read the records, by queue."""
    rows = yield "kept_pauses", {"prefix": PREFIX, "length": len(PREFIX)}
    return {name[len(PREFIX) :]: Pause(by, at, msgspec.json.decode(value)["reason"]) for name, value, by, at in rows}


def pause_words(pause: dict[str, Any] | None, now: datetime) -> str:
    """Describe who paused a queue, as far as that is known: `paused by ann 5 min ago: the CRM moves`."""
    if pause is None:
        return "paused"
    passed = now - datetime.fromisoformat(pause["since"])
    return f"paused {by_whom(pause['by'], passed.total_seconds(), pause['reason'])}"


def by_whom(by: str, seconds: float, reason: str | None) -> str:
    """Describe who did it, how long ago, and why."""
    return f"by {by} {span(max(0.0, seconds))} ago" + (f": {reason}" if reason else "")


def _safe(said: str) -> str:
    return printable(redacted_text(said))
