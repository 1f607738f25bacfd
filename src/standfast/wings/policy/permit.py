"""Decides whether a letter may be replayed. It is asked anew before every replay, as the original requester.

Without a policy file the built-in policy answers: replay is allowed, but nothing is replayed automatically.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from standfast.concurrency.guarded import call_guarded
from standfast.failure import Action
from standfast.printable import printable
from standfast.wings.policy.facts import UNKNOWN, Facts
from standfast.wings.policy.rules import BUILT_IN as BUILT_IN_POLICY
from standfast.wings.policy.rules import Broken, Decision, Policy, dlq_rule, replay_rule


class Permission(msgspec.Struct, frozen=True):
    """What the policy decided, and by which rule."""

    decision: Decision
    rule: str
    why: str = ""
    groups: tuple[str, ...] = ()
    """The groups an approver must be in, all of them, if an approval is required; none means any approver."""

    @property
    def approver_group(self) -> str | None:
        """The same, as text."""
        return ", ".join(self.groups) or None


BUILT_IN = Permission("allow", "built-in")
UNMATCHED = Permission(
    "deny", "no replay rule", "no rule of replay_rules speaks of this letter; let the last one be `match: {}`"
)

AGENT = "asked by an agent"
"""The rule that is named if an agent asks for something that only a person may decide."""
BROKEN = "broken policy"
"""The rule that is named if the policy cannot be read: then the catalogue triages, and replays are denied."""
UNREADABLE = (
    "when it died, the policy could not be read, so no rule of dlq_rules applied; it waits for a person, and "
    "replay_rules apply as soon as a policy can be read"
)
"""What is noted on a letter that was triaged by the catalogue, because the policy could not be read."""
EARLIER = "an earlier request"
"""The rule that is named if an approval was requested earlier, and no rule of now requires it."""
GUARDED = "its effect may have landed, and the rule does not say `landed: maybe`"
"""Why an `auto_replay` rule does not apply to a letter."""
STRICTNESS: tuple[Decision, ...] = ("allow", "require_approval", "deny")
EXTERNAL = "external"
ANSWER_KEYS = frozenset({"decision", "why", "approver_group"})
LONGEST_WHY = 500
LONGEST_SHOWN = 60


def permit(facts: Facts = UNKNOWN, policy: Policy | Broken = BUILT_IN_POLICY) -> Permission:
    """Ask the policy. An approval that `dlq_rules` require, now or earlier, is needed whatever `replay_rules` allow."""
    if isinstance(policy, Broken):
        return Permission("deny", BROKEN, f"{policy.problem}; fix it, then ask again")
    return strictest(_by_replay_rules(facts, policy), _by_dlq_rules(facts, policy), _as_demanded(facts))


def _by_replay_rules(facts: Facts, policy: Policy) -> Permission:
    if not policy.replay_rules:
        return BUILT_IN
    found = policy.permits(facts)
    if found is None:
        return UNMATCHED
    place, rule = found
    return Permission(rule.decision, replay_rule(place), rule.why, group_names(rule.approver_group))


def _by_dlq_rules(facts: Facts, policy: Policy) -> Permission:
    found, passed_over = policy.triages(facts)
    action = None if found is None else found[1].action
    if facts.automatic and facts.may_have_landed and action is not Action.AUTO_REPLAY:
        guarded = dlq_rule(passed_over[0][0]) if passed_over else "dlq_rules"
        return Permission("require_approval", guarded, GUARDED)
    if found is None or action is not Action.REQUIRE_APPROVAL:
        return BUILT_IN
    place, rule = found
    return Permission("require_approval", dlq_rule(place), groups=group_names(rule.approver_group))


def _as_demanded(facts: Facts) -> Permission:
    """Keep an approval that was required earlier: a letter does not need less as it grows older."""
    if facts.demand is None:
        return BUILT_IN
    decided_nothing = facts.demand.rule in {BROKEN, BUILT_IN.rule}
    return Permission("require_approval", EARLIER if decided_nothing else facts.demand.rule, groups=facts.demand.groups)


def for_agent(permission: Permission, *, manual: bool, may_have_landed: bool) -> Permission:
    """Require a person's approval of an agent's request if a repeat could do the work twice; a no stays a no."""
    if not manual and not may_have_landed:
        return permission
    reason = "its effect may exist already" if may_have_landed else "its handler leaves every repeat to a person"
    return strictest(permission, Permission("require_approval", AGENT, reason))


def group_names(group: str | None) -> tuple[str, ...]:
    """Return the groups that a rule names."""
    return () if group is None else (group,)


def strictest(*answers: Permission) -> Permission:
    """Return the strictest answer, the first of equals. An approver must be in the groups of all that require one."""
    found = max(answers, key=lambda each: STRICTNESS.index(each.decision))
    if found.decision != "require_approval":
        return found
    wanting = [each for each in answers if each.decision == found.decision]
    rules = dict.fromkeys(each.rule for each in wanting)
    if len(rules) > 1:
        rules.pop(EARLIER, None)
    groups = {group for each in wanting for group in each.groups}
    return Permission(found.decision, ", ".join(rules), found.why, tuple(sorted(groups)))


def ask_outside(question: Callable[[], Any]) -> Permission:
    """Ask the application's own code, and read its answer with `read_answer`; any error is a refusal."""
    return call_guarded(lambda: read_answer(question()), _raised)


def read_answer(answer: object) -> Permission:
    """Read an external decision: a word, a map with `decision`, or a Permission. Any other answer is a refusal."""
    if isinstance(answer, Permission):
        answer = {"decision": answer.decision, "why": answer.why, "approver_group": answer.groups}
    if isinstance(answer, str):
        answer = {"decision": answer}
    if not isinstance(answer, dict):
        return _denial(f"answered with {_display(answer)}")
    return _read_map(answer)


def _read_map(answer: dict[Any, Any]) -> Permission:
    unknown = [key for key in answer if key not in ANSWER_KEYS]
    if unknown:
        return _denial(f"answered with the unknown key {_display(unknown[0])}")
    decision, why, groups = answer.get("decision"), answer.get("why"), _read_groups(answer.get("approver_group"))
    if not isinstance(decision, str) or decision not in STRICTNESS:
        return _denial(f"answered with the decision {_display(decision)}")
    if not isinstance(why, str | None) or groups is None:
        return _denial("gave a why or an approver_group that is not text")
    return Permission(STRICTNESS[STRICTNESS.index(decision)], EXTERNAL, _clean(why or ""), groups)


def _read_groups(given: object) -> tuple[str, ...] | None:
    """Read who must approve: a group, the groups of a Permission, or any approver."""
    if isinstance(given, str | None):
        return group_names(given or None)
    if isinstance(given, tuple) and all(isinstance(each, str) and each for each in given):
        return given
    return None


def _raised(error: Exception) -> Permission:
    return _denial(f"failed with {type(error).__name__}{call_guarded(lambda: f': {error}', lambda _: '')}")


def _denial(what: str) -> Permission:
    return Permission("deny", EXTERNAL, _clean(f"the external policy {what}; known are {', '.join(STRICTNESS)}"))


def _display(strange: object) -> str:
    """Describe an object that came instead of an answer, without calling its code."""
    return f"'{strange[:LONGEST_SHOWN]}'" if isinstance(strange, str) else f"a value of type {type(strange).__name__}"


def _clean(text: str) -> str:
    return printable(text[:LONGEST_WHY])
