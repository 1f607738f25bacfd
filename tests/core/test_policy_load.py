"""A policy is read whole, or refused with line, column and what is allowed there."""

from __future__ import annotations

import builtins
import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from standfast.concurrency.guarded import call_guarded
from standfast.errors import ConfigurationError, PolicyRefused
from standfast.failure import Action
from standfast.rules import Backoff
from standfast.wings.policy.document import LARGEST
from standfast.wings.policy.load import load_policy, read_policy
from standfast.wings.policy.match import Bound, Match
from standfast.wings.policy.policy_in_force import in_force
from standfast.wings.policy.rules import BUILT_IN, Broken, DlqRule, Policy, ReplayRule
from standfast.wings.policy.verbs import content
from tests.core.policies import SAMPLE

AS_PUBLISHED = """\
version: v1
dlq_rules:
- match:
reason_code: max_scheduling_retries
action: auto_replay
max_replays: 2
backoff: exponential_jitter
- match:
reason_code: schema_invalid
action: quarantine
owner: integration-team
- match:
reason_code: denied
action: require_approval
approver_group: platform-governance
- match:
reason_code: unknown_commit_state
action: manual_review"""
"""The text of the article, whose indentation was lost on the way."""


def rule(written: str) -> str:
    return f"version: v1\ndlq_rules:\n  - {written}\n"


def asking(match: str) -> str:
    return rule(f"{{match: {{{match}}}, action: manual_review}}")


def refusal(text: str | bytes) -> PolicyRefused:
    with pytest.raises(PolicyRefused) as caught:
        load_policy(text)
    return caught.value


def texts(**keys: str) -> Match:
    return Match(texts={"class" if key == "cls" else key: (value,) for key, value in keys.items()})


def test_the_sample_of_the_contract():
    policy = load_policy(SAMPLE)
    assert policy.dlq_rules == (
        DlqRule(
            match=texts(reason_code="max_attempts", cls="transient"),
            action=Action.AUTO_REPLAY,
            max_replays=2,
            backoff=Backoff(base=60.0, cap=3600.0),
        ),
        DlqRule(match=texts(reason_code="schema_invalid"), action=Action.QUARANTINE, owner="integration-team"),
        DlqRule(
            match=texts(reason_code="denied"), action=Action.REQUIRE_APPROVAL, approver_group="platform-governance"
        ),
        DlqRule(match=texts(reason_code="unknown_commit_state"), action=Action.MANUAL_REVIEW),
    )
    assert policy.replay_rules == (
        ReplayRule(
            match=Match(ranges={"risk": ((Bound("=", 2),),)}),
            decision="require_approval",
            approver_group="platform-governance",
        ),
        ReplayRule(
            match=texts(queue="payments*"), decision="deny", why="payments are replayed by the ledger, not here"
        ),
        ReplayRule(match=Match(), decision="allow"),
    )


def test_text_pasted_from_the_article_loads_as_it_is():
    pasted = load_policy(AS_PUBLISHED)
    indented = re.sub(r"^reason_code", "    reason_code", AS_PUBLISHED, flags=re.MULTILINE)
    indented = re.sub(r"^(?=action|max_|backoff|owner|approver)", "  ", indented, flags=re.MULTILINE)
    assert load_policy(indented) == pasted
    assert [each.action for each in pasted.dlq_rules] == [
        *(Action.AUTO_REPLAY, Action.QUARANTINE, Action.REQUIRE_APPROVAL, Action.MANUAL_REVIEW)
    ]
    assert pasted.dlq_rules[0].match == texts(reason_code="max_attempts")


def test_a_mistake_in_pasted_text_is_placed_where_it_stands_there():
    error = refusal(AS_PUBLISHED.replace("quarantine", "quarantene"))
    assert (error.line, error.column) == (10, 9)
    error = refusal(AS_PUBLISHED.replace("reason_code: denied", "class: denied"))
    assert (error.line, error.column) == (13, 8)


@pytest.mark.parametrize(
    ("written", "backoff"),
    [
        ("exponential_jitter", Backoff(base=60.0, cap=3600.0)),
        ("fixed", Backoff(table=(10.0,))),
        ("none", Backoff(table=(0.0,), jitter=0.0)),
        ("{base: 5, cap: 600}", Backoff(base=5.0, cap=600.0)),
        ("{base: 1m, cap: 2h}", Backoff(base=60.0, cap=7200.0)),
        ("{cap: 90}", Backoff(base=60.0, cap=90.0)),
    ],
)
def test_backoffs(written, backoff):
    policy = load_policy(rule(f"{{match: {{}}, action: auto_replay, backoff: {written}}}"))
    assert policy.dlq_rules[0].backoff == backoff


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("", 1, 1, "empty"),
        ("# nothing\n\n", 3, 1, "empty"),
        ("x", 1, 1, "version, dlq_rules, replay_rules"),
        ("- a", 1, 1, "must be a map"),
        ("dlq_rules: []", 1, 1, "needs the key 'version'"),
        ("version: v2", 1, 10, "unknown version 'v2'; allowed are v1"),
        ("version: 1", 1, 10, "allowed are v1"),
        ("version: v1\nversion: v1", 2, 1, "'version' occurs twice (first in line 1)"),
        ("version: v1\nrules: []", 2, 1, "did you mean 'dlq_rules'?"),
        ("version: v1\n<<: {}", 2, 1, "unknown key '<<'"),
        ("version: v1\n? [a]\n: b", 2, 3, "a key must be a text"),
        ("version: v1\ndlq_rules: {}", 2, 12, "must be a list"),
        ("version: v1\ndlq_rules:", 2, 11, "must be a list"),
        ("version: v1\n---\nversion: v1", 2, 1, "second document"),
        ("%YAML 1.1\n---\nversion: v1", 2, 1, "directive"),
        ("version: !!str v1", 1, 10, "a tag"),
        ("version: &v v1", 1, 10, "an anchor"),
        ("version: v1\ndlq_rules: [*a]", 2, 13, "an alias"),
        ("version: v1\ndlq_rules:\n\t- x", 3, 1, "a tab"),
        ("version: v1\n  \tx", 2, 3, "a tab"),
        (b"version: v1\n# caf\xe9", 2, 6, "not UTF-8"),
        ("version: v1\n# \ud800", 2, 3, "surrogate"),
        ("version: v1\n# \x01", 2, 3, "special characters"),
        ('version: "\\U00110000"', 1, 1, "not YAML"),
        ("version: v1\n" + "#" * LARGEST, 1, 1, f"{LARGEST} are allowed"),
        ("version: v1\ndlq_rules: [[[[[[[[[[", 2, 19, "nested deeper"),
        ("version: v1\ndlq_rules: " + "[a, " * 20_000, 2, 37, "nested deeper"),
        (rule("{action: manual_review}"), 3, 5, "needs the key 'match'"),
        (rule("{match: {}}"), 3, 5, "needs the key 'action'"),
        (rule("match:\n    action: manual_review"), 4, 5, "{} for every letter"),
        (rule("{match: {}, action: replay}"), 3, 25, "did you mean 'auto_replay'?"),
        (rule("{match: {}, action: [quarantine]}"), 3, 25, "auto_replay, quarantine, require_approval, manual_review"),
        (rule("{match: {}, action: quarantine, max_replays: 2}"), 3, 37, "goes with auto_replay, not with quarantine"),
        (rule("{match: {}, action: auto_replay, approver_group: x}"), 3, 38, "goes with require_approval"),
        (rule("{match: {}, action: auto_replay, max_replays: two}"), 3, 51, "whole number from 1 to 1000"),
        (rule('{match: {}, action: auto_replay, max_replays: "2"}'), 3, 51, "without quotes"),
        (rule("{match: {}, action: auto_replay, max_replays: 0}"), 3, 51, "from 1"),
        (rule("{match: {}, action: auto_replay, max_replays: 2.5}"), 3, 51, "whole number"),
        (rule("{match: {}, action: auto_replay, backoff: slow}"), 3, 47, "exponential_jitter, fixed, none, or {base"),
        (rule("{match: {}, action: auto_replay, backoff: {base: 0}}"), 3, 47, "more than 0"),
        (rule("{match: {}, action: auto_replay, backoff: {step: 1}}"), 3, 48, "allowed are base, cap"),
        (rule("{match: {}, action: auto_replay, backoff: {base: soon}}"), 3, 54, "is not a time"),
        (rule(f"{{match: {{}}, action: auto_replay, backoff: {{base: {'9' * 400}d}}}}"), 3, 54, "is not a time"),
        (rule("{match: {}, action: quarantine, owner: 7}"), 3, 44, 'put it in quotes: "7"'),
        (rule("{match: {}, action: quarantine, owner: no, owner: x}"), 3, 48, "twice"),
        (rule("{match: {}, action: quarantine, owner: true}"), 3, 44, "quotes"),
        (rule("{match: {}, action: quarantine, owner: }"), 3, 43, "no value"),
        (rule("{match: {}, action: quarantine, owner: [a]}"), 3, 44, "must be a text"),
        (rule(f"{{match: {{}}, action: quarantine, owner: {'x' * 501}}}"), 3, 44, "500 are allowed"),
        (rule("{match: {}, action: quarantine, decision: allow}"), 3, 37, "unknown key 'decision'"),
        (asking("reason: x"), 3, 14, "did you mean 'reason_code'?"),
        (asking("class: transcient"), 3, 21, "did you mean 'transient'?"),
        (asking("queue: 5"), 3, 21, "quotes"),
        (asking("queue: []"), 3, 21, "an empty list"),
        (asking("queue: [a, [b]]"), 3, 25, "must be a text"),
        (asking("queue: *"), 3, 22, "put a text that begins with * in quotes"),
        (asking("age: > 2h"), 3, 19, "in quotes"),
        (asking('age: "2h"'), 3, 19, '"> 2h"'),
        (asking('age: "> soon"'), 3, 19, "is not a time"),
        (asking('attempts: "3"'), 3, 24, '">= 3"'),
        (asking('attempts: ">= x"'), 3, 24, "whole numbers, not with 'x'"),
        (asking('attempts: ">= 3,"'), 3, 24, '">= 3"'),
        (asking("attempts: -1"), 3, 24, '">= 3"'),
        (asking("attempts: {}"), 3, 24, '">= 3"'),
        (asking("risk: hi"), 3, 20, "did you mean 'high'?"),
        (asking('risk: ">= hi"'), 3, 20, "low, medium, high, critical"),
        (asking("labels: {}"), 3, 22, "{team: billing}"),
        (asking("labels: x"), 3, 22, "{team: billing}"),
        (asking("labels: {tier: 1}"), 3, 29, "label 'tier' must be a text"),
        ("version: v1\nreplay_rules:\n  - {match: {}, decision: maybe}", 3, 27, "allow, deny, require_approval"),
        ("version: v1\nreplay_rules:\n  - {match: {}, decision: allow, owner: x}", 3, 34, "approver_group, why"),
    ],
)
def test_what_is_wrong_is_refused_where_it_stands(text, line, column, says):
    error = refusal(text)
    assert (error.line, error.column) == (line, column)
    assert str(error).startswith(f"policy, line {line}, column {column}: ")
    assert says in str(error)


def test_a_bomb_of_aliases_is_refused_at_its_first_anchor():
    bomb = "version: v1\na: &a [x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
    )
    assert (refusal(bomb).line, refusal(bomb).column) == (2, 4)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("hostile", ["[", "{a: ", "- ", "? ", "'", '"\\', "a: ", "&a ", "!", "%", "\n", "a,", "- a\n"])
def test_hostile_text_is_refused_in_time(hostile):
    refusal(hostile * (8_000 // len(hostile)))


def test_a_message_shows_little_of_a_long_or_acting_word():
    error = refusal(f'version: v1\n"\\e[31m{"x" * 900}": 1')
    assert len(str(error)) < 250
    assert "\x1b" not in str(error)


def test_the_file_is_named_in_messages():
    with pytest.raises(PolicyRefused, match=r"^standfast-policy\.yaml, line 1, column 1: "):
        load_policy("", "standfast-policy.yaml")


def test_a_mark_of_the_encoding_and_windows_lines_are_read():
    assert load_policy(("\ufeff" + SAMPLE.replace("\n", "\r\n")).encode()) == load_policy(SAMPLE)


def test_without_the_extra_the_error_names_it(monkeypatch):
    real = builtins.__import__

    def without_yaml(name, *rest, **others):
        if name.startswith("ruamel"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *rest, **others)

    monkeypatch.setattr(builtins, "__import__", without_yaml)
    with pytest.raises(ConfigurationError, match=r'pip install "standfast\[policy\]"') as caught:
        load_policy(SAMPLE)
    assert "\n" not in str(caught.value)
    assert isinstance(read_policy(SAMPLE, "p.yaml"), Broken)


PIECES = st.sampled_from(
    [
        *("version: v1\n", "dlq_rules:\n", "replay_rules:\n", "- match: ", "queue: ", "action: ", "auto_replay\n", "x"),
        *("{", "}", "[", "]", "*", "&a ", "  ", "\n", "'", '"', "#", "---\n", "!", "|", ">", "%", ",", ": ", "? "),
        *("\t", "\\", "\r", "\x85", "\u2028", "\ufeff"),
    ]
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PIECES | st.text(max_size=4), max_size=20).map("".join) | st.binary(max_size=30))
def test_any_text_loads_or_is_refused_with_its_place(text):
    read: object = call_guarded(lambda: load_policy(text), lambda error: error)
    if isinstance(read, PolicyRefused):
        assert (read.line, read.column) >= (1, 1)
    else:
        assert isinstance(read, Policy)


def test_missing_and_broken_are_values_and_differ():
    missing, broken = read_policy(None, "p.yaml"), read_policy("x", "p.yaml")
    assert missing == Broken("p.yaml is configured and does not exist", missing=True)
    assert isinstance(broken, Broken)
    assert not broken.missing
    assert broken.problem.startswith("p.yaml, line 1, column 1: ")
    assert read_policy(SAMPLE, "p.yaml") == load_policy(SAMPLE)


def test_the_last_good_policy_stays_in_force_and_health_says_so():
    good, broken = load_policy(SAMPLE), Broken("p.yaml is broken")
    assert in_force(good, None).policy is good
    assert in_force(good, BUILT_IN).issue is None
    assert in_force(broken, good).policy is good
    assert (
        in_force(broken, good).issue == f"policy: p.yaml is broken; the last good one stays in force ({good.snapshot})"
    )
    assert in_force(broken, None).policy is broken
    assert in_force(broken, None).issue == (
        "policy: p.yaml is broken; every replay is denied until it is fixed "
        "(workers try again by themselves; restart other processes)"
    )


def test_a_file_that_is_no_policy_is_refused_before_it_is_read(tmp_path):
    large, pipe = tmp_path / "large.yaml", tmp_path / "pipe"
    with large.open("wb") as file:
        file.truncate(3 << 30)
    os.mkfifo(pipe)
    for path, why in (
        (large, "more than the 131072 bytes"),
        (pipe, "is not a regular file"),
        (Path("/dev/zero"), "is not a regular file"),
        (tmp_path, "cannot be read"),
        (tmp_path / "none", "cannot be read"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            content(path)
    good = tmp_path / "good.yaml"
    good.write_bytes(b"version: v1\n".ljust(131072))
    assert len(content(good)) == 131072
