"""Scripts for bearer tokens. Making or revoking one is recorded in the audit chain with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from standfast.store.scripts import writes
from standfast.store.steps import Round, Script
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision


class TokenRow(NamedTuple):
    """A token as stored."""

    id: str
    name: str
    hash: str
    person: str
    role: str
    groups: str
    queues: str | None
    created_by: str
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    sessions: str | None = None
    created_with: str | None = None
    """The id of the token that its maker used."""


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token to store; it expires `seconds` from now, or never."""

    id: str
    name: str
    hash: str
    person: str
    role: str
    groups: str
    queues: str | None
    created_by: str
    seconds: float | None
    sessions: str | None = None
    created_with: str | None = None


class Revocation(NamedTuple):
    """A token to revoke, by its name."""

    name: str
    by: str


@writes()
def create(round_: Round, wanted: Sequence[NewToken]) -> Script[list[bool]]:
    """Store new tokens; answer False if another valid token has the name."""
    answers = []
    for each in wanted:
        given = msgspec.structs.asdict(each)
        seconds = given.pop("seconds")
        until = None if seconds is None else round_.now + seconds
        yield "free_token_name", {"name": each.name, "now": round_.now}
        made = yield "create_token", {**given, "now": round_.now, "expires_at": until}
        if made:
            detail = {"id": each.id, "name": each.name, "person": each.person, "role": each.role}
            detail |= {} if each.created_with is None else {"created_with": each.created_with}
            audit.record(round_, Decision(kind="tokens", by=each.created_by, outcome="created", detail=detail))
        answers.append(bool(made))
    return answers


@writes()
def revoke(round_: Round, wanted: Sequence[Revocation]) -> Script[list[bool]]:
    """Revoke tokens; answer False if no token has that name."""
    answers = []
    for each in wanted:
        gone = yield "revoke_token", {"name": each.name, "now": round_.now}
        for (token,) in gone:
            detail = {"id": token, "name": each.name}
            audit.record(round_, Decision(kind="tokens", by=each.by, outcome="revoked", detail=detail))
        answers.append(bool(gone))
    return answers


def one(token_id: str) -> Script[TokenRow | None]:
    """Read a token."""
    rows = yield "token", {"id": token_id}
    return TokenRow(*rows[0]) if rows else None


def made_since(token_id: str, since: float) -> Script[list[TokenRow]]:
    """Read a token, the token it was made with, and so on, as long as they were made since then."""
    found: list[TokenRow] = []
    wanted: str | None = token_id
    while wanted is not None:
        row = yield from one(wanted)
        if row is None or row.created_at < since:
            break  # the token that made it is older still
        found.append(row)
        wanted = row.created_with
    return found


def list_tokens(now: float) -> Script[list[TokenRow]]:
    """Read all valid tokens, the newest first: people make them one by one, so there are few."""
    rows = yield "tokens", {"now": now}
    return [TokenRow(*row) for row in rows]
