"""Decides what should happen to a letter: by the first rule that fits, or else by the catalogue of reasons.

Worker and sweeper use this in the write that ends the job, so nothing here reads a clock, draws a random number or
calls the application's code.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from standfast.failure import Action, Failure, reason
from standfast.failure.fingerprint import fingerprint
from standfast.job import Claim
from standfast.lifecycle import Carried, JobRef, Move, Transition
from standfast.spine.backoff import delay
from standfast.spine.settle import never
from standfast.store.steps import text
from standfast.views import Triage
from standfast.wings.policy.facts import UNKNOWN, Facts, facts_of_claim, facts_of_failure
from standfast.wings.policy.permit import BROKEN, GUARDED, UNREADABLE, group_names, permit
from standfast.wings.policy.rules import BUILT_IN as BUILT_IN_POLICY
from standfast.wings.policy.rules import Broken, DlqRule, Policy, dlq_rule

BUILT_IN = BUILT_IN_POLICY.snapshot
"""The rule that a letter names if no policy file decided."""

STATUSES = {
    Action.AUTO_REPLAY: "scheduled",
    Action.QUARANTINE: "quarantined",
    Action.REQUIRE_APPROVAL: "approval_pending",
    Action.MANUAL_REVIEW: "pending_review",
}

CONSENT = Triage(action=Action.MANUAL_REVIEW, rule="consent")
"""The triage of a job whose session must consent first: no policy can consent in its place, or replay it meanwhile."""

STOPPING = frozenset({Move.DIE, Move.HOLD})
"""The moves that make a job a letter."""


class PolicyNow(msgspec.Struct, frozen=True):
    """What letters are judged by: the policy in force and the time."""

    policy: Policy | Broken = BUILT_IN_POLICY
    now: float = 0.0


PRESENT = PolicyNow()


class Judgement(Carried, frozen=True):
    """What becomes of a job that stops: its triage, the name of its cause, and the policy that decided."""

    triage: Triage
    fingerprint: str | None = None
    """The name of its cause, which letters of the same cause share."""
    snapshot: str | None = None
    """The policy that decided its triage."""

    @property
    def ending(self) -> Mapping[str, Any]:
        """Store all of it, and when the letter is replayed automatically."""
        named = {"fingerprint": self.fingerprint, "policy_snapshot": self.snapshot}
        return {"triage": text(self.triage), "replay_at": self.triage.replay_at, **named}

    @property
    def replays_by_itself(self) -> bool:
        """Whether the policy replays it, without a person."""
        return self.triage.replay_status == "scheduled"

    def next_step(self, end: Transition) -> tuple[int, str] | None:
        """Say which rule replays the letter automatically, if one does: then no person is needed."""
        if end.failure is None or not self.replays_by_itself:
            return None
        why = f"it is {end.target} ({end.failure.reason_code})"
        return logging.WARNING, f"{why}, and {self.triage.rule} replays it by itself"


def judge_attempt(claim: Claim, decided: Transition, roll: float, present: PolicyNow | None) -> Transition:
    """Decide what becomes of a job whose attempt stops it."""
    if decided.failure is None:
        return decided
    present = present or PRESENT
    return judge(decided, facts_of_claim(claim, decided.failure, present.now), present, roll)


def judge(decided: Transition, facts: Facts, present: PolicyNow, roll: float) -> Transition:
    """Add what becomes of a job to the transition that stops it; return other transitions unchanged.

    A job that needs an approval is held for it.
    """
    if decided.failure is None or decided.move not in STOPPING:
        return decided
    triaged = triage(facts, present.policy, now=present.now, roll=roll)
    judgement = Judgement(
        _with_approvers(triaged, facts, present.policy),
        fingerprint(facts.queue or decided.queue, facts.handler or "", decided.failure),
        present.policy.snapshot,
    )
    how = Move.HOLD if triaged.action is Action.REQUIRE_APPROVAL else decided.move
    return msgspec.structs.replace(decided, move=how).carrying(judgement)


def _with_approvers(triaged: Triage, facts: Facts, policy: Policy | Broken) -> Triage:
    """Name all groups that must approve: the replay is requested as the job dies, so `replay_rules` apply too."""
    if triaged.action is not Action.REQUIRE_APPROVAL:
        return triaged
    return msgspec.structs.replace(
        triaged, approver_groups=permit(facts, policy).groups or group_names(triaged.approver_group)
    )


def triage(
    letter: Facts | Failure, policy: Policy | Broken = BUILT_IN_POLICY, *, now: float = 0.0, roll: float = 0.0
) -> Triage:
    """Decide about a letter. `replay_at` is counted from `now`; `roll` in [0, 1) determines the jitter."""
    facts = letter if isinstance(letter, Facts) else facts_of_failure(letter)
    if facts.reason_code == "consent_required":
        return CONSENT
    if isinstance(policy, Broken):
        return msgspec.structs.replace(_by_catalogue(facts, BROKEN), note=UNREADABLE)
    match = policy.triages(facts)
    if match.found is not None:
        return msgspec.structs.replace(_by_rule(*match.found, facts, now, roll), note=_note(match.passed_over))
    return _left_to_a_person(match.passed_over) if match.passed_over else _by_catalogue(facts, BUILT_IN)


def _note(passed_over: Sequence[tuple[int, DlqRule]]) -> str | None:
    """Return why the first rule that fits did not decide."""
    return f"{dlq_rule(passed_over[0][0])} would replay it, but {GUARDED}" if passed_over else None


def _left_to_a_person(passed_over: Sequence[tuple[int, DlqRule]]) -> Triage:
    """Leave to a person a letter that no rule may replay automatically; its owner is that of the first such rule."""
    place, rule = passed_over[0]
    action = Action.MANUAL_REVIEW
    return Triage(
        action=action,
        rule=f"{dlq_rule(place)} (its effect may have landed)",
        owner=rule.owner,
        replay_status=STATUSES[action],
        note=_note(passed_over),
    )


def _by_catalogue(facts: Facts, rule: str) -> Triage:
    """Quarantine poison and leave the rest to a person."""
    action = reason(facts.reason_code or "").action
    return Triage(action=action, rule=rule, replay_status=STATUSES[action])


def _by_rule(place: int, rule: DlqRule, facts: Facts, now: float, roll: float) -> Triage:
    name, action, replay_at = dlq_rule(place), rule.action, None
    if action is Action.AUTO_REPLAY:
        obstacle = _obstacle(rule, facts)
        if obstacle is None:
            replay_at = now + delay(rule.backoff, facts.replays + 1, roll)
        else:
            name, action = f"{name} ({obstacle})", Action.MANUAL_REVIEW
    return Triage(
        action=action,
        rule=name,
        owner=rule.owner,
        approver_group=rule.approver_group,
        replay_status=STATUSES[action],
        replay_at=replay_at,
    )


def _obstacle(rule: DlqRule, facts: Facts) -> str | None:
    """Return why a letter is left to a person although its rule would replay it."""
    if facts.replay_mode == "manual":
        return "its handler is manual: a person replays it"
    if facts.replays >= rule.max_replays:
        return f"{facts.replays} of {rule.max_replays} replays used"
    return None


def outlived(
    job: JobRef,
    code: str,
    facts: Facts = UNKNOWN,
    roll: float = 0.0,
    present: PolicyNow = PRESENT,
    *,
    message: str = "",
) -> Transition:
    """Decide the end of a job that waited too long, or in vain; `facts` is what else is known of it."""
    failure = never(code, message)
    said = {name: value for name, value in asdict(facts_of_failure(failure)).items() if value}
    decided = job.moved(Move.DIE, attempt=facts.attempts, failure=failure)
    return judge(decided, replace(facts, **said), present, roll)
