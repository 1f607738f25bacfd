"""Approvals as values: what is to be allowed, what the answer is bound to, and how far it has come."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any

import msgspec

from standfast.lifecycle import Carried, NoticeKind
from standfast.settings import APPROVAL_TTL


class ApprovalState(StrEnum):
    """How far an approval has come. Only a pending one can be answered; only an approved one can be used, once."""

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
"""The notice that tells of an approval that has come so far."""
OPEN = (ApprovalState.PENDING, ApprovalState.APPROVED)
"""What can still lead to a replay."""


class Bound(msgspec.Struct, frozen=True):
    """What was shown to the approver. If any of it changes, the answer is about something else."""

    payload_sha256: str
    target: str
    snapshot: str
    generation: int = 0


class Filing(Carried, frozen=True, kw_only=True):
    """An approval to be asked for, of a letter or of a whole redrive. Without `asked_by`, the policy itself asks."""

    id: str
    bound: Bound
    asked_by: str | None = None
    reason: str | None = None
    requesters: tuple[str, ...] = ()
    """Who wanted the work in the first place: none of them may approve it."""
    groups: tuple[str, ...] = ()
    """The groups an approver must be in, all of them; none is any approver."""
    rule: str = ""
    ttl: float = APPROVAL_TTL
    redrive: str | None = None


class Answer(Carried, frozen=True):
    """How an approval goes on with the move that carries it: it must stand at `source`, or nothing moves."""

    id: str
    source: ApprovalState
    target: ApprovalState
    by: str | None = None
    reason: str | None = None

    @property
    def history_word(self) -> str | None:
        """What history calls a death that the approval's end brought, not an attempt's."""
        return HISTORY_WORDS.get(self.target)


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """An approval as the store has it. Times are queue time."""

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
    """Why it was answered so."""


class _Request(msgspec.Struct):
    method: str = ""
    url: str = ""


def bound_to(queue: str, handler: str, payload: str, generation: int, snapshot: str) -> Bound:
    """Give what an approval of this letter is bound to under this policy."""
    return Bound(sha256(payload), target_of(queue, handler, payload), snapshot, generation)


def sha256(text: str) -> str:
    """Give the hash of a payload's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def target_of(queue: str, handler: str, payload: str) -> str:
    """Name what a letter would do: its queue and handler, and for a request its method and address."""
    if handler != "http":
        return f"{queue}/{handler}"
    request = _request(payload)
    return f"{queue}/{handler} {request.method} {request.url}".rstrip()


def _request(payload: str) -> _Request:
    try:
        return msgspec.json.decode(payload, type=_Request)
    except msgspec.DecodeError:  # no request at all
        return _Request()


def bound_to_plan(redrive: str, foreseen: dict[str, Any], snapshot: str) -> Bound:
    """Give what an approval of a whole redrive is about: its plan, of which the store keeps the letters as they stood.

    There is no one payload: the hash is that of what was foreseen, which is shown with it.
    """
    return Bound(sha256(msgspec.json.encode(foreseen).decode()), f"redrive {redrive}", snapshot)
