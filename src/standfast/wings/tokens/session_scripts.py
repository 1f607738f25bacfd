"""Scripts for browser sessions: each stands for a token at one address, and expires."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from standfast.store.scripts import writes
from standfast.store.steps import Round, Script
from standfast.wings.tokens.scripts import TokenRow

MOST = 50
"""The most browsers that are signed in with one token at once."""


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session to store: it ends after `lifetime` seconds, or after `idle` seconds without use."""

    hash: str
    token: str
    audience: str
    lifetime: float
    idle: float
    replaces: str | None = None
    """The hash of the browser's previous session."""


class SessionRow(NamedTuple):
    """A session as stored: its token, and when it ends if it stays idle."""

    token: TokenRow
    expires_at: float


class Renewal(NamedTuple):
    """A session that was used, and how long it may be idle from now."""

    hash: str
    idle: float


@writes()
def open_(round_: Round, wanted: Sequence[NewSession]) -> Script[list[None]]:
    """Store new sessions; a browser's previous session ends."""
    now = round_.now
    for each in wanted:
        if each.replaces is not None:
            yield "close_session", {"hash": each.replaces}
        row = {"hash": each.hash, "token": each.token, "audience": each.audience, "now": now}
        ends = {"ends_at": now + each.lifetime, "expires_at": now + min(each.idle, each.lifetime)}
        yield "open_session", {**row, **ends}
        yield "trim_sessions", {"token": each.token, "most": MOST, "limit": MOST}
    return [None] * len(wanted)


@writes()
def renew(round_: Round, wanted: Sequence[Renewal]) -> Script[list[None]]:
    """Postpone the end of sessions that are in use; one that has ended stays ended."""
    for each in wanted:
        yield "renew_session", {"hash": each.hash, "until": round_.now + each.idle, "now": round_.now}
    return [None] * len(wanted)


@writes()
def close(_round: Round, hashes: Sequence[str]) -> Script[list[None]]:
    """End sessions."""
    for each in hashes:
        yield "close_session", {"hash": each}
    return [None] * len(hashes)


@writes()
def close_all(_round: Round, asked: Sequence[None]) -> Script[list[None]]:
    """End every session: a restored store must not accept browsers that have signed out since its backup."""
    while (yield "delete_sessions", {"now": float("inf"), "limit": 1000}):
        pass
    return [None] * len(asked)


def one(hash_: str, audience: str) -> Script[SessionRow | None]:
    """Read a session at an address."""
    rows = yield "session", {"hash": hash_, "audience": audience}
    return next((SessionRow(TokenRow(*token), expires_at) for *token, expires_at in rows), None)
