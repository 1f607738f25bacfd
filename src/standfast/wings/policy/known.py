"""The policy in force as this process knows it: whoever claims or sweeps is brought another one when there is one."""

from __future__ import annotations

from standfast.failure import Action
from standfast.job import Details
from standfast.lifecycle import Transition
from standfast.spine.ids import IDS
from standfast.store.store import Store
from standfast.wings.approvals.words import Filing, bound_to
from standfast.wings.policy.force import InForce, of_store
from standfast.wings.policy.permit import named
from standfast.wings.policy.rules import BUILT_IN, Broken, Policy
from standfast.wings.policy.scripts import Kept
from standfast.wings.policy.triage import Present


class KnownPolicy:
    """Holds the policy last heard of. `mark` is what the store knows it by."""

    def __init__(self) -> None:
        self.mark: str | None = None
        self._in_force = InForce(BUILT_IN)

    @property
    def policy(self) -> Policy | Broken:
        """What decides."""
        return self._in_force.policy

    @property
    def issue(self) -> str | None:
        """What health says about it."""
        return self._in_force.issue

    def learn(self, kept: Kept | None) -> None:
        """Take note of the policy in force; None is no news."""
        if kept is not None:
            self.mark, self._in_force = kept.mark, of_store(kept.rules, kept.problem)

    def present(self, store: Store) -> Present:
        """Give what a letter is judged by now."""
        return Present(self.policy, store.now())


def filed(decided: Transition, store: Store, *, handler: str, payload: str, details: Details) -> Transition:
    """Have a letter's approval asked for with its death, where the policy wants one."""
    wall, ttl = store.now() + store.skew(), store.approval_ttl
    return with_filing(decided, wall, ttl, handler=handler, payload=payload, details=details)


def with_filing(
    decided: Transition, wall: float, ttl: float, *, handler: str, payload: str, details: Details
) -> Transition:
    """Do the same where the time is known, and how long an approval waits."""
    said = decided.triage
    if said is None or said.action is not Action.REQUIRE_APPROVAL:
        return decided
    snapshot = decided.policy_snapshot or BUILT_IN.snapshot
    filing = Filing(
        id=IDS.mint(wall),
        bound=bound_to(decided.queue, handler, payload, details.amended, snapshot),
        reason="the policy asks for it",
        requesters=details.wanted_by,
        groups=said.approver_groups or named(said.approver_group),
        rule=said.rule,
        ttl=ttl,
    )
    return decided.carrying(filing)
