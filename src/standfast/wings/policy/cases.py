"""Test cases for a policy, in YAML: a letter, and what the policy should decide about it."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.job import RISKS
from standfast.views import REPLAY_STATUSES
from standfast.wings.policy.document import Mapping, Node, quoted, read_document
from standfast.wings.policy.facts import Facts
from standfast.wings.policy.schema import duration, items, mapping, needed, one_of, reason_code, text, whole
from standfast.wings.policy.words import (
    ACTIONS,
    CASE_KEYS,
    CLOSED_TEXTS,
    CODES,
    COUNTS,
    DECISIONS,
    EXPECT_KEYS,
    LETTER_KEYS,
    OPEN_TEXTS,
    REPLAY_MODES,
)

MOST = 10**9

LETTER_READERS: dict[str, Any] = {
    **dict.fromkeys(OPEN_TEXTS, text),
    **{key: one_of(words) for key, words in CLOSED_TEXTS.items()},
    **dict.fromkeys(COUNTS, whole(0, MOST)),
    **dict.fromkeys(CODES, reason_code),
    "risk": one_of(RISKS),
    "age": duration,
    "replay_mode": one_of(REPLAY_MODES),
}
EXPECT_READERS = {
    **dict.fromkeys(EXPECT_KEYS, text),
    "action": one_of(ACTIONS),
    "decision": one_of(DECISIONS),
    "replay_status": one_of(REPLAY_STATUSES),
}


class Case(msgspec.Struct, frozen=True):
    """One letter and what is expected, with the line where the case begins."""

    name: str
    line: int
    letter: Facts
    expect: dict[str, str]


def load_cases(given: str | bytes, source: str = "cases") -> list[Case]:
    """Read cases; raise `PolicyRefused`, with line and column, for any mistake."""
    root = mapping(read_document(given, source), "a file of cases", ("cases",))
    return [_case(node) for node in items(needed(root, "cases", "a file of cases"), "cases")]


def _case(node: Node) -> Case:
    case = mapping(node, "a case", CASE_KEYS)
    name = text(needed(case, "name", "a case"), "name")
    letter, expect = needed(case, "letter", "a case"), needed(case, "expect", "a case")
    return Case(name, case.place.line, _letter(letter), _expect(expect))


def _letter(node: Node) -> Facts:
    letter = mapping(node, "letter", LETTER_KEYS)
    known = {key: LETTER_READERS[key](value, key) for key, value in letter.values.items() if key != "labels"}
    if "class" in known:
        known["cls"] = known.pop("class")
    return Facts(labels=_labels(letter), **known)


def _labels(letter: Mapping) -> dict[str, str]:
    node = letter.values.get("labels")
    if node is None:
        return {}
    if not isinstance(node, Mapping):
        raise node.place.refusal("labels must be a map of label names to values, such as {team: billing}")
    return {name: text(value, f"label {quoted(name)}") for name, value in node.values.items()}


def _expect(node: Node) -> dict[str, str]:
    expect = mapping(node, "expect", EXPECT_KEYS)
    if "action" not in expect.keys and "decision" not in expect.keys:
        raise node.place.refusal("expect needs an action (of dlq_rules) or a decision (of replay_rules)")
    if {"action", "decision"} <= expect.keys.keys() and {"approver_group", "rule"} & expect.keys.keys():
        raise node.place.refusal(
            "with both action and decision, approver_group and rule could be either's; write two cases"
        )
    return {key: EXPECT_READERS[key](value, key) for key, value in expect.values.items()}
