"""Approvals as values: what they would allow, what the answer is bound to, and their state."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any

import msgspec

from standfast.lifecycle import Carried, NoticeKind
from standfast.settings import APPROVAL_TTL


class ApprovalState(StrEnum):
    """The state of an approval. Only a pending one can be answered; only an approved one can be used, once."""

    PENDING = "pending"
    APPROVED = "approved"
    USED = "used"
    DENIED = "denied"
    EXPIRED = "expired"
    VOID = "void"


HISTORY_WORDS = {
    ApprovalState.DENIED: "denied",
    ApprovalState.EXPIRED: "approval_expired",
    ApprovalState.VOID: "approval_void",
}
TOLD = {
    ApprovalState.PENDING: NoticeKind.APPROVAL_ASKED,
    ApprovalState.APPROVED: NoticeKind.APPROVED,
    ApprovalState.USED: NoticeKind.APPROVAL_USED,
    ApprovalState.DENIED: NoticeKind.DENIED,
    ApprovalState.EXPIRED: NoticeKind.APPROVAL_EXPIRED,
    ApprovalState.VOID: NoticeKind.APPROVAL_VOID,
}
"""The notice that announces each state of an approval."""
OPEN = (ApprovalState.PENDING, ApprovalState.APPROVED)
"""The states that can still lead to a replay."""


class Bound(msgspec.Struct, frozen=True):
    """What was shown to the approver. If any of it changes, the answer no longer applies."""

    payload_sha256: str
    target: str
    snapshot: str
    generation: int = 0


class Filing(Carried, frozen=True, kw_only=True):
    """A request for the approval of a letter or of a whole redrive. Without `asked_by`, the policy itself asks."""

    id: str
    bound: Bound
    asked_by: str | None = None
    reason: str | None = None
    requesters: tuple[str, ...] = ()
    """The people who requested the work in the first place: none of them may approve it."""
    groups: tuple[str, ...] = ()
    """The groups an approver must be in, all of them; none means any approver."""
    rule: str = ""
    ttl: float = APPROVAL_TTL
    redrive: str | None = None


class Answer(Carried, frozen=True):
    """A change of an approval's state with the transition that carries it, applied only if it is in state `source`."""

    id: str
    source: ApprovalState
    target: ApprovalState
    by: str | None = None
    reason: str | None = None

    @property
    def history_word(self) -> str | None:
        """What the history calls a death that the approval's end caused, rather than an attempt."""
        return HISTORY_WORDS.get(self.target)


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """An approval's row in the store. Times are queue time."""

    id: str
    n: int | None
    redrive: str | None
    job: str | None
    queue: str | None
    state: ApprovalState
    asked_by: str | None
    reason: str | None
    requesters: tuple[str, ...]
    groups: tuple[str, ...]
    bound: Bound
    rule: str
    asked_at: float
    expires_at: float
    answered_by: str | None
    answered_at: float | None
    answer: str | None
    """The reason for the answer."""


class _Request(msgspec.Struct):
    method: str = ""
    url: str = ""


def bound_to(queue: str, handler: str, payload: str, generation: int, snapshot: str) -> Bound:
    """Return what an approval of this letter is bound to under this policy."""
    return Bound(sha256(payload), target_of(queue, handler, payload), snapshot, generation)


def sha256(text: str) -> str:
    """Return the hash of a payload's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def target_of(queue: str, handler: str, payload: str) -> str:
    """Return what a letter would do: its queue and handler, and for a request its method and URL."""
    if handler != "http":
        return f"{queue}/{handler}"
    request = _request(payload)
    return f"{queue}/{handler} {request.method} {request.url}".rstrip()


def _request(payload: str) -> _Request:
    try:
        return msgspec.json.decode(payload, type=_Request)
    except msgspec.DecodeError:  # not a request at all
        return _Request()


def bound_to_plan(redrive: str, foreseen: dict[str, Any], snapshot: str) -> Bound:
    """Return what an approval of a whole redrive is bound to: its plan, whose letters the store keeps as planned.

    There is no single payload: the hash is that of the prediction, which is shown with it.
    """
    return Bound(sha256(msgspec.json.encode(foreseen).decode()), f"redrive {redrive}", snapshot)
