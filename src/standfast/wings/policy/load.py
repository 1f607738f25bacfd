"""Reads a policy from its text. Any mistake raises `PolicyRefused` with line and column; no part is accepted."""

from __future__ import annotations

from typing import Any, cast

from standfast.errors import ConfigurationError
from standfast.failure import Action
from standfast.rules import Backoff, exponential
from standfast.wings.policy.document import Mapping, MissingExtra, Node, quoted, read_document
from standfast.wings.policy.match import Match
from standfast.wings.policy.rules import BACKOFFS, VERSION, Broken, Decision, DlqRule, Policy, ReplayRule
from standfast.wings.policy.schema import (
    age_range,
    any_of,
    count_range,
    duration,
    items,
    mapping,
    needed,
    one_of,
    reason_code,
    risk_range,
    text,
    whole,
)
from standfast.wings.policy.snapshot import snapshot
from standfast.wings.policy.words import (
    ACTIONS,
    CLOSED_TEXTS,
    CODES,
    COUNTS,
    DECISIONS,
    DLQ_KEYS,
    MATCH_KEYS,
    ONLY_WITH,
    OPEN_TEXTS,
    REPLAY_KEYS,
    TOP_KEYS,
)

MOST_REPLAYS = 1000
BACKOFF_KEYS = ("base", "cap")

TEXT_READERS = {
    **dict.fromkeys(OPEN_TEXTS, any_of(text)),
    **{key: any_of(one_of(words)) for key, words in CLOSED_TEXTS.items()},
    **dict.fromkeys(CODES, any_of(reason_code)),
}
RANGE_READERS = {
    **dict.fromkeys(COUNTS, any_of(count_range)),
    "age": any_of(age_range),
    "risk": any_of(risk_range),
}


def load_policy(given: str | bytes, source: str = "policy") -> Policy:
    """Read a policy. `source` names the text in messages, such as its file name."""
    root = mapping(read_document(given, source), "a policy", TOP_KEYS)
    version = one_of((VERSION,))(needed(root, "version", "a policy"), "version")
    dlq_rules = tuple(_dlq_rule(node) for node in _rules(root, "dlq_rules"))
    replay_rules = tuple(_replay_rule(node) for node in _rules(root, "replay_rules"))
    return Policy(
        version=version,
        dlq_rules=dlq_rules,
        replay_rules=replay_rules,
        snapshot=snapshot(version, dlq_rules, replay_rules),
    )


def read_policy(given: str | bytes | None, source: str) -> Policy | Broken:
    """Read a configured policy; return `Broken`, which denies replays, if it is missing (None) or cannot be read."""
    if given is None:
        return Broken(f"{source} is configured and does not exist", missing=True)
    try:
        return load_policy(given, source)
    except ConfigurationError as error:
        return Broken(str(error), unread=isinstance(error, MissingExtra))


def _rules(root: Mapping, key: str) -> list[Node]:
    return items(root.values[key], key) if key in root.values else []


def _dlq_rule(node: Node) -> DlqRule:
    what = "a rule of dlq_rules"
    rule = mapping(node, what, DLQ_KEYS)
    action = one_of(ACTIONS)(needed(rule, "action", what), "action")
    _check_fitting(rule, action)
    fields: dict[str, Any] = {
        key: text(rule.values[key], key) for key in ("owner", "approver_group") if key in rule.keys
    }
    if "max_replays" in rule.keys:
        fields["max_replays"] = whole(1, MOST_REPLAYS)(rule.values["max_replays"], "max_replays")
    if "backoff" in rule.keys:
        fields["backoff"] = _backoff(rule.values["backoff"])
    return DlqRule(match=read_match(needed(rule, "match", what)), action=Action(action), **fields)


def _replay_rule(node: Node) -> ReplayRule:
    what = "a rule of replay_rules"
    rule = mapping(node, what, REPLAY_KEYS)
    decision = one_of(DECISIONS)(needed(rule, "decision", what), "decision")
    _check_fitting(rule, decision)
    fields = {key: text(rule.values[key], key) for key in ("approver_group", "why") if key in rule.keys}
    return ReplayRule(match=read_match(needed(rule, "match", what)), decision=cast("Decision", decision), **fields)


def _check_fitting(rule: Mapping, word: str) -> None:
    """Refuse a key that would have no effect: its author believes that it has one."""
    for key, scalar in rule.keys.items():
        if ONLY_WITH.get(key, word) != word:
            raise scalar.place.refusal(f"{key} goes with {ONLY_WITH[key]}, not with {word}")


def _backoff(node: Node) -> Backoff:
    if not isinstance(node, Mapping):
        return BACKOFFS[one_of(tuple(BACKOFFS), "or {base: 5, cap: 600}")(node, "backoff")]
    given = mapping(node, "backoff", BACKOFF_KEYS)
    default = BACKOFFS["exponential_jitter"]
    times = {key: duration(value, key) for key, value in given.values.items()}
    try:
        return exponential(base=times.get("base", default.base or 0), cap=times.get("cap", default.cap))
    except ConfigurationError as error:
        raise node.place.refusal(f"backoff: {error}") from None


def read_match(node: Node) -> Match:
    """Read what a rule requires of a letter."""
    if not isinstance(node, Mapping):
        raise node.place.refusal(f"match must be a map: {{}} for every letter, or keys of {', '.join(MATCH_KEYS)}")
    node_map = mapping(node, "match", MATCH_KEYS)
    return Match(
        texts={key: TEXT_READERS[key](value, key) for key, value in node_map.values.items() if key in TEXT_READERS},
        ranges={key: RANGE_READERS[key](value, key) for key, value in node_map.values.items() if key in RANGE_READERS},
        labels=_labels(node_map),
    )


def _labels(node_map: Mapping) -> dict[str, tuple[str, ...]]:
    node = node_map.values.get("labels")
    if node is None:
        return {}
    if not isinstance(node, Mapping) or not node.values:
        raise node.place.refusal("labels must be a map of label names to values, such as {team: billing}")
    return {name: any_of(text)(value, f"label {quoted(name)}") for name, value in node.values.items()}
