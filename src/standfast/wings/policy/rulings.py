"""What the policy says about a letter, asked anew each time: the interface between letters and the policy in force."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from standfast.failure import Landed
from standfast.failure.letter_advice import QUARANTINED
from standfast.rules import ReplayMode
from standfast.views import JobView
from standfast.wings.policy import permit
from standfast.wings.policy.facts import Facts, facts_of_letter, left_in_doubt
from standfast.wings.policy.permit import Permission
from standfast.wings.policy.rules import BUILT_IN


class Ruling(msgspec.Struct, frozen=True):
    """What was decided, and under which policy."""

    permission: Permission
    snapshot: str
    stored: bool = False
    """Whether the store has this policy: then decisions under it are applied only while it is in force."""


Permit = Callable[[Facts], Awaitable[Ruling]]
"""Asks the policy in force, outside any transaction."""


PermitMany = Callable[[Sequence[Facts]], Awaitable[list[Ruling]]]
"""Asks it about many letters at once: one policy, read once, decides about all of them."""


def one_by_one(permit: Permit) -> PermitMany:
    """Return a function that asks about many letters one by one."""

    async def ask(many: Sequence[Facts]) -> list[Ruling]:
        return [await permit(facts) for facts in many]

    return ask


Modes = Mapping[tuple[str, str], ReplayMode]
"""The replay mode of each published handler, by queue and name."""


def for_agent(ruling: Ruling, letter: JobView, modes: Modes) -> Ruling:
    """Require a person's approval of an agent's request if the letter is `manual` or may have landed.

    A letter that a person has stopped on purpose is denied.
    """
    why = closed_to_agents(letter)
    if why is not None:
        return msgspec.structs.replace(ruling, permission=Permission("deny", permit.AGENT, why))
    manual = modes.get((letter.queue, letter.handler)) == "manual"
    landed = may_have_landed(letter) == Landed.MAYBE
    permission = permit.for_agent(ruling.permission, manual=manual, may_have_landed=landed)
    return msgspec.structs.replace(ruling, permission=permission)


def closed_to_agents(letter: JobView) -> str | None:
    """Return why agents may not replay a letter, and who can: a person has quarantined it or refused consent."""
    if letter.triage is not None and letter.triage.replay_status == QUARANTINED:
        owner = letter.triage.owner
        whose = f" for {owner}" if owner else ""
        return f"it is in quarantine{whose}; {owner or 'a person'} can replay, amend, resolve or discard it"
    if letter.failure is not None and letter.failure.reason_code == "consent_denied":
        return "a person refused it; a person can replay it, and is asked for consent again"
    return None


def may_have_landed(letter: JobView) -> Landed:
    """Return whether any attempt may have landed: an uncertain one stays so, however the last one ended."""
    known = [line.landed for line in letter.history]
    if letter.failure is not None:
        known.append(letter.failure.landed)
    return Landed.MAYBE if Landed.MAYBE in known else Landed.NO


async def built_in(facts: Facts) -> Ruling:
    """Ask the built-in policy."""
    return Ruling(permit.permit(facts), BUILT_IN.snapshot)


def facts_at(letter: JobView, wall: float, replay_mode: ReplayMode | None = None) -> Facts:
    """Return a letter as the policy sees it now.

    The replay mode, and doubts that earlier attempts left, matter only for triage.
    """
    now = datetime.fromtimestamp(wall, UTC)
    if replay_mode is None:
        return facts_of_letter(letter, now=now, replay_mode="replay")
    facts = facts_of_letter(letter, now=now, replay_mode=replay_mode)
    return msgspec.structs.replace(facts, in_doubt=left_in_doubt(letter, replay_mode))
