"""May this letter be replayed? Asked afresh before every replay, as the original requester.

Without a policy file the built-in policy answers: replay is allowed, nothing happens by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from standfast.asking import asked
from standfast.failure import Action
from standfast.policy.facts import UNKNOWN, Facts
from standfast.policy.rules import BUILT_IN as BUILT_IN_POLICY
from standfast.policy.rules import Broken, Decision, Policy, dlq_rule, first_fitting, replay_rule
from standfast.printable import printable


class Permission(msgspec.Struct, frozen=True):
    """What the policy decided, and by which rule."""

    decision: Decision
    rule: str
    why: str = ""
    approver_group: str | None = None
    """Who may approve, where an approval is required; None is any approver."""


BUILT_IN = Permission("allow", "built-in")
UNMATCHED = Permission(
    "deny", "no replay rule", "no rule of replay_rules speaks of this letter; let the last one be `match: {}`"
)

STRICTNESS: tuple[Decision, ...] = ("allow", "require_approval", "deny")
EXTERNAL = "external"
ANSWER_KEYS = frozenset({"decision", "why", "approver_group"})
LONGEST_WHY = 500
LONGEST_SHOWN = 60


def permit(facts: Facts = UNKNOWN, policy: Policy | Broken = BUILT_IN_POLICY) -> Permission:
    """Ask the policy. What `dlq_rules` want an approval for stays so, also where `replay_rules` would allow it."""
    if isinstance(policy, Broken):
        return Permission("deny", "broken policy", f"{policy.problem}; mend it, then ask again")
    return strictest(_by_replay_rules(facts, policy), _by_dlq_rules(facts, policy))


def _by_replay_rules(facts: Facts, policy: Policy) -> Permission:
    if not policy.replay_rules:
        return BUILT_IN
    found = first_fitting(policy.replay_rules, facts)
    if found is None:
        return UNMATCHED
    place, rule = found
    return Permission(rule.decision, replay_rule(place), rule.why, rule.approver_group)


def _by_dlq_rules(facts: Facts, policy: Policy) -> Permission:
    found = first_fitting(policy.dlq_rules, facts)
    if found is None or found[1].action is not Action.REQUIRE_APPROVAL:
        return BUILT_IN
    place, rule = found
    return Permission("require_approval", dlq_rule(place), approver_group=rule.approver_group)


def strictest(first: Permission, *others: Permission) -> Permission:
    """Give the one that allows least; of equals, the first."""
    return max((first, *others), key=lambda each: STRICTNESS.index(each.decision))


def ask_outside(question: Callable[[], Any]) -> Permission:
    """Ask somebody's own code, which answers as `read_answer` has it; whatever it raises is a refusal."""
    return asked(lambda: read_answer(question()), _raised)


def read_answer(answer: object) -> Permission:
    """Read what an external decision answered: a word, a map with `decision`, a Permission. The rest is a refusal."""
    if isinstance(answer, Permission):
        answer = {"decision": answer.decision, "why": answer.why, "approver_group": answer.approver_group}
    if isinstance(answer, str):
        answer = {"decision": answer}
    if not isinstance(answer, dict):
        return _refused(f"answered with {_shown(answer)}")
    return _read_map(answer)


def _read_map(answer: dict[Any, Any]) -> Permission:
    unknown = [key for key in answer if key not in ANSWER_KEYS]
    if unknown:
        return _refused(f"answered with the unknown key {_shown(unknown[0])}")
    decision, why, group = answer.get("decision"), answer.get("why"), answer.get("approver_group")
    if not isinstance(decision, str) or decision not in STRICTNESS:
        return _refused(f"answered with the decision {_shown(decision)}")
    if not isinstance(why, str | None) or not isinstance(group, str | None):
        return _refused("gave a why or an approver_group that is no text")
    return Permission(STRICTNESS[STRICTNESS.index(decision)], EXTERNAL, _told(why or ""), group or None)


def _raised(error: Exception) -> Permission:
    return _refused(f"failed with {type(error).__name__}{asked(lambda: f': {error}', lambda _: '')}")


def _refused(what: str) -> Permission:
    return Permission("deny", EXTERNAL, _told(f"the external policy {what}; known are {', '.join(STRICTNESS)}"))


def _shown(strange: object) -> str:
    """Show what came instead of an answer, without calling code of it."""
    return f"'{strange[:LONGEST_SHOWN]}'" if isinstance(strange, str) else f"a value of type {type(strange).__name__}"


def _told(text: str) -> str:
    return printable(text[:LONGEST_WHY])
