"""What a candidate policy would change: compares the decisions on stored letters with those of the policy in force."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from standfast.views import Triage
from standfast.wings.policy.facts import Facts
from standfast.wings.policy.permit import Permission, permit
from standfast.wings.policy.rules import Broken, Policy, dlq_rule, replay_rule
from standfast.wings.policy.triage import triage

SAMPLES = 5


class Change(msgspec.Struct, frozen=True):
    """How many letters go from one answer to another (or stay), and the first few of them."""

    before: str
    after: str
    count: int
    samples: tuple[str, ...]


class WhatIf(msgspec.Struct, frozen=True):
    """The whole comparison."""

    letters: int
    changed: int
    """How many letters get another action, owner, decision or approver."""
    actions: tuple[Change, ...]
    decisions: tuple[Change, ...]
    unused: tuple[str, ...]
    """Rules of the candidate that decide about no letter: too narrow, or after a wider one."""


class _Table:
    """Counts pairs of answers, and keeps the first few letters of each."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = {}

    def add(self, id_: str, before: str, after: str) -> bool:
        count, samples = self._rows.get((before, after), (0, ()))
        self._rows[before, after] = (count + 1, samples if len(samples) == SAMPLES else (*samples, id_))
        return before != after

    def changes(self) -> tuple[Change, ...]:
        """Return changed answers first, then unchanged ones, the most frequent first."""
        rows = (Change(*pair, *row) for pair, row in self._rows.items())
        return tuple(sorted(rows, key=lambda row: (row.before == row.after, -row.count, row.before, row.after)))


def what_if(letters: Iterable[tuple[str, Facts]], present: Policy | Broken, candidate: Policy) -> WhatIf:
    """Compare two policies on letters (id and facts), which are read once and not kept."""
    actions, decisions, total, changed = _Table(), _Table(), 0, 0
    unused = dict.fromkeys(_names(candidate))
    for id_, facts in letters:
        total += 1
        differs = actions.add(id_, *_actions(triage(facts, present), triage(facts, candidate)))
        differs |= decisions.add(id_, *_decisions(permit(facts, present), permit(facts, candidate)))
        changed += differs
        for met in _met(facts, candidate):
            unused.pop(met, None)
    return WhatIf(total, changed, actions.changes(), decisions.changes(), tuple(unused))


def _actions(before: Triage, after: Triage) -> tuple[str, str]:
    """Name two actions; if they are the same, with the owners or approvers if these differ."""
    owners = (before.owner, after.owner)
    groups = (before.approver_group, after.approver_group)
    return _told_apart((before.action, after.action), owner=owners, **{"approver group": groups})


def _decisions(before: Permission, after: Permission) -> tuple[str, str]:
    """Name two decisions; if they are the same, with the approvers if these differ."""
    groups = (before.approver_group, after.approver_group)
    return _told_apart((before.decision, after.decision), **{"approver group": groups})


def _told_apart(answers: tuple[str, str], **details: tuple[str | None, str | None]) -> tuple[str, str]:
    before, after = map(str, answers)
    if before == after:
        for what, (was, becomes) in details.items():
            if was != becomes:
                before, after = f"{before}, {what} {was or 'none'}", f"{after}, {what} {becomes or 'none'}"
    return before, after


def _names(policy: Policy) -> list[str]:
    dlq = [dlq_rule(place) for place, _ in enumerate(policy.dlq_rules, 1)]
    return dlq + [replay_rule(place) for place, _ in enumerate(policy.replay_rules, 1)]


def _met(facts: Facts, policy: Policy) -> list[str]:
    dlq, replay = policy.triages(facts).found, policy.permits(facts)
    return [*([dlq_rule(dlq[0])] if dlq else []), *([replay_rule(replay[0])] if replay else [])]
