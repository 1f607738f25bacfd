"""The answers of routes about consent."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from standfast.job import Risk
from standfast.wings.consent.words import Mode


class ConsentGiven(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is allowed or denied; `session` is null for jobs without one, `handler` `*` is every handler."""

    id: str | None
    """Null if one job was denied: that is not an answer to its session."""
    session: str | None
    handler: str
    mode: Mode
    by: str | None
    reason: str | None
    granted_at: datetime
    expires_at: datetime | None
    uses: int | None
    used: int
    warning: str | UnsetType = UNSET


class ConsentAnswered(ConsentGiven, frozen=True, kw_only=True):
    """The answer to one job that waited."""

    job_id: str


class ConsentAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits for an answer."""

    job_id: str
    session: str | None
    queue: str
    handler: str
    requester: str | None
    risk: Risk | None
    asked_at: datetime


class ConsentList(TypedDict):
    """The answers in force, and the jobs that wait for one."""

    items: list[ConsentGiven]
    asks: list[ConsentAsked]


class ConsentsRevoked(TypedDict):
    """How many consents were revoked."""

    revoked: int
