"""Decides which policy is in force: the one that was read, the last good one, or one that denies every replay."""

from __future__ import annotations

import msgspec

from standfast.wings.policy.rules import BUILT_IN, Broken, Policy
from standfast.wings.policy.words import CLOSED_TEXTS, MATCH_KEYS, OPEN_TEXTS

_policy = msgspec.json.Decoder(Policy)
TEXTS = frozenset({*OPEN_TEXTS, *CLOSED_TEXTS})
AGAIN = " (workers try again by themselves; restart other processes)"
NEWER = "the store's policy says something that this version does not know; upgrade standfast"


class InForce(msgspec.Struct, frozen=True):
    """The policy to ask, and what `health` says about it."""

    policy: Policy | Broken
    issue: str | None = None


def in_force(read: Policy | Broken, last_good: Policy | None) -> InForce:
    """Decide after a start or a reload. `last_good` was in force before: in this process, or else in the store."""
    if isinstance(read, Policy):
        return InForce(read)
    if last_good is not None:
        return InForce(last_good, f"policy: {read.problem}; the last good one stays in force ({last_good.snapshot})")
    return InForce(read, f"policy: {read.problem}; every replay is denied until it is fixed{AGAIN}")


def stored(policy: Policy) -> str:
    """Encode a policy as it is stored: reading it there needs no YAML."""
    return msgspec.json.encode(policy).decode()


def of_store(rules: str | None, problem: str | None) -> InForce:
    """Read the policy in force from the store's row: an empty one means the built-in policy."""
    if rules is None:
        return InForce(BUILT_IN) if problem is None else in_force(Broken(problem), None)
    policy = _read(rules)
    if isinstance(policy, Broken) or problem is None:
        return in_force(policy, None)
    return in_force(Broken(problem), policy)


def _read(rules: str) -> Policy | Broken:
    try:
        policy = _policy.decode(rules)
    except msgspec.DecodeError:
        return Broken(NEWER)
    matches = [rule.match for rule in policy.dlq_rules] + [rule.match for rule in policy.replay_rules]
    known = all(match.texts.keys() <= TEXTS and match.ranges.keys() <= {*MATCH_KEYS} for match in matches)
    return policy if known else Broken(NEWER)
