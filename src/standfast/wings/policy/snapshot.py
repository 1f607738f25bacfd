"""The hash that identifies a policy. It covers what the rules mean, not how they are written.

Comments, spaces, quotes, the order of keys and of the entries of a list, a default written out, and another name for
the same reason code do not change the hash; the order of rules, and anything they say, does. What a rule leaves open
is not hashed: a key that a later version adds does not change the hash of a policy that does not use it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from standfast.failure import Action
from standfast.wings.policy.match import Match
from standfast.wings.policy.rules import DlqRule, ReplayRule


def snapshot(version: str, dlq_rules: tuple[DlqRule, ...], replay_rules: tuple[ReplayRule, ...]) -> str:
    """Return the hash, as `sha256:` and 64 hexadecimal digits."""
    meaning = {
        "version": version,
        "dlq_rules": [_dlq_rule(rule) for rule in dlq_rules],
        "replay_rules": [_replay_rule(rule) for rule in replay_rules],
    }
    return f"sha256:{hashlib.sha256(msgspec.json.encode(meaning, order='sorted')).hexdigest()}"


def _dlq_rule(rule: DlqRule) -> dict[str, Any]:
    fields: dict[str, Any] = {"match": _match(rule.match), "action": rule.action}
    if rule.action is Action.AUTO_REPLAY:
        backoff = rule.backoff
        steps = {"table": backoff.table} if backoff.table else {"base": backoff.base, "cap": backoff.cap}
        fields |= {"max_replays": rule.max_replays, "backoff": steps | {"jitter": backoff.jitter}}
    return fields | _without_none(owner=rule.owner, approver_group=rule.approver_group)


def _replay_rule(rule: ReplayRule) -> dict[str, Any]:
    fields = {"match": _match(rule.match), "decision": rule.decision}
    return fields | _without_none(approver_group=rule.approver_group, why=rule.why)


def _match(match: Match) -> dict[str, Any]:
    fields: dict[str, Any] = {key: sorted(set(patterns)) for key, patterns in match.texts.items()}
    fields |= {key: sorted({tuple(sorted(set(each))) for each in ranges}) for key, ranges in match.ranges.items()}
    return fields | _without_none(labels={name: sorted(set(patterns)) for name, patterns in match.labels.items()})


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
