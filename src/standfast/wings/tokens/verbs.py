"""Bearer tokens: made once, shown once, kept as a hash, and checked at every door that is reached from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from standfast.errors import ConfigurationError, UnknownRequest
from standfast.rules import Seconds, seconds
from standfast.spine.accept import checked_name, user
from standfast.store.store import Store
from standfast.wings.access.words import Grant, Role, mint, read, same
from standfast.wings.records.view import moments
from standfast.wings.tokens import scripts as tokens
from standfast.wings.tokens.scripts import NewToken, Revocation, TokenRow

_names = msgspec.json.Decoder(tuple[str, ...]).decode
LONGEST_NAME = 100


class Tokens:
    """Makes, lists, revokes and checks tokens."""

    def __init__(self, store: Store, ready: Callable[[], Awaitable[None]], *, viewer_payloads: bool = True) -> None:
        self._store = store
        self._ready = ready
        self._viewer_payloads = viewer_payloads
        self.revocations = 0
        """How many tokens were revoked here: a cache of grants is cleared when this changes."""

    async def create(
        self,
        name: str,
        *,
        person: str,
        role: str,
        groups: Sequence[str] = (),
        queues: Sequence[str] | None = None,
        sessions: Sequence[str] | None = None,
        expires: Seconds | str | None = None,
        by: str | None = None,
        made_with: str | None = None,
    ) -> dict[str, Any]:
        """Make a token; its text is in the answer and nowhere else. `expires` is seconds from now, or such as "30d".

        `sessions` are the sessions it may work in, by default the first; it is then an agent's token. `made_with` is
        the id of the token that `by` used: an approval considers who made a token, and with what.
        """
        checked = _checked(name, person, role)
        minted = mint()
        scope = None if queues is None else _text(queues)
        works_in = _sessions(sessions)
        lasts = None if expires is None else seconds(expires)
        await self._ready()
        made = await self._store.write(
            tokens.create,
            NewToken(
                id=minted.id,
                name=name,
                hash=minted.hash,
                person=person,
                role=checked,
                groups=_text(groups),
                queues=scope,
                created_by=by or user(),
                seconds=lasts,
                sessions=works_in,
                created_with=made_with,
            ),
        )
        if not made:
            raise ConfigurationError(f"there is a token named {name!r}; revoke it first, or choose another name")
        return {"id": minted.id, "name": name, "token": minted.text, "person": person, "role": str(checked)}

    async def list(self) -> list[dict[str, Any]]:
        """List valid tokens, without their secrets."""
        await self._ready()
        skew = self._store.skew()
        return [_display(row, skew) for row in await self._store.read(tokens.list_tokens(self._store.now()))]

    async def revoke(self, name: str, *, by: str | None = None) -> None:
        """Revoke a token, from now on and everywhere."""
        await self._ready()
        if not await self._store.write(tokens.revoke, Revocation(name, by or user())):
            raise UnknownRequest(f"no token is named {name!r}; nothing was revoked")
        self.revocations += 1

    async def grant(self, text: str) -> Grant | None:
        """Return the grant of a token; None if it is not a token, was revoked, or has expired."""
        taken = read(text)
        if taken is None:
            return None
        await self._ready()
        row = await self._store.read(tokens.one(taken[0]))
        return self.current_grant(row) if row is not None and same(row.hash, taken[1]) else None

    def current_grant(self, row: TokenRow) -> Grant | None:
        """Return the present grant of a token; None if it was revoked or has expired."""
        if row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= self._store.now()):
            return None
        return self.bounded(_grant(row))

    def bounded(self, grant: Grant) -> Grant:
        """Take payloads out of what a viewer is shown, if the settings say so."""
        if self._viewer_payloads or grant.role is not Role.VIEWER:
            return grant
        return msgspec.structs.replace(grant, payloads=False)


def _grant(row: TokenRow) -> Grant:
    return Grant(
        id=row.id,
        name=row.name,
        person=row.person,
        role=Role(row.role),
        groups=_names(row.groups),
        queues=None if row.queues is None else _names(row.queues),
        sessions=() if row.sessions is None else _names(row.sessions),
    )


def _display(row: TokenRow, skew: float) -> dict[str, Any]:
    grant = _grant(row)
    moment = moments(skew)
    shown = {name: getattr(grant, name) for name in ("id", "name", "person", "groups", "queues")}
    times = {"created_at": moment(row.created_at), "expires_at": moment(row.expires_at)}
    sessions = list(grant.sessions or (grant.session,))
    return {
        **msgspec.to_builtins(shown),
        "role": str(grant.role),
        "sessions": sessions,
        "created_by": row.created_by,
        **times,
    }


def _checked(name: str, person: str, role: str) -> Role:
    for what, value in (("name", name), ("person", person)):
        if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > LONGEST_NAME:
            raise ConfigurationError(f"a token's {what} is printable, 1 to {LONGEST_NAME} characters, not {value!r}")
    if role not in set(Role):
        raise ConfigurationError(f"role={role!r} is unknown; known are {', '.join(Role)}")
    return Role(role)


def _sessions(sessions: Sequence[str] | None) -> str | None:
    """Check the sessions a token is made for; without any, it has one of its own."""
    if sessions is None:
        return None
    text = _text(sessions)
    if not sessions:
        raise ConfigurationError("sessions= names at least one session; leave it out to use the token's own session")
    for each in sessions:
        checked_name("session", each)
    return text


def _text(names: Sequence[str]) -> str:
    if isinstance(names, str):
        raise ConfigurationError(f"give a list of names, such as [{names!r}]")
    return msgspec.json.encode(list(names)).decode()
