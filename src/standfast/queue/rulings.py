"""What the policy says about a letter, asked afresh each time: the seam between letters and the policy in force."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec

from standfast.decide.permit import Permission, permit
from standfast.job import JobView
from standfast.policy.facts import Facts, facts_of_letter
from standfast.policy.rules import BUILT_IN


class Ruling(msgspec.Struct, frozen=True):
    """What was decided, and under which policy."""

    permission: Permission
    snapshot: str


Permit = Callable[[Facts], Awaitable[Ruling]]
"""Asks the policy in force, outside of any transaction."""


async def built_in(facts: Facts) -> Ruling:
    """Ask the policy that holds where nobody wrote one."""
    return Ruling(permit(facts), BUILT_IN.snapshot)


def facts_at(letter: JobView, wall: float) -> Facts:
    """Give a letter as the policy sees it now."""
    return facts_of_letter(letter, now=datetime.fromtimestamp(wall, UTC), replay_mode="replay")
