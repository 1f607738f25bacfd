"""The snapshot is the hash of what a policy means."""

from __future__ import annotations

import pytest

from standfast.wings.policy.load import load_policy
from tests.core.policies import SAMPLE

ONE = """\
version: v1
dlq_rules:
  - match: {queue: [a, b], class: transient, attempts: ">= 3, < 9", labels: {x: "1", y: "2"}}
    action: auto_replay
"""


def snapshot(text: str) -> str:
    return load_policy(text).snapshot


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("version: v1", "sha256:c91ad79b9d9312bbd780102f4ba6a72a59542f861d205f937584a63f9eee4009"),
        (SAMPLE, "sha256:844a2d3cae278a74604461ee7e98174d0c10c0848e1be66c16801427f1f78be0"),
        (ONE + "    backoff: fixed\n", "sha256:2364e9aa0ebd1b6f96b97ddde76238ad9b4b9646a5eb652a46c12871b2a63584"),
        (ONE, "sha256:9445cf55016b8e9adb8901023431706ffcf034b9edc1934d124e155090a279c0"),
    ],
)
def test_it_is_the_same_in_every_version(text, expected):
    """A changed value here voids approvals that were given under the same policy."""
    assert snapshot(text) == expected


@pytest.mark.parametrize(
    "same",
    [
        "# a comment\n" + ONE,
        ONE.replace("[a, b]", '["b", a, a]'),
        ONE.replace("queue: [a, b], class: transient", "class: [transient], queue: [a, b]"),
        ONE.replace(">= 3, < 9", "<9,>=3"),
        ONE.replace('x: "1", y: "2"', 'y: "2", x: ["1"]'),
        ONE + "    max_replays: 1\n    backoff: exponential_jitter\n",
        ONE + "    backoff: {base: 1m, cap: 1h}\n",
        ONE + "replay_rules: []\n",
        ONE.replace("version: v1\n", "") + "version: 'v1'\n",
    ],
)
def test_how_it_is_written_does_not_count(same):
    assert snapshot(same) == snapshot(ONE)


def test_another_name_for_a_reason_does_not_count():
    assert snapshot(SAMPLE.replace("max_attempts", "max_scheduling_retries")) == snapshot(SAMPLE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[a, b]", "[a]"),
        ("class: transient", "class: unknown"),
        (">= 3", "> 3"),
        ("< 9", "< 8"),
        ('x: "1"', 'x: "2"'),
        ("auto_replay\n", "auto_replay\n    max_replays: 2\n"),
        ("auto_replay\n", "auto_replay\n    backoff: fixed\n"),
        ("auto_replay\n", "auto_replay\n    backoff: none\n"),
        ("auto_replay\n", "auto_replay\n    backoff: {base: 61}\n"),
        ("auto_replay\n", "auto_replay\n    owner: ann\n"),
        ("auto_replay\n", "manual_review\n"),
        ("auto_replay\n", "auto_replay\nreplay_rules: [{match: {}, decision: allow}]\n"),
    ],
)
def test_what_it_means_does(old, new):
    assert old in ONE
    assert snapshot(ONE.replace(old, new)) != snapshot(ONE)


def test_the_order_and_words_of_rules_count():
    allow, deny = "{match: {}, decision: allow}", "{match: {queue: a}, decision: deny}"
    rules = {
        f"{allow}, {deny}",
        f"{deny}, {allow}",
        f"{{match: {{queue: a}}, decision: deny, why: x}}, {allow}",
        f"{deny}, {{match: {{}}, decision: require_approval}}",
        f"{deny}, {{match: {{}}, decision: require_approval, approver_group: x}}",
    }
    assert len({snapshot(f"version: v1\nreplay_rules: [{each}]") for each in rules}) == 5
