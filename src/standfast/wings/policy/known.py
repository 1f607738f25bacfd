"""The policy in force as this process knows it: whoever claims or sweeps is brought another one when there is one."""

from __future__ import annotations

from standfast.store.store import Store
from standfast.wings.policy.force import InForce, of_store
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
