"""Whether a letter may be replayed; whatever is unclear is a no that says why."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from standfast.wings.policy.facts import Demand, Facts
from standfast.wings.policy.load import load_policy, read_policy
from standfast.wings.policy.permit import BUILT_IN, UNMATCHED, Permission, ask_outside, permit, read_answer, strictest
from standfast.wings.policy.rules import Broken
from tests.core.policies import SAMPLE

POLICY = load_policy(SAMPLE)
APPROVERS = "platform-governance"


def test_without_a_policy_replay_is_allowed():
    assert permit() == Permission("allow", "built-in")
    assert permit(Facts(risk="critical", reason_code="denied")) == BUILT_IN


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (Facts(queue="mail"), Permission("allow", "replay_rules#3")),
        (Facts(queue="mail", risk="high"), Permission("require_approval", "replay_rules#1", "", (APPROVERS,))),
        (Facts(queue="payments_eu", risk="high"), Permission("require_approval", "replay_rules#1", "", (APPROVERS,))),
        (
            Facts(queue="payments_eu"),
            Permission("deny", "replay_rules#2", "payments are replayed by the ledger, not here"),
        ),
        (Facts(queue="mail", reason_code="denied"), Permission("require_approval", "dlq_rules#3", "", (APPROVERS,))),
        (
            Facts(queue="payments", reason_code="denied"),
            Permission("deny", "replay_rules#2", "payments are replayed by the ledger, not here"),
        ),
        (
            Facts(risk="high", reason_code="denied"),
            Permission("require_approval", "replay_rules#1, dlq_rules#3", "", (APPROVERS,)),
        ),
    ],
)
def test_the_first_rule_decides_and_an_approval_that_triage_wants_stays_wanted(facts, expected):
    assert permit(facts, POLICY) == expected


def test_rules_that_do_not_speak_of_a_letter_deny_it():
    policy = load_policy("version: v1\nreplay_rules: [{match: {queue: mail}, decision: allow}]")
    assert permit(Facts(queue="mail"), policy).decision == "allow"
    assert permit(Facts(queue="post"), policy) == UNMATCHED
    assert UNMATCHED.decision == "deny"


def test_a_policy_without_replay_rules_allows_as_the_built_in_one_does():
    policy = load_policy(SAMPLE[: SAMPLE.index("replay_rules")])
    assert permit(Facts(reason_code="timeout", risk="critical"), policy) == BUILT_IN
    assert permit(Facts(reason_code="denied"), policy).decision == "require_approval"


@pytest.mark.parametrize("decided", ["broken policy", "built-in"])
def test_an_approval_requested_earlier_names_the_rule_that_requires_it(decided):
    earlier = Facts(queue="mail", risk="high", demand=Demand(decided))
    assert permit(earlier, POLICY).rule == "replay_rules#1"
    assert permit(Facts(queue="mail", demand=Demand(decided)), POLICY).rule == "an earlier request"


@pytest.mark.parametrize("broken", [Broken("x"), read_policy(None, "p.yaml"), read_policy("rules: []", "p.yaml")])
def test_a_missing_or_broken_policy_denies_everything_and_says_why(broken):
    answer = permit(Facts(queue="mail", risk="low"), broken)
    assert (answer.decision, answer.rule) == ("deny", "broken policy")
    assert broken.problem in answer.why


def test_the_strictest_answer_wins_and_of_equals_the_first():
    allow, ask, deny = Permission("allow", "a"), Permission("require_approval", "b"), Permission("deny", "c")
    assert strictest(allow, ask, deny) is deny
    assert strictest(allow, ask) == ask
    assert strictest(ask, Permission("require_approval", "d")) == Permission("require_approval", "b, d")
    assert strictest(allow) is allow


TWO_GROUPS = load_policy("""
version: v1
dlq_rules:
  - match: {age: "> 7d"}
    action: quarantine
  - match: {reason_code: denied}
    action: require_approval
    approver_group: crm-owners
replay_rules:
  - match: {risk: high}
    decision: require_approval
    approver_group: governance
  - match: {queue: frozen}
    decision: deny
  - match: {}
    decision: allow
""")
WEEK = 7 * 86400.0
DEMAND = Demand("dlq_rules#2", ("crm-owners",))


@pytest.mark.parametrize(
    ("facts", "decision", "rule", "groups"),
    [
        (Facts(reason_code="denied"), "require_approval", "dlq_rules#2", ["crm-owners"]),
        (Facts(risk="high"), "require_approval", "replay_rules#1", ["governance"]),
        (
            Facts(risk="high", reason_code="denied"),
            "require_approval",
            "replay_rules#1, dlq_rules#2",
            ["crm-owners", "governance"],
        ),
        (Facts(reason_code="denied", age=WEEK + 1), "allow", "replay_rules#3", []),
        (Facts(reason_code="denied", age=WEEK + 1, demand=DEMAND), "require_approval", "dlq_rules#2", ["crm-owners"]),
        (
            Facts(risk="high", age=WEEK + 1, demand=DEMAND),
            "require_approval",
            "replay_rules#1, dlq_rules#2",
            ["crm-owners", "governance"],
        ),
        (Facts(queue="frozen", demand=DEMAND), "deny", "replay_rules#2", []),
    ],
)
def test_an_approval_that_was_wanted_once_is_wanted_by_everybody_who_wants_one(facts, decision, rule, groups):
    assert permit(facts, TWO_GROUPS) == Permission(decision, rule, "", tuple(groups))


def test_an_approval_that_was_wanted_is_needed_under_any_other_policy():
    assert permit(Facts(demand=DEMAND)) == Permission("require_approval", "dlq_rules#2", "", ("crm-owners",))


class Word(StrEnum):
    YES = "allow"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("allow", Permission("allow", "external")),
        ("deny", Permission("deny", "external")),
        ("require_approval", Permission("require_approval", "external")),
        (Word.YES, Permission("allow", "external")),
        ({"decision": "deny", "why": "frozen\nweek"}, Permission("deny", "external", "frozen week")),
        (
            {"decision": "require_approval", "approver_group": "sre", "why": None},
            Permission("require_approval", "external", "", ("sre",)),
        ),
        (Permission("deny", "mine", "no"), Permission("deny", "external", "no")),
    ],
)
def test_an_external_answer_that_is_one(answer, expected):
    assert read_answer(answer) == expected


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("not even this")

    __str__ = __repr__


async def later() -> str:
    return "allow"


def odd_answers() -> list[Any]:
    return [
        *(
            None,
            True,
            False,
            1,
            "",
            "Allow",
            "yes",
            "allow ",
            b"allow",
            ["allow"],
            ("allow",),
            Odd(),
            {},
            {"allow": True},
        ),
        *({"decision": None}, {"decision": True}, {"decision": "yes"}, {"decision": Odd()}, {"decision": ["allow"]}),
        *({"decision": "allow", "extra": 1}, {"decision": "allow", Odd(): 1}, {"decision": "allow", "why": 5}),
        *({"decision": "allow", "approver_group": ["x"]}, {1: "allow"}, object, Permission("maybe", "x")),  # type: ignore[arg-type]
        "x" * 10**6,
    ]


@pytest.mark.parametrize("number", range(len(odd_answers())))
def test_any_other_answer_is_a_no_that_says_so(number):
    read = read_answer(odd_answers()[number])
    assert (read.decision, read.rule) == ("deny", "external")
    assert read.why.startswith("the external policy ")
    assert len(read.why) < 300


def test_an_answer_that_was_not_awaited_is_a_no():
    answer = later()
    assert "coroutine" in read_answer(answer).why
    answer.close()


def test_what_an_external_policy_raises_is_a_no_with_its_words():
    def broken() -> str:
        raise ValueError("no route\x1b[31m")

    def mute() -> str:
        raise Mute

    assert ask_outside(lambda: "allow").decision == "allow"
    assert ask_outside(broken).decision == "deny"
    assert ask_outside(broken).why.startswith("the external policy failed with ValueError: no route\ufffd")
    assert ask_outside(mute).why.startswith("the external policy failed with Mute;")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")
