"""Destinations that asked their callers to wait, and the gate at which a queue's jobs for them wait.

A destination is the host of a request, the dependency that a queue's breaker names, or otherwise the key of the queue's
rate or limit. If a queue names none of these, each of its jobs waits by itself.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from standfast.lifecycle import Carried
from standfast.rules import QueueRules
from standfast.wings.limits import words as gates
from standfast.wings.limits.words import Row

KIND: Literal["hold"] = "hold"
MOST_IN_A_ROW = 50
"""How often in a row a job may be refused temporarily without spending an attempt."""
ASKED = "it asked its callers to wait"
LONG = 3600.0
"""Seconds after which `health` names a destination that still makes its callers wait."""


class HoldRequest(Carried, frozen=True):
    """Carried by the end of an attempt: no more jobs may go to a destination for so many seconds."""

    gate: str
    seconds: float


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """Until when callers wait, and since when without a break. Afterwards, jobs follow in batches."""

    since: float
    until: float
    batch: int = gates.FIRST_BATCH


_read = msgspec.json.Decoder(Hold).decode


def gate_of(queue: str, rules: QueueRules, payload: Any, *, request: bool) -> str | None:
    """Return the gate of a job's destination; None if nothing says what that is."""
    name = gates.destination(payload) if request else _destination(rules, payload)
    return None if name is None else gates.of_key(KIND, queue, name)


def _destination(rules: QueueRules, payload: Any) -> str | None:
    if rules.breaker is not None and rules.breaker.dependency is not None:
        return rules.breaker.dependency
    key = _key(rules)
    return None if key is None else f"{key}={gates.key_in(payload, key)}"


def _key(rules: QueueRules) -> str | None:
    return next((each.key for each in (rules.rate, rules.concurrency) if each is not None and each.key), None)


def names_destinations(rules: QueueRules) -> bool:
    """Return whether jobs of a queue that are not HTTP requests have destinations."""
    return (rules.breaker is not None and rules.breaker.dependency is not None) or _key(rules) is not None


def destination_of(key: str) -> str:
    """Return the destination that a gate is named after."""
    return key.split(":", 2)[2]


def read(row: Row) -> Hold:
    """Read what a gate stores."""
    return _read(row.detail or '{"since":0,"until":0}')


def is_shut(row: Row, now: float) -> bool:
    """Return whether a destination still makes its callers wait."""
    return row.kind == KIND and read(row).until > now


def extended(row: Row | None, key: str, until: float, now: float) -> Row:
    """Return the gate after a destination asked to wait until then; of several times, the latest holds."""
    known = Hold(now, now) if row is None else read(row)
    until = max(until, known.until)
    return Row(key, KIND, opens_at=until, detail=_text(Hold(known.since, until)))


def next_batch(row: Row, now: float) -> Row:
    """Return the gate after a batch was let through: twice as many jobs follow, a second later."""
    known = read(row)
    return row._replace(opens_at=now + gates.BATCH_EVERY, detail=_text(Hold(known.since, known.until, known.batch * 2)))


def _text(found: Hold) -> str:
    return msgspec.json.encode(found).decode()
