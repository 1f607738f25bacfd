"""What becomes of a letter: by the built-in policy, by rules, and by a policy that cannot be read."""

from __future__ import annotations

import pytest

from standfast.failure import CATALOGUE, Action, Class, Failure, Landed
from standfast.views import REPLAY_STATUSES, Triage
from standfast.wings.policy.facts import Facts
from standfast.wings.policy.load import load_policy
from standfast.wings.policy.rules import Broken, Policy
from standfast.wings.policy.triage import triage
from tests.core.policies import SAMPLE

POISON = {"schema_invalid", "parse_error", "tool_contract_mismatch"}
POLICY = load_policy(SAMPLE)
NOW = 1000.0


def failure(code: str) -> Failure:
    return Failure(cls=Class.UNKNOWN, landed=Landed.MAYBE, reason_code=code)


def replaying(backoff: str, max_replays: int = 99) -> Policy:
    rule = f"{{match: {{}}, action: auto_replay, backoff: {backoff}, max_replays: {max_replays}}}"
    return load_policy(f"version: v1\ndlq_rules: [{rule}]")


def exhausted(**given: object) -> Facts:
    return Facts(**{"reason_code": "max_attempts", "cls": "transient", **given})  # type: ignore[arg-type]


@pytest.mark.parametrize("code", sorted(POISON))
def test_poison_is_set_apart(code):
    assert triage(failure(code)) == Triage(action=Action.QUARANTINE, rule="built-in", replay_status="quarantined")
    assert triage(Facts(reason_code=code)) == triage(failure(code))


@pytest.mark.parametrize("code", [*sorted(CATALOGUE.keys() - POISON - {"consent_required"}), "a_handlers_own_code"])
def test_the_rest_waits_for_a_person(code):
    assert triage(failure(code)) == Triage(action=Action.MANUAL_REVIEW, rule="built-in", replay_status="pending_review")


def test_nothing_in_the_catalogue_acts_by_itself():
    assert {entry.action for entry in CATALOGUE.values()} == {Action.QUARANTINE, Action.MANUAL_REVIEW}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            exhausted(),
            Triage(action=Action.AUTO_REPLAY, rule="dlq_rules#1", replay_status="scheduled", replay_at=NOW + 60),
        ),
        (
            exhausted(replays=1),
            Triage(action=Action.AUTO_REPLAY, rule="dlq_rules#1", replay_status="scheduled", replay_at=NOW + 120),
        ),
        (exhausted(replays=2), Triage(action=Action.MANUAL_REVIEW, rule="dlq_rules#1 (2 of 2 replays used)")),
        (exhausted(cls="unknown"), Triage(action=Action.MANUAL_REVIEW, rule="built-in")),
        (
            Facts(reason_code="schema_invalid"),
            Triage(action=Action.QUARANTINE, rule="dlq_rules#2", owner="integration-team", replay_status="quarantined"),
        ),
        (
            Facts(reason_code="denied"),
            Triage(
                action=Action.REQUIRE_APPROVAL,
                rule="dlq_rules#3",
                approver_group="platform-governance",
                replay_status="approval_pending",
            ),
        ),
        (Facts(reason_code="unknown_commit_state"), Triage(action=Action.MANUAL_REVIEW, rule="dlq_rules#4")),
        (
            Facts(reason_code="parse_error"),
            Triage(action=Action.QUARANTINE, rule="built-in", replay_status="quarantined"),
        ),
    ],
)
def test_the_first_rule_that_fits_decides(facts, expected):
    assert triage(facts, POLICY, now=NOW) == expected
    assert expected.replay_status in REPLAY_STATUSES


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        ("exponential_jitter", [60, 120, 240, 480, 960, 1920, 3600, 3600]),
        ("fixed", [10, 10, 10]),
        ("none", [0, 0, 0]),
        ("{base: 5, cap: 15}", [5, 10, 15, 15]),
    ],
)
def test_each_replay_waits_as_its_rule_says(backoff, waits):
    policy = replaying(backoff)
    found = [triage(exhausted(replays=replays), policy, now=NOW).replay_at for replays in range(len(waits))]
    assert found == [NOW + wait for wait in waits]


def test_chance_only_shortens_the_wait():
    early = triage(exhausted(), replaying("exponential_jitter"), roll=0.999).replay_at
    assert isinstance(early, float)
    assert 54 < early < 55
    assert triage(exhausted(), replaying("none"), roll=0.999).replay_at == 0


def test_without_a_number_there_is_one_replay():
    policy = load_policy("version: v1\ndlq_rules: [{match: {}, action: auto_replay, owner: ann}]")
    assert triage(exhausted(), policy).action is Action.AUTO_REPLAY
    assert triage(exhausted(replays=1), policy) == Triage(
        action=Action.MANUAL_REVIEW, rule="dlq_rules#1 (1 of 1 replays used)", owner="ann"
    )


@pytest.mark.parametrize(
    ("facts", "replayed"),
    [
        (exhausted(replay_mode="replay", landed="no"), True),
        (exhausted(replay_mode="replay", landed="maybe"), False),
        (exhausted(replay_mode="verify_first", landed="maybe"), False),
        (exhausted(replay_mode="replay", landed="no", in_doubt=True), False),
        (exhausted(replay_mode="replay", cause="unknown_commit_state"), False),
        (exhausted(replay_mode="verify_first"), True),
        (exhausted(replay_mode="manual"), False),
        (Facts(reason_code="unknown_commit_state", replay_mode="replay"), False),
        (Facts(reason_code="partial_external_write", replay_mode="replay"), False),
        (Facts(reason_code="unknown_commit_state", replay_mode="verify_first"), True),
        (Facts(reason_code="unknown_commit_state", replay_mode="manual"), False),
    ],
)
def test_no_rule_replays_what_only_a_check_or_a_person_may(facts, replayed):
    decided = triage(facts, replaying("none"))
    assert (decided.action is Action.AUTO_REPLAY) is replayed
    assert (decided.replay_at is not None) is replayed
    assert (decided.rule == "dlq_rules#1") is replayed


@pytest.mark.parametrize("code", ["max_attempts", "schema_invalid"])
def test_under_a_broken_policy_the_catalogue_decides_and_says_so(code):
    decided = triage(exhausted(reason_code=code), Broken("line 3 is wrong"))
    assert decided.action is CATALOGUE[code].action
    assert decided.rule == "broken policy"
    assert decided.note is not None
    assert decided.note.startswith("when it died, the policy could not be read, so no rule of dlq_rules applied")
