"""Which policy is in force by what the store has: none, a good one, one that was spoilt since, or nothing usable."""

from __future__ import annotations

import json

import pytest

from standfast.wings.policy.load import load_policy
from standfast.wings.policy.policy_in_force import NEWER, of_store, stored
from standfast.wings.policy.rules import BUILT_IN, Broken

GOOD = load_policy(
    """
version: v1
dlq_rules:
  - match: {reason_code: [max_attempts, timeout], labels: {team: "a*"}, age: "> 2h", risk: ">= high", attempts: 3}
    action: auto_replay
    max_replays: 2
    backoff: {base: 5, cap: 600}
replay_rules:
  - match: {}
    decision: allow
"""
)


def test_what_is_stored_means_the_same_when_it_is_read():
    assert of_store(stored(GOOD), None).policy == GOOD
    assert of_store(stored(GOOD), None).issue is None


@pytest.mark.parametrize("where", [(), ("dlq_rules", 0), ("replay_rules", 0), ("replay_rules", 0, "match")])
def test_a_policy_with_a_word_that_this_version_does_not_know_denies(where):
    written = json.loads(stored(GOOD))
    place = written
    for key in where:
        place = place[key]
    place["approvers"] = 2
    assert of_store(json.dumps(written), None).policy == Broken(NEWER)


def test_three_different_things():
    assert of_store(None, None).policy == BUILT_IN
    kept = of_store(stored(GOOD), "line 3 is wrong")
    assert kept.policy == GOOD
    assert "the last good one stays in force" in (kept.issue or "")
    closed = of_store(None, "rules.yaml is gone")
    assert closed.policy == Broken("rules.yaml is gone")
    assert closed.policy.snapshot == "broken"
    assert "every replay is denied" in (closed.issue or "")


def spoilt(**changes) -> str:
    return json.dumps(json.loads(stored(GOOD)) | changes)


@pytest.mark.parametrize(
    "rules",
    [
        "no JSON",
        "{}",
        spoilt(dlq_rules=[{"match": {}, "action": "launch"}]),
        spoilt(replay_rules=[{"match": {"texts": {"tenant": ["a"]}}, "decision": "allow"}]),
        spoilt(replay_rules=[{"match": {"ranges": {"weight": []}}, "decision": "allow"}]),
    ],
)
def test_what_this_version_cannot_read_denies(rules):
    assert of_store(rules, None).policy == Broken(NEWER)
