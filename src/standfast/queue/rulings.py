"""What the policy says about a letter, asked afresh each time: the seam between letters and the policy in force."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

import msgspec

from standfast.decide.permit import Permission, permit
from standfast.job import JobView
from standfast.policy.facts import Facts, facts_of_letter
from standfast.policy.rules import BUILT_IN
from standfast.rules import ReplayMode


class Ruling(msgspec.Struct, frozen=True):
    """What was decided, and under which policy."""

    permission: Permission
    snapshot: str
    stored: bool = False
    """Whether it is the store's: what was decided under it then lands only while it is in force."""


Permit = Callable[[Facts], Awaitable[Ruling]]
"""Asks the policy in force, outside of any transaction."""


PermitMany = Callable[[Sequence[Facts]], Awaitable[list[Ruling]]]
"""Asks it about many letters at once: one policy decides about all of them, and is read once."""


def one_by_one(permit: Permit) -> PermitMany:
    """Ask about many where only one can be asked about."""

    async def ask(many: Sequence[Facts]) -> list[Ruling]:
        return [await permit(facts) for facts in many]

    return ask


async def built_in(facts: Facts) -> Ruling:
    """Ask the policy that holds where nobody wrote one."""
    return Ruling(permit(facts), BUILT_IN.snapshot)


def facts_at(letter: JobView, wall: float, replay_mode: ReplayMode = "replay") -> Facts:
    """Give a letter as the policy sees it now; what its handler may repeat matters to triage only."""
    return facts_of_letter(letter, now=datetime.fromtimestamp(wall, UTC), replay_mode=replay_mode)
