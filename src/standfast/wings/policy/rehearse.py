"""Tests whether a policy does what its authors expect. Each case is a letter and the answer it should get."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from standfast.wings.policy.cases import Case
from standfast.wings.policy.permit import permit
from standfast.wings.policy.rules import Policy
from standfast.wings.policy.triage import triage

OF_PERMISSION = frozenset({"decision", "why"})
OF_EITHER = frozenset({"approver_group", "rule"})
"""Taken from the permission if a decision is expected, otherwise from the triage."""


class CaseResult(msgspec.Struct, frozen=True):
    """How one case went; `problems` is empty if it went as expected."""

    name: str
    line: int
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether it went as expected."""
        return not self.problems


def rehearse(cases: Iterable[Case], policy: Policy) -> list[CaseResult]:
    """Ask the policy about every case."""
    return [CaseResult(case.name, case.line, _problems(case, policy)) for case in cases]


def _problems(case: Case, policy: Policy) -> tuple[str, ...]:
    decided, permission = triage(case.letter, policy), permit(case.letter, policy)
    of_permission = OF_PERMISSION | (OF_EITHER if "decision" in case.expect else frozenset())
    found = []
    for key, expected in case.expect.items():
        answer = permission if key in of_permission else decided
        given = getattr(answer, key)
        if given != expected:
            by = f"{answer.rule}; {decided.note}" if answer is decided and decided.note else answer.rule
            found.append(f"{key}: expected {expected}, got {given or 'nothing'} (by {by})")
    return tuple(found)
