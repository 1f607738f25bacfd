"""Which letters a rule speaks of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from standfast.failure import Class, Failure, Landed
from standfast.views import JobView
from standfast.wings.policy.facts import UNKNOWN, Facts, facts_of_letter
from standfast.wings.policy.load import load_policy
from standfast.wings.policy.match import Match, like
from standfast.wings.policy.rule_matcher import MOST_KINDS, RuleMatcher

LETTER = Facts(
    queue="payments_eu",
    handler="charge",
    reason_code="max_attempts",
    cause="read_timeout",
    cls="transient",
    landed="maybe",
    error_kind="ReadTimeout",
    risk="high",
    labels={"team": "billing", "tier": "1"},
    attempts=5,
    replays=1,
    age=7200.0,
    session="s-1",
    requester="ann@example.com",
)


def match(written: str) -> Match:
    return load_policy(f"version: v1\nreplay_rules:\n  - match: {written}\n    decision: allow\n").replay_rules[0].match


@pytest.mark.parametrize(
    "written",
    [
        "{}",
        "{queue: payments_eu}",
        '{queue: "payments*"}',
        '{queue: "*_eu", handler: "*"}',
        '{queue: "p*y*nts_e*"}',
        "{queue: [mail, payments_eu]}",
        "{reason_code: max_scheduling_retries}",
        "{reason_code: [timeout, max_scheduling_retries]}",
        "{reason_code: read_timeout}",
        "{reason_code: max_attempts, cause: read_*}",
        "{class: [transient, unknown], landed: maybe}",
        "{error_kind: Read*}",
        "{risk: high}",
        '{risk: ">= medium"}',
        '{risk: ["critical", "> low, < critical"]}',
        "{labels: {team: billing}}",
        '{labels: {team: [ops, bill*], tier: "1"}}',
        "{attempts: 5}",
        "{attempts: [1, 5]}",
        '{attempts: ">= 5"}',
        '{attempts: "> 4, < 6", replays: "= 1"}',
        '{replays: "<2"}',
        '{age: ">= 2h"}',
        '{age: "> 1h 59m, < 3h"}',
        '{age: "<= 7200"}',
        '{session: "*", requester: "*@example.com"}',
    ],
)
def test_a_rule_that_speaks_of_the_letter(written):
    assert match(written).fits(LETTER)


@pytest.mark.parametrize(
    "written",
    [
        "{queue: payments}",
        "{queue: Payments_eu}",
        '{queue: "payments*", handler: refund}',
        '{queue: "*_us"}',
        '{queue: "payments_eu*eu"}',
        "{queue: [mail, post]}",
        "{reason_code: timeout}",
        "{class: permanent}",
        "{landed: no}",
        "{risk: critical}",
        '{risk: "> high"}',
        "{labels: {team: ops}}",
        '{labels: {team: billing, tier: "2"}}',
        '{labels: {owner: "*"}}',
        "{attempts: 4}",
        '{attempts: ">= 6"}',
        '{attempts: "> 5, < 10"}',
        '{replays: "> 1"}',
        '{age: "> 2h"}',
        '{age: "< 30m"}',
        "{session: s-2}",
    ],
)
def test_a_rule_that_does_not(written):
    assert not match(written).fits(LETTER)


@pytest.mark.parametrize("key", ["queue", "handler", "reason_code", "error_kind", "session", "requester"])
def test_what_nobody_knows_fits_nothing(key):
    assert not match(f'{{{key}: "*"}}').fits(UNKNOWN)


def test_a_letter_without_a_risk_has_none():
    assert not match('{risk: "<= critical"}').fits(UNKNOWN)
    assert not match('{risk: ">= low"}').fits(msgspec.structs.replace(LETTER, risk="extreme"))


@pytest.mark.parametrize(
    ("text", "pattern", "fits"),
    [
        ("", "", True),
        ("", "*", True),
        ("abc", "abc", True),
        ("abc", "a*c", True),
        ("ac", "a*c", True),
        ("a", "a*a", False),
        ("aba", "ab*ba", False),
        ("abab", "*ab*ab*", True),
        ("ab", "*ab*ab*", False),
        ("abc", "**b**", True),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("a[b", "a[*", True),
        ("x" * 100_000, "x*" * 5_000 + "y", False),
    ],
)
def test_a_star_stands_for_any_characters_and_nothing_else_does(text, pattern, fits):
    assert like(text, pattern) is fits


def test_the_first_rule_that_fits_is_found_with_its_place():
    rules = load_policy(
        "version: v1\nreplay_rules:\n"
        "  - {match: {queue: mail}, decision: deny}\n"
        "  - {match: {queue: payments_eu}, decision: require_approval}\n"
        "  - {match: {}, decision: allow}\n"
    ).replay_rules
    assert RuleMatcher(rules).first(LETTER) == (2, rules[1])
    assert RuleMatcher(rules).first(UNKNOWN) == (3, rules[2])
    assert RuleMatcher(rules[:2]).first(UNKNOWN) is None


def test_letters_that_look_alike_are_still_told_apart_by_their_numbers_and_labels():
    rules = load_policy(
        "version: v1\ndlq_rules:\n"
        "  - {match: {queue: 'pay*', attempts: '>= 3'}, action: quarantine}\n"
        "  - {match: {labels: {team: red}}, action: manual_review}\n"
        "  - {match: {risk: high}, action: quarantine}\n"
        "  - {match: {class: transient}, action: manual_review}\n"
    ).dlq_rules
    fitting = RuleMatcher(rules)
    letters = [
        Facts(queue=queue, cls=cls, attempts=attempts, labels=labels, risk=risk)
        for queue in ("pay_eu", "mail")
        for cls in ("transient", "permanent")
        for attempts in (2, 3)
        for labels in ({}, {"team": "red"})
        for risk in (None, "high")
    ]
    for letter in (*letters, *reversed(letters)):
        plainly = next(((place, rule) for place, rule in enumerate(rules, 1) if rule.match.fits(letter)), None)
        assert fitting.first(letter) == plainly


def test_letters_that_are_all_different_do_not_fill_the_memory():
    [rule] = load_policy("version: v1\ndlq_rules:\n  - {match: {session: 's*'}, action: quarantine}\n").dlq_rules
    fitting = RuleMatcher([rule])
    assert all(fitting.first(Facts(session=f"s{n}")) == (1, rule) for n in range(2 * MOST_KINDS + 1))
    assert len(fitting.remembered) <= MOST_KINDS


def test_a_stored_letter_tells_its_facts():
    then = datetime(2026, 11, 16, tzinfo=UTC)
    names = JobView.__struct_fields__
    known = {
        "queue": "payments_eu",
        "handler": "charge",
        "risk": "high",
        "labels": LETTER.labels,
        "attempts": 5,
        "replays": 1,
        "session": "s-1",
        "requester": "ann@example.com",
        "first_seen_at": then,
        "failure": Failure(
            cls=Class.TRANSIENT,
            landed=Landed.MAYBE,
            reason_code="max_attempts",
            cause="read_timeout",
            error_kind="ReadTimeout",
        ),
    }
    letter = JobView(**{name: known.get(name) for name in names})  # type: ignore[arg-type]
    assert facts_of_letter(letter, now=then + timedelta(hours=2), replay_mode="replay") == LETTER
    assert facts_of_letter(letter, now=then - timedelta(hours=2), replay_mode="manual").age == 0
