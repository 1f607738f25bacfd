"""Trying a policy before it decides: over stored letters, and over cases its writers wrote down."""

from __future__ import annotations

import pytest

from standfast.errors import PolicyRefused
from standfast.wings.policy.cases import load_cases
from standfast.wings.policy.facts import Facts
from standfast.wings.policy.load import load_policy
from standfast.wings.policy.rehearse import CaseResult, rehearse
from standfast.wings.policy.rules import BUILT_IN, Broken
from standfast.wings.policy.what_if import SAMPLES, Change, WhatIf, what_if
from tests.core.policies import SAMPLE

POLICY = load_policy(SAMPLE)

CASES = """\
cases:
  - name: what is exhausted comes back by itself
    letter: {reason_code: max_scheduling_retries, class: transient, replays: 1, age: 2h, labels: {team: billing}}
    expect: {action: auto_replay, replay_status: scheduled, rule: "dlq_rules#1"}
  - name: poison has an owner
    letter: {reason_code: schema_invalid}
    expect: {action: quarantine, owner: integration-team}
  - name: payments are not replayed
    letter: {queue: payments_eu, risk: low, attempts: 5}
    expect: {decision: deny, why: "payments are replayed by the ledger, not here", rule: "replay_rules#2"}
  - name: both in one
    letter: {queue: mail, reason_code: denied, replay_mode: manual}
    expect: {action: require_approval, decision: require_approval}
  - name: high risk is asked for
    letter: {queue: mail, risk: high, session: s, requester: ann}
    expect: {decision: require_approval, approver_group: platform-governance}
"""


def test_cases_that_go_as_expected():
    assert [case.problems for case in rehearse(load_cases(CASES), POLICY)] == [()] * 5
    assert all(case.passed for case in rehearse(load_cases(CASES), POLICY))


def test_cases_that_do_not_say_what_came_instead_and_their_line():
    policy = load_policy(SAMPLE.replace("max_replays: 2", "max_replays: 1").replace("integration-team", "ops"))
    failed = [case for case in rehearse(load_cases(CASES), policy) if not case.passed]
    by = "(by dlq_rules#1 (1 of 1 replays used))"
    assert failed == [
        CaseResult(
            "what is exhausted comes back by itself",
            2,
            (
                f"action: expected auto_replay, got manual_review {by}",
                f"replay_status: expected scheduled, got pending_review {by}",
                f"rule: expected dlq_rules#1, got dlq_rules#1 (1 of 1 replays used) {by}",
            ),
        ),
        CaseResult("poison has an owner", 5, ("owner: expected integration-team, got ops (by dlq_rules#2)",)),
    ]


def test_a_case_says_which_rule_was_passed_over():
    letter = "{reason_code: max_attempts, class: transient, cause: unknown_commit_state, landed: maybe}"
    text = f"cases:\n  - name: unsure\n    letter: {letter}\n    expect: {{action: auto_replay}}\n"
    [case] = rehearse(load_cases(text), POLICY)
    note = "dlq_rules#1 would replay it, but its effect may have landed, and the rule does not say `landed: maybe`"
    assert case.problems == (f"action: expected auto_replay, got manual_review (by dlq_rules#4; {note})",)


def test_a_case_whose_cause_is_not_said_has_its_reason_for_one():
    policy = load_policy("version: v1\ndlq_rules: [{match: {cause: timeout}, action: quarantine}]")
    text = "cases: [{name: slow, letter: {reason_code: timeout}, expect: {action: quarantine}}]"
    assert all(case.passed for case in rehearse(load_cases(text), policy))


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("", 1, 1, "empty"),
        ("case: []", 1, 1, "did you mean 'cases'?"),
        ("cases: {}", 1, 8, "must be a list"),
        ("cases:\n  - name: x", 2, 5, "needs the key 'letter'"),
        ("cases:\n  - {name: x, letter: {}, expect: {}}", 2, 35, "an action (of dlq_rules) or a decision"),
        ("cases:\n  - {name: x, letter: {}, expect: {owner: x}}", 2, 35, "an action"),
        ("cases:\n  - {name: x, letter: {}, expect: {action: allow}}", 2, 44, "auto_replay"),
        ("cases:\n  - {name: x, letter: {risk: huge}, expect: {action: allow}}", 2, 30, "low, medium, high"),
        ("cases:\n  - {name: x, letter: {age: '> 2h'}, expect: {decision: deny}}", 2, 29, "is not a time"),
        ("cases:\n  - {name: x, letter: {payload: x}, expect: {decision: deny}}", 2, 24, "unknown key 'payload'"),
        ("cases:\n  - {name: x, letter: {labels: x}, expect: {decision: deny}}", 2, 32, "{team: billing}"),
        (
            "cases:\n  - {name: x, letter: {}, expect: {action: quarantine, decision: deny, rule: x}}",
            *(2, 35, "write two cases"),
        ),
    ],
)
def test_a_case_that_cannot_be_is_refused_where_it_stands(text, line, column, says):
    with pytest.raises(PolicyRefused) as caught:
        load_cases(text, "cases.yaml")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith("cases.yaml, line ")
    assert says in str(caught.value)


def letters() -> list[tuple[str, Facts]]:
    exhausted = [(f"e{n}", Facts(queue="mail", reason_code="max_attempts", cls="transient")) for n in range(7)]
    poison = [("p1", Facts(queue="mail", reason_code="schema_invalid"))]
    paid = [(f"y{n}", Facts(queue="payments", reason_code="timeout")) for n in range(2)]
    return [*exhausted, *poison, *paid]


def test_what_a_candidate_would_change():
    assert what_if(iter(letters()), BUILT_IN, POLICY) == WhatIf(
        letters=10,
        changed=10,
        actions=(
            Change("manual_review", "auto_replay", 7, ("e0", "e1", "e2", "e3", "e4")),
            Change("quarantine, owner none", "quarantine, owner integration-team", 1, ("p1",)),
            Change("manual_review", "manual_review", 2, ("y0", "y1")),
        ),
        decisions=(
            Change("allow", "deny", 2, ("y0", "y1")),
            Change("allow", "allow", 8, ("e0", "e1", "e2", "e3", "e4")),
        ),
        unused=("dlq_rules#3", "dlq_rules#4", "replay_rules#1"),
    )
    assert SAMPLES == 5


def test_what_differs_is_said_if_the_action_or_the_decision_is_the_same():
    rules = """version: v1
dlq_rules:
  - match: {queue: payments}
    action: manual_review
    owner: OWNER
replay_rules:
  - match: {}
    decision: require_approval
    approver_group: GROUP
"""
    one = load_policy(rules.replace("OWNER", "ann").replace("GROUP", "ops"))
    other = load_policy(rules.replace("OWNER", "bea").replace("GROUP", "legal"))
    found = what_if(letters(), one, other)
    assert [each for each in found.actions if each.before != each.after] == [
        Change("manual_review, owner ann", "manual_review, owner bea", 2, ("y0", "y1"))
    ]
    assert found.decisions == (
        Change(
            "require_approval, approver group ops",
            "require_approval, approver group legal",
            10,
            ("e0", "e1", "e2", "e3", "e4"),
        ),
    )
    assert found.changed == 10


def test_the_same_policy_changes_nothing_and_a_broken_one_can_be_mended():
    assert what_if(letters(), POLICY, POLICY).changed == 0
    assert what_if([], POLICY, POLICY).letters == 0
    assert what_if(letters(), Broken("x"), BUILT_IN).decisions == (
        Change("deny", "allow", 10, ("e0", "e1", "e2", "e3", "e4")),
    )
