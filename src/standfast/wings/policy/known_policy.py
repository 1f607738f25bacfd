"""The policy in force as this process knows it: claims and sweeps bring a new one when there is one."""

from __future__ import annotations

from standfast.store.store import Store
from standfast.wings.policy.policy_in_force import InForce, of_store
from standfast.wings.policy.rules import BUILT_IN, Broken, Policy
from standfast.wings.policy.scripts import StoredPolicy
from standfast.wings.policy.triage import PolicyNow


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

    def learn(self, stored: StoredPolicy | None) -> None:
        """Take note of the policy in force; None is no news."""
        if stored is not None:
            self.mark, self._in_force = stored.mark, of_store(stored.rules, stored.problem)

    def policy_now(self, store: Store) -> PolicyNow:
        """Give what a letter is judged by now."""
        return PolicyNow(self.policy, store.now())
