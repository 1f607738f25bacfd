"""The answers of routes about tokens."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict


class ShownToken(TypedDict):
    """A token that is valid, without its secret."""

    id: str
    name: str
    person: str
    role: str
    groups: list[str]
    queues: list[str] | None
    sessions: list[str]
    created_by: str | None
    created_at: datetime
    expires_at: datetime | None


class TokenList(TypedDict):
    """Valid tokens."""

    items: list[ShownToken]


class CreatedToken(TypedDict):
    """A new token. `token` is its text, which no other answer repeats."""

    id: str
    name: str
    token: str
    person: str
    role: str
