"""Decides whether a person may answer an approval now. It is asked before every answer, at every door."""

from __future__ import annotations

from collections.abc import Iterable
from unicodedata import category, normalize

from standfast.failure import Action
from standfast.job import Details
from standfast.lifecycle import JobRef, Move, State, Transition, asked_by
from standfast.printable import without_unseen
from standfast.spine.ids import IDS
from standfast.store.store import Store
from standfast.wings.approvals.words import Answer, Approval, Bound, Filing, bound_to
from standfast.wings.approvals.words import ApprovalState as Answered
from standfast.wings.audit.words import Decision
from standfast.wings.policy.permit import group_names
from standfast.wings.policy.rules import BUILT_IN
from standfast.wings.policy.triage import Judgement

WORDS = {
    "payload_sha256": "its payload",
    "target": "its target",
    "snapshot": "the policy",
    "generation": "its generation",
}
"""The words for each part of a binding that has changed."""

ANSWERED = {
    Answered.APPROVED: "approved",
    Answered.USED: "approved",
    Answered.DENIED: "denied",
}
"""The answer that an approval in this state got."""


def changed(bound: Bound, present: Bound) -> list[str]:
    """Return what has changed since the approval was requested, in words."""
    return [word for name, word in WORDS.items() if getattr(bound, name) != getattr(present, name)]


def void_because(changes: Iterable[str]) -> str:
    """Return why an approval no longer counts, by what has changed."""
    return f"{' and '.join(changes)} changed since it was asked for"


def missing_groups(approval: Approval, groups: Iterable[str]) -> list[str]:
    """Return the groups whose approval the policy now requires, but that were not asked."""
    return sorted(set(groups) - set(approval.groups))


def wants_more(approval: Approval, groups: Iterable[str]) -> str:
    """Return the reason that the policy now requires another approver."""
    return f"the policy now requires approval by a member of {_join(missing_groups(approval, groups))} too"


def is_repeated_answer(approval: Approval, answer: str) -> bool:
    """Return whether this very answer was given before: giving it twice is harmless."""
    return ANSWERED.get(approval.state) == answer


def cannot_answer(approval: Approval, now: float) -> str | None:
    """Return why an approval can no longer be answered, or None. The first answer wins."""
    match approval.state:
        case Answered.PENDING if approval.expires_at > now:
            return None
        case Answered.PENDING | Answered.EXPIRED:
            return "it expired before it was answered; ask again"
        case Answered.VOID:
            return f"it is void: {approval.answer or 'it was withdrawn'}; ask again"
        case _:
            return f"{approval.answered_by} {ANSWERED[approval.state]} it before, and the first answer counts"


def may_not_approve(approval: Approval, by: str, groups: Iterable[str]) -> str | None:
    """Return why this person may not approve it, or None: no one approves their own request or work."""
    if approval.asked_by is not None and same_person(by, approval.asked_by):
        return f"{by} asked for it; another person must approve"
    if any(same_person(by, requester) for requester in approval.requesters):
        return f"{by} requested the work or amended it; another person must approve"
    missing = sorted(set(approval.groups) - set(groups))
    if missing:
        return f"{by} is not in {_join(missing)}; a member must approve"
    return None


def made_for_the_occasion(approval: Approval, makers: Iterable[str]) -> str | None:
    """Return why a token may not approve, or None: `makers` made it, or a token it was made with, since the filing."""
    wanting = [*filter(None, [approval.asked_by]), *approval.requesters]
    for maker in makers:
        if any(same_person(maker, each) for each in wanting):
            return f"{maker} asked for it and made this token, or one it was made with, afterwards; use an older one"
    return None


def same_person(one: str, other: str) -> bool:
    """Return whether two names are the same person's, however they are spelled."""
    return _folded(one) == _folded(other)


def is_somebody(name: str) -> bool:
    """Return whether a name has anything that distinguishes it from another."""
    return bool(_folded(name))


def _folded(name: str) -> str:
    """Return a name without details that are easily overlooked: case, width of letters, spaces, format characters."""
    plain = normalize("NFKC", normalize("NFKC", without_unseen(name)).casefold())
    return "".join(each for each in plain if category(each)[0] not in "CZ")


def _join(groups: list[str]) -> str:
    return f"the group {groups[0]}" if len(groups) == 1 else f"the groups {', '.join(groups)}"


def hold_for_approval(job: JobRef, filing: Filing, attempt: int) -> Transition | None:
    """Return the transition that holds a dead letter until a person answers; None if it is held already."""
    if job.state == State.HELD:
        return None
    return job.moved(Move.HOLD, *asked_by(filing.asked_by, filing.reason), filing, attempt=attempt)


def deny_held(job: JobRef, answer: Answer, decision: Decision | None, attempt: int) -> Transition | None:
    """Return the death of a held letter that was not approved; None if it is not held. Its failure stays the same."""
    if job.state != State.HELD:
        return None
    carries = (answer,) if decision is None else (answer, decision)
    return job.moved(Move.DIE, *asked_by(answer.by, answer.reason), *carries, attempt=attempt)


def filed(decided: Transition, store: Store, *, handler: str, payload: str, details: Details) -> Transition:
    """Add the request for an approval to a letter's death, if the policy requires one."""
    wall, ttl = store.now() + store.skew(), store.approval_ttl
    return with_filing(decided, wall, ttl, handler=handler, payload=payload, details=details)


def with_filing(
    decided: Transition, wall: float, ttl: float, *, handler: str, payload: str, details: Details
) -> Transition:
    """Do the same with a given time, and how long an approval waits."""
    judgement = decided.rider(Judgement)
    if judgement is None or judgement.triage.action is not Action.REQUIRE_APPROVAL:
        return decided
    said, snapshot = judgement.triage, judgement.snapshot or BUILT_IN.snapshot
    filing = Filing(
        id=IDS.mint(wall),
        bound=bound_to(decided.queue, handler, payload, details.amended, snapshot),
        reason="the policy asks for it",
        requesters=details.wanted_by,
        groups=said.approver_groups or group_names(said.approver_group),
        rule=said.rule,
        ttl=ttl,
    )
    return decided.carrying(filing)
