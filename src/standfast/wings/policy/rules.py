"""The policy as one value: what becomes of letters, who may replay them, and the hash of all of it."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, NamedTuple

import msgspec

from standfast.failure import Action, Landed
from standfast.lifecycle import Carried
from standfast.rules import Backoff
from standfast.wings.policy.facts import Facts
from standfast.wings.policy.match import Match
from standfast.wings.policy.rule_matcher import RuleMatcher

BROKEN = "broken"
"""Stands in place of the snapshot of a policy that cannot be used."""

Decision = Literal["allow", "deny", "require_approval"]
VERSION = "v1"

BACKOFFS = {
    "exponential_jitter": Backoff(base=60.0, cap=3600.0),
    "fixed": Backoff(table=(10.0,)),
    "none": Backoff(table=(0.0,), jitter=0.0),
}
"""How long an automatic replay waits, by the backoff's name in a policy."""


class DecidedUnder(Carried, frozen=True):
    """Carried by a transition that a policy allowed: it is applied only while that policy is in force."""

    snapshot: str
    """The policy's hash."""


class DlqRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of a letter that fits. `max_replays` and `backoff` are for `auto_replay`."""

    match: Match
    action: Action
    max_replays: int = 1
    """How often a letter may be replayed in all, by anyone, before this rule leaves it to a person."""
    backoff: Backoff = BACKOFFS["exponential_jitter"]
    owner: str | None = None
    """Who looks after the letter."""
    approver_group: str | None = None
    """Who may approve its replay; None means any approver."""

    def is_guarded(self, facts: Facts) -> bool:
        """Return whether this rule would automatically replay a letter that may have landed, without naming that case.

        Only a rule that says `landed: maybe` literally replays such a letter; any other is passed over.
        """
        says_so = Landed.MAYBE in self.match.texts.get("landed", ())
        return self.action is Action.AUTO_REPLAY and facts.may_have_landed and not says_so


class DlqMatch(NamedTuple):
    """Which of `dlq_rules` decides about a letter: the first that fits and is not guarded, with its place from 1."""

    found: tuple[int, DlqRule] | None = None
    passed_over: tuple[tuple[int, DlqRule], ...] = ()
    """Earlier rules that fit, but would automatically replay a letter that may have landed."""


class ReplayRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a letter that fits may be replayed."""

    match: Match
    decision: Decision
    approver_group: str | None = None
    why: str = ""
    """The reason that the requester is told."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, dict=True, forbid_unknown_fields=True):
    """Rules in order: the first that fits decides. `snapshot` is the hash of their meaning."""

    version: str = VERSION
    dlq_rules: tuple[DlqRule, ...] = ()
    replay_rules: tuple[ReplayRule, ...] = ()
    snapshot: str

    def triages(self, facts: Facts) -> DlqMatch:
        """Return the rule that decides what becomes of this letter, and those that were passed over."""
        passed_over: list[tuple[int, DlqRule]] = []
        for each in self._dlq.all(facts):
            if not each[1].is_guarded(facts):
                return DlqMatch(each, tuple(passed_over))
            passed_over.append(each)
        return DlqMatch(None, tuple(passed_over))

    def permits(self, facts: Facts) -> tuple[int, ReplayRule] | None:
        """Return the first rule that decides whether this letter may be replayed, with its place counted from 1."""
        return self._replay.first(facts)

    @cached_property
    def _dlq(self) -> RuleMatcher[DlqRule]:
        return RuleMatcher(self.dlq_rules)

    @cached_property
    def _replay(self) -> RuleMatcher[ReplayRule]:
        return RuleMatcher(self.replay_rules)


class Broken(msgspec.Struct, frozen=True):
    """A policy that is configured but cannot be used: its file is missing or invalid."""

    problem: str
    missing: bool = False
    unread: bool = False
    """Whether it may be good: what reads it is not installed, so that the same file is worth another try."""

    @property
    def snapshot(self) -> str:
        """The snapshot that is stored with decisions made under it."""
        return BROKEN


BUILT_IN = Policy(version="built-in", snapshot="built-in")
"""The policy if none is written: poison is quarantined; a person looks at the rest and may replay it."""


def dlq_rule(place: int) -> str:
    """Return the name of a rule as stored with a letter."""
    return f"dlq_rules#{place}"


def replay_rule(place: int) -> str:
    """Return the name of a rule as stored with a decision."""
    return f"replay_rules#{place}"
