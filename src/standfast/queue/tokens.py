"""Bearer tokens: made once, shown once, kept as a hash, and asked at every door that is reached from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from standfast.access import Grant, Role, mint, read, same
from standfast.errors import ConfigurationError, UnknownRequest
from standfast.queue.accept import user
from standfast.queue.view import moments
from standfast.rules import Seconds, seconds
from standfast.store.store import Store
from standfast.store.tokens import NewToken, Revocation, TokenRow

_names = msgspec.json.Decoder(tuple[str, ...]).decode
LONGEST_NAME = 100


class Tokens:
    """Makes, lists, revokes and judges tokens."""

    def __init__(self, store: Store, ready: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._ready = ready
        self.revocations = 0
        """How many tokens were revoked here: whoever remembers what one stands for forgets it with the next."""

    async def create(
        self,
        name: str,
        *,
        person: str,
        role: str,
        groups: Sequence[str] = (),
        queues: Sequence[str] | None = None,
        expires: Seconds | str | None = None,
        by: str | None = None,
    ) -> dict[str, Any]:
        """Make a token; its text is in the answer and nowhere else. `expires` is seconds from now, or such as "30d"."""
        kept = _checked(name, person, role)
        minted = mint()
        scope = None if queues is None else _text(queues)
        lasts = None if expires is None else seconds(expires)
        await self._ready()
        made = await self._store.tokens.create(
            NewToken(
                id=minted.id,
                name=name,
                hash=minted.hash,
                person=person,
                role=kept,
                groups=_text(groups),
                queues=scope,
                created_by=by or user(),
                seconds=lasts,
            )
        )
        if not made:
            raise ConfigurationError(f"there is a token named {name!r}; revoke it first, or choose another name")
        return {"id": minted.id, "name": name, "token": minted.text, "person": person, "role": str(kept)}

    async def list(self) -> list[dict[str, Any]]:
        """List the tokens that count, without their secrets."""
        await self._ready()
        skew = self._store.skew()
        return [_shown(row, skew) for row in await self._store.tokens.listed(self._store.now())]

    async def revoke(self, name: str, *, by: str | None = None) -> None:
        """Have a token count no more, from now on and everywhere."""
        await self._ready()
        if not await self._store.tokens.revoke(Revocation(name, by or user())):
            raise UnknownRequest(f"no token is named {name!r}; nothing was revoked")
        self.revocations += 1

    async def grant(self, text: str) -> Grant | None:
        """Tell what a token stands for; None for one that is none, was revoked, or has expired."""
        taken = read(text)
        if taken is None:
            return None
        await self._ready()
        row = await self._store.tokens.one(taken[0])
        if row is None or not same(row.hash, taken[1]) or row.revoked_at is not None:
            return None
        if row.expires_at is not None and row.expires_at <= self._store.now():
            return None
        return _grant(row)


def _grant(row: TokenRow) -> Grant:
    queues = None if row.queues is None else _names(row.queues)
    return Grant(
        id=row.id, name=row.name, person=row.person, role=Role(row.role), groups=_names(row.groups), queues=queues
    )


def _shown(row: TokenRow, skew: float) -> dict[str, Any]:
    grant = msgspec.to_builtins(_grant(row))
    moment = moments(skew)
    times = {"created_at": moment(row.created_at), "expires_at": moment(row.expires_at)}
    return {**grant, "created_by": row.created_by, **times}


def _checked(name: str, person: str, role: str) -> Role:
    for what, value in (("name", name), ("person", person)):
        if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > LONGEST_NAME:
            raise ConfigurationError(f"a token's {what} is printable, 1 to {LONGEST_NAME} characters, not {value!r}")
    if role not in set(Role):
        raise ConfigurationError(f"role={role!r} is unknown; known are {', '.join(Role)}")
    return Role(role)


def _text(names: Sequence[str]) -> str:
    if isinstance(names, str):
        raise ConfigurationError(f"give a list of names, such as [{names!r}]")
    return msgspec.json.encode(list(names)).decode()
