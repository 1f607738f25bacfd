"""What the built-in policy does with a letter."""

from __future__ import annotations

import pytest

from standfast.decide.triage import triage
from standfast.failure import CATALOGUE, Action, Class, Failure, Landed
from standfast.lifecycle import Triage

POISON = {"schema_invalid", "parse_error", "tool_contract_mismatch"}


def failure(code: str) -> Failure:
    return Failure(cls=Class.UNKNOWN, landed=Landed.MAYBE, reason_code=code)


@pytest.mark.parametrize("code", sorted(POISON))
def test_poison_is_set_apart(code):
    assert triage(failure(code)) == Triage(action=Action.QUARANTINE, rule="built-in", replay_status="quarantined")


@pytest.mark.parametrize("code", [*sorted(CATALOGUE.keys() - POISON), "a_handlers_own_code"])
def test_the_rest_waits_for_a_person(code):
    assert triage(failure(code)) == Triage(action=Action.MANUAL_REVIEW, rule="built-in", replay_status="pending_review")
