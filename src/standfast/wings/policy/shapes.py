"""The answers of routes about the policy."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from standfast.wings.policy.what_if import WhatIf


class PolicyInForce(TypedDict):
    """The policy in force with its text, who published it and when, and what is wrong with it, if anything."""

    snapshot: str
    source: str | None
    text: str | None
    by: str | None
    at: datetime | None
    issue: str | None
    external: bool


class PolicyTrial(WhatIf, frozen=True, kw_only=True):
    """What a candidate policy would change for the stored letters."""

    snapshot: str
    in_force: str
