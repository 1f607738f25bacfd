"""What a rule may look at: the facts about one letter at the time the policy is asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from standfast.failure import Action, Failure, Landed, Verdict, known_code
from standfast.job import Claim, higher
from standfast.rules import ReplayMode
from standfast.views import JobView, Triage


class Demand(msgspec.Struct, frozen=True):
    """An approval that was requested earlier: it is still needed, whatever the rules say about the letter now."""

    rule: str
    groups: tuple[str, ...] = ()
    """The groups that its approver must be in, all of them."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One letter as the policy sees it. `age` is in seconds since the job was first accepted.

    An unknown fact is None, and no rule that asks for it matches.
    """

    queue: str | None = None
    handler: str | None = None
    reason_code: str | None = None
    cause: str | None = None
    """The reason code of the last attempt, if the letter's own is another one (`max_attempts`)."""
    cls: str | None = msgspec.field(name="class", default=None)
    landed: str | None = None
    error_kind: str | None = None
    risk: str | None = None
    labels: dict[str, str] = {}
    attempts: int = 0
    replays: int = 0
    age: float = 0.0
    session: str | None = None
    requester: str | None = None
    replay_mode: ReplayMode = "replay"
    demand: Demand | None = None
    """The approval that the letter needs by its triage, or is held for."""
    in_doubt: bool = False
    """Whether an attempt before the last may have landed, and no check has ruled that out since."""
    automatic: bool = False
    """Whether the policy itself, rather than a person, asks for the replay."""

    @property
    def codes(self) -> tuple[str | None, ...]:
        """What a rule's `reason_code` is compared with: the letter's reason and its cause."""
        return (self.reason_code, self.cause)

    @property
    def last_code(self) -> str | None:
        """What a rule's `cause` is compared with: the reason code of the last attempt itself."""
        return self.cause or self.reason_code

    @property
    def may_have_landed(self) -> bool:
        """Whether its effect may exist, by the record of any attempt, or by its reason if nothing looks first."""
        by_reason = self.replay_mode != "verify_first" and not LANDED_CODES.isdisjoint(self.codes)
        return self.landed == Landed.MAYBE or self.in_doubt or by_reason


LANDED_CODES = frozenset({"unknown_commit_state", "partial_external_write"})
"""Reasons that alone mean that the effect may exist."""

UNKNOWN = Facts()
"""A letter about which nothing is known."""


def facts_of_failure(failure: Failure) -> Facts:
    """Return the facts that follow from a failure alone."""
    return Facts(
        reason_code=known_code(failure.reason_code),
        cause=failure.cause and known_code(failure.cause),
        cls=failure.cls,
        landed=failure.landed,
        error_kind=failure.error_kind,
    )


def facts_of_claim(claim: Claim, failure: Failure, now: float) -> Facts:
    """Return the facts of a job whose attempt ends it."""
    return msgspec.structs.replace(
        facts_of_failure(failure),
        queue=claim.queue,
        handler=claim.handler,
        risk=higher(claim.details.risk, claim.handler_risk),
        labels=claim.details.labels or {},
        attempts=claim.attempts,
        replays=claim.replays,
        age=max(0.0, now - claim.first_seen_at),
        session=claim.details.session,
        requester=claim.details.requester,
        replay_mode=claim.replay_mode,
        in_doubt=_in_doubt([claim.landed], claim.replay_mode) and claim.landed_by_ledger != Landed.NO,
    )


def facts_of_letter(letter: JobView, *, now: datetime, replay_mode: ReplayMode) -> Facts:
    """Return the facts of a stored letter; its replay mode is its handler's, as published."""
    known = UNKNOWN if letter.failure is None else facts_of_failure(letter.failure)
    return msgspec.structs.replace(
        known,
        queue=letter.queue,
        handler=letter.handler,
        risk=letter.risk,
        labels=letter.labels,
        attempts=letter.attempts,
        replays=letter.replays,
        age=max(0.0, (now - letter.first_seen_at).total_seconds()),
        session=letter.session,
        requester=letter.requester,
        replay_mode=replay_mode,
        demand=_demand_on(letter.triage),
    )


def left_in_doubt(letter: JobView, replay_mode: ReplayMode) -> bool:
    """Return whether an attempt of a stored letter may have landed, and nothing has ruled that out since."""
    found = bool(letter.effects) and all(each["verdict"] == Verdict.VERIFIED for each in letter.effects)
    return not found and _in_doubt([line.landed for line in letter.history], replay_mode)


def _in_doubt(earlier: Sequence[str | None], replay_mode: ReplayMode) -> bool:
    """Return whether earlier attempts leave a doubt. `verify_first` looks before each repeat, so that none is left."""
    return Landed.MAYBE in earlier and replay_mode != "verify_first"


def _demand_on(triage: Triage | None) -> Demand | None:
    """Return the approval a letter needs, as decided when it died or when its replay was requested."""
    if triage is None or not (triage.action is Action.REQUIRE_APPROVAL or triage.replay_status == "approval_pending"):
        return None
    return Demand(triage.rule, triage.approver_groups or tuple(filter(None, [triage.approver_group])))
