"""The answers of routes about a session."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from standfast.wings.sessions.words import MessageKind


class InboxMessage(msgspec.Struct, frozen=True, kw_only=True):
    """How a job of the session ended, and in `hint` what to do about it."""

    id: str
    kind: MessageKind
    job_id: str
    read: bool
    at: datetime
    session: str
    queue: str
    handler: str
    state: str
    attempts: int
    message: str
    hint: str
    reason_code: str | UnsetType = UNSET
    cls: str | UnsetType = msgspec.field(name="class", default=UNSET)
    landed: str | UnsetType = UNSET
    error_kind: str | UnsetType = UNSET
    advice: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    warning: str | UnsetType = UNSET
    by: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    answer: str | UnsetType = UNSET
    result: Any = UNSET
    history: list[dict[str, Any]] | UnsetType = UNSET
    """The attempts before it, if it did not end well."""


class MessageList(TypedDict):
    """Messages of one session, the newest first."""

    items: list[InboxMessage]
