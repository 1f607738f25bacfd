"""The answers of routes about approvals."""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired, TypedDict


class ShownApproval(TypedDict):
    """An approval of one letter's replay, or of a whole redrive, and what it is bound to."""

    id: str
    job: str | None
    redrive: str | None
    queue: str | None
    state: str
    asked_by: str | None
    reason: str | None
    rule: str
    answered_by: str | None
    answer: str | None
    approver_groups: list[str]
    payload_sha256: str
    target: str
    snapshot: str
    generation: int
    asked_at: datetime
    expires_at: datetime
    answered_at: datetime | None


class ApprovalList(TypedDict):
    """Approvals, the newest first; `more` says whether there are more."""

    items: list[ShownApproval]
    more: bool


class ApprovalOutcome(TypedDict):
    """What became of an approval, and of the letter or redrive that it is about."""

    approval: str
    outcome: str
    job: NotRequired[str | None]
    redrive: NotRequired[str]
    rule: NotRequired[str]
    why: NotRequired[str]
