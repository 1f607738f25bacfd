"""The policy in force as this process knows it: claims and sweeps bring a new one if there is one."""

from __future__ import annotations

from standfast.store.store import Store
from standfast.wings.policy.policy_in_force import InForce, of_store
from standfast.wings.policy.rules import BUILT_IN, Broken, Policy
from standfast.wings.policy.scripts import StoredPolicy
from standfast.wings.policy.triage import PolicyNow


class KnownPolicy:
    """Holds the last known policy. `mark` identifies it in the store."""

    def __init__(self) -> None:
        self.mark: str | None = None
        self._in_force = InForce(BUILT_IN)

    @property
    def policy(self) -> Policy | Broken:
        """The policy that decides."""
        return self._in_force.policy

    @property
    def issue(self) -> str | None:
        """What `health` says about it."""
        return self._in_force.issue

    def learn(self, stored: StoredPolicy | None) -> None:
        """Remember the policy in force; None means that it has not changed."""
        if stored is not None:
            self.mark, self._in_force = stored.mark, of_store(stored.rules, stored.problem)

    def policy_now(self, store: Store) -> PolicyNow:
        """Return what a letter is judged by now: policy and time."""
        return PolicyNow(self.policy, store.now())
