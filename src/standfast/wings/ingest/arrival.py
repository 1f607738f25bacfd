"""What a delivery results in: a job to enqueue, nothing, or a refusal. Pure values, made without side effects."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from standfast.rules import Coalesce

LONGEST_NAME = 200
"""The most characters of a key; a longer one is replaced by its hash."""
SAID_ONCE = ("x-github-", "x-hub-signature", "webhook-", "ce-", "authorization", "content-type")
"""Prefixes of headers that say what a delivery is, and who sent it."""
_UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A job to enqueue."""

    queue: str
    payload: Any
    key: str | None = None
    body_key: str | None = None
    """A second key: the hash of the signed body, if the signature does not cover the key."""
    thread_key: str | None = None
    coalesce: Coalesce | None = None
    newest_counts: bool = False
    """Whether only the newest job of its thread matters."""
    priority: int | None = None
    handler: str | None = None
    labels: dict[str, str] = {}


class Ignored(msgspec.Struct, frozen=True):
    """A delivery that is valid and asks for nothing."""

    reason: str


class Refused(msgspec.Struct, frozen=True):
    """A delivery that is not accepted: the status of the answer, what happened, and what to do."""

    status: int
    detail: str
    hint: str


Reading = Arrival | Ignored | Refused


class Delivery(msgspec.Struct, frozen=True):
    """A request as it came: headers by their names in small letters, and the body as it was sent."""

    headers: dict[str, str]
    body: bytes
    repeated: frozenset[str] = frozenset()
    """The headers that came more than once."""


def delivery(headers: Mapping[str, str] | Iterable[tuple[str, str]], body: bytes) -> Delivery:
    """Read a request. A header that comes twice counts as one with both values, as in HTTP, and is noted."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name.lower(), []).append(value)
    repeated = frozenset(name for name, values in found.items() if len(values) > 1)
    return Delivery({name: ", ".join(values) for name, values in found.items()}, body, repeated)


def ambiguous(delivery: Delivery, also: str | None = None) -> Refused | None:
    """Refuse a delivery that names its sender or its kind twice: a proxy may have read the other value."""
    repeated = sorted(name for name in delivery.repeated if name.startswith(SAID_ONCE) or name == (also or "").lower())
    if not repeated:
        return None
    return Refused(400, f"the delivery has more than one {repeated[0]} header", "send each of its own headers once")


def text(value: object, longest: int = 1000) -> str | None:
    """Take a text from outside as data: unchanged, except for characters that no store takes, and for its length."""
    return _UNSTORABLE.sub("\ufffd", value[:longest]) if isinstance(value, str) else None


def name(value: str) -> str:
    """Return a key that can be stored; one that is too long or not printable is replaced by its hash."""
    if 0 < len(value) <= LONGEST_NAME and value.isprintable():
        return value
    return f"sha256:{hashlib.sha256(value.encode(errors='surrogatepass')).hexdigest()}"


def labelled(given: Mapping[str, str | None]) -> dict[str, str]:
    """Return labels that can be stored, leaving out those without a value."""
    return {label: name(value) for label, value in given.items() if value}
