"""May this letter be replayed? Asked afresh before every replay, as the original requester.

Without a policy file the built-in policy answers: replay is allowed, nothing happens by itself.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Permission(msgspec.Struct, frozen=True):
    """What the policy decided, and by which rule."""

    decision: Literal["allow", "deny", "require_approval"]
    rule: str
    why: str = ""


BUILT_IN = Permission("allow", "built-in")


def permit() -> Permission:
    """Ask the built-in policy."""
    return BUILT_IN
