"""May this person answer this approval now? Asked before every answer, whichever door it comes through."""

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
"""What a change of each part of a binding is called."""

ANSWERED = {
    Answered.APPROVED: "approved",
    Answered.USED: "approved",
    Answered.DENIED: "denied",
}
"""The answer that an approval of this standing had."""


def changed(bound: Bound, present: Bound) -> list[str]:
    """Name what changed since the approval was asked for."""
    return [word for name, word in WORDS.items() if getattr(bound, name) != getattr(present, name)]


def void_because(changes: Iterable[str]) -> str:
    """Word why an approval does not count any more."""
    return f"{' and '.join(changes)} changed since it was asked for"


def missing_groups(approval: Approval, groups: Iterable[str]) -> list[str]:
    """Name the groups that the policy wants an approval of by now, and that were not asked."""
    return sorted(set(groups) - set(approval.groups))


def wants_more(approval: Approval, groups: Iterable[str]) -> str:
    """Word that the policy now requires another approver."""
    return f"the policy now requires approval by a member of {_join(missing_groups(approval, groups))} too"


def is_repeated_answer(approval: Approval, answer: str) -> bool:
    """Tell whether this very answer was given before: giving it twice is harmless."""
    return ANSWERED.get(approval.state) == answer


def cannot_answer(approval: Approval, now: float) -> str | None:
    """Say why an approval takes no answer any more, if so. The first answer wins."""
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
    """Say why this person may not approve it, if so: no one approves their own request or work."""
    if approval.asked_by is not None and same_person(by, approval.asked_by):
        return f"{by} asked for it; another person must approve"
    if any(same_person(by, requester) for requester in approval.requesters):
        return f"{by} requested the work or amended it; another person must approve"
    missing = sorted(set(approval.groups) - set(groups))
    if missing:
        return f"{by} is not in {_join(missing)}; a member must approve"
    return None


def made_for_the_occasion(approval: Approval, makers: Iterable[str]) -> str | None:
    """Say why a token may not approve, if so: `makers` made it, or what it was made with, since it was filed."""
    wanting = [*filter(None, [approval.asked_by]), *approval.requesters]
    for maker in makers:
        if any(same_person(maker, each) for each in wanting):
            return f"{maker} asked for it and made this token, or one it was made with, afterwards; use an older one"
    return None


def same_person(one: str, other: str) -> bool:
    """Tell whether two names are one person's, however they are spelled."""
    return _folded(one) == _folded(other)


def is_somebody(name: str) -> bool:
    """Tell whether a name has anything that can be told from another one."""
    return bool(_folded(name))


def _folded(name: str) -> str:
    """Give a name without what is easily overlooked: its case, the width of its letters, spaces, marks of format."""
    plain = normalize("NFKC", normalize("NFKC", without_unseen(name)).casefold())
    return "".join(each for each in plain if category(each)[0] not in "CZ")


def _join(groups: list[str]) -> str:
    return f"the group {groups[0]}" if len(groups) == 1 else f"the groups {', '.join(groups)}"


def hold_for_approval(job: JobRef, filing: Filing, attempt: int) -> Transition | None:
    """Hold a dead letter until a person answers; None if it is held already."""
    if job.state == State.HELD:
        return None
    return job.moved(Move.HOLD, *asked_by(filing.asked_by, filing.reason), filing, attempt=attempt)


def deny_held(job: JobRef, answer: Answer, decision: Decision | None, attempt: int) -> Transition | None:
    """Let a held letter die that was not approved; None if it is not held. What stopped it first stays its failure."""
    if job.state != State.HELD:
        return None
    carries = (answer,) if decision is None else (answer, decision)
    return job.moved(Move.DIE, *asked_by(answer.by, answer.reason), *carries, attempt=attempt)


def filed(decided: Transition, store: Store, *, handler: str, payload: str, details: Details) -> Transition:
    """Have a letter's approval asked for with its death, where the policy wants one."""
    wall, ttl = store.now() + store.skew(), store.approval_ttl
    return with_filing(decided, wall, ttl, handler=handler, payload=payload, details=details)


def with_filing(
    decided: Transition, wall: float, ttl: float, *, handler: str, payload: str, details: Details
) -> Transition:
    """Do the same where the time is known, and how long an approval waits."""
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
