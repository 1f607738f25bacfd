"""Checks names and reasons of people, wherever a person's decision is stored or takes effect."""

from __future__ import annotations

from typing import Any

from standfast.errors import ConfigurationError
from standfast.printable import printable
from standfast.wings.approvals.rules import is_somebody

LONGEST_REASON = 2000


def person(by: object) -> str:
    """Check the name of a person who asks or answers; it must look the same to everyone."""
    if isinstance(by, str) and by.isprintable() and is_somebody(by) and len(by) <= LONGEST_REASON:
        return by.strip()
    raise _refusal("by", by, "a person's name, in printable text")


def checked_reason(reason: object) -> str:
    """Check the reason for a request."""
    if isinstance(reason, str) and reason.strip() and len(reason) <= LONGEST_REASON:
        return printable(reason)
    raise _refusal("reason", reason, "text")


def optional_reason(reason: object) -> str | None:
    """Check the reason for a request that may have none."""
    return None if reason is None else checked_reason(reason)


def checked_actor(by: object, reason: object) -> dict[str, Any]:
    """Return both, checked, for decisions that need both."""
    return {"by": person(by), "reason": checked_reason(reason)}


def _refusal(what: str, given: object, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"{what} must be {expected} of 1 to {LONGEST_REASON} characters, not {given!r:.80}; nothing was changed"
    )
