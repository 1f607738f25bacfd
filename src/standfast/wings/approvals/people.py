"""Who says so, and why: checked wherever a person's word is kept or acts."""

from __future__ import annotations

from typing import Any

from standfast.errors import ConfigurationError
from standfast.printable import printable
from standfast.wings.approvals.rules import is_somebody

LONGEST_REASON = 2000


def person(by: object) -> str:
    """Give the name of whoever wants or answers something; it must be one, and read the same to everybody."""
    if isinstance(by, str) and by.isprintable() and is_somebody(by) and len(by) <= LONGEST_REASON:
        return by.strip()
    raise _refused("by", by, "a person's name, in printable text")


def because(reason: object) -> str:
    """Give why somebody wants it."""
    if isinstance(reason, str) and reason.strip() and len(reason) <= LONGEST_REASON:
        return printable(reason)
    raise _refused("reason", reason, "text")


def perhaps_because(reason: object) -> str | None:
    """Give why somebody wants it, where they need not say."""
    return None if reason is None else because(reason)


def asked(by: object, reason: object) -> dict[str, Any]:
    """Give both, for what must say both."""
    return {"by": person(by), "reason": because(reason)}


def _refused(what: str, said: object, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"{what} must be {expected} of 1 to {LONGEST_REASON} characters, not {said!r:.80}; nothing was changed"
    )
