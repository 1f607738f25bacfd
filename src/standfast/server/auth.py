"""Who is asking: a bearer token, or the cookie of a browser that signed in with one. Loopback is not trust."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from standfast.access import Grant, Right
from standfast.application import Standfast
from standfast.server.origin import SAFE
from standfast.server.problems import Problem
from standfast.server.shown import header

COOKIE = "standfast_token"
CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf"
REMEMBERED = 1.0
"""Seconds a token's grant is remembered, so that not every request asks the store.

One that is revoked in another process lives so long; one that is revoked in this process is forgotten at once.
"""
MOST_REMEMBERED = 1000
LINK_LASTS = 600.0
"""Seconds within which a sign-in link must be used."""
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="standfast"'}
SIGN_IN = "Send Authorization: Bearer TOKEN; make one with: standfast token create NAME --role viewer --person YOU"


HostAuth = Callable[[Request], Grant | Awaitable[Grant | None] | None]
"""How an application that the server is mounted into says who asks."""


class Gatekeeper:
    """Tells who is asking, and hands out the links by which a browser signs in."""

    def __init__(self, sf: Standfast, host: HostAuth | None = None) -> None:
        self._sf = sf
        self._host = host
        self._known: dict[bytes, tuple[float, Grant | None]] = {}
        self._revocations = 0
        self._links: dict[str, tuple[float, str]] = {}

    async def grant(self, request: Request) -> Grant:
        """Tell who is asking; refuse what cannot be told."""
        text, by_cookie = _shown(request)
        if self._host is not None and (known := await self._by_host(request, self._host)) is not None:
            _check_page(request)
            return known
        if text is None:
            raise Problem(401, "unauthenticated", "no token was shown", SIGN_IN, headers=CHALLENGE)
        found = await self._look_up(text)
        if found is None:
            raise Problem(401, "unauthenticated", "the token does not count", SIGN_IN, headers=CHALLENGE)
        if by_cookie and request.method not in SAFE:
            check_ours(request, request.headers.get(CSRF_HEADER, ""))
        return found

    async def signed_in(self, request: Request) -> Grant | None:
        """Tell who is asking, if anybody we know."""
        if self._host is not None and (known := await self._by_host(request, self._host)) is not None:
            return known
        text, _ = _shown(request)
        return None if text is None else await self._look_up(text)

    async def _by_host(self, request: Request, host: HostAuth) -> Grant | None:
        said = host(request)
        grant = await said if isinstance(said, Awaitable) else said
        return None if grant is None else self._sf.tokens.bounded(grant)

    async def _look_up(self, text: str) -> Grant | None:
        now, revocations = time.monotonic(), self._sf.tokens.revocations
        key = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        if len(self._known) >= MOST_REMEMBERED or self._revocations != revocations:
            self._known.clear()
            self._revocations = revocations
        until, grant = self._known.get(key, (0.0, None))
        if now < until:
            return grant
        grant = await self._sf.tokens.grant(text)
        if revocations == self._sf.tokens.revocations:  # else what was read may be of before
            self._known[key] = (now + REMEMBERED, grant)
        return grant

    def link(self, token: str) -> str:
        """Give a code that signs one browser in, once."""
        code = secrets.token_urlsafe(24)
        self._links[code] = (time.monotonic() + LINK_LASTS, token)
        return code

    def redeem(self, code: str) -> str | None:
        """Give the token a code stands for; it counts no more."""
        until, token = self._links.pop(code, (0.0, ""))
        return token if time.monotonic() < until else None


def sign_in(response: Response, token: str, *, secure: bool) -> None:
    """Have a browser show a token with every request of its own."""
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure, path="/")


def sign_out(response: Response) -> None:
    """Have a browser forget it."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


def csrf_of(request: Request) -> str:
    """Give what a form of ours must carry: only a page that this browser was given can know it."""
    return _csrf(request.cookies.get(COOKIE, ""))


def is_ours(request: Request, given: str) -> bool:
    """Tell whether something comes from a page that was given to this very browser."""
    shown = request.cookies.get(COOKIE)
    return bool(shown) and hmac.compare_digest(given.encode(), csrf_of(request).encode())


def check_ours(request: Request, given: str) -> None:
    """Refuse a change that no page of ours asks for, of somebody who is known.

    Without a cookie of ours, they are known by the host's session or by a header: the page is then told by its origin.
    """
    if not request.cookies.get(COOKIE):
        _check_page(request)
    elif not is_ours(request, given):
        hint = "Load the page again and repeat; nothing was changed."
        raise Problem(403, "csrf", "the request does not come from a page of ours", hint)


def check_right(grant: Grant, right: Right, also: Right | None = None) -> None:
    """Refuse what a role does not allow."""
    if not grant.may(right) and not (also is not None and grant.may(also)):
        raise Problem(
            403,
            "forbidden",
            f"role {grant.role} may not {right.replace('_', ' ')}",
            "Ask for a token with another role.",
        )


def check_queue(grant: Grant, queue: str) -> None:
    """Refuse a queue that a token does not reach."""
    if not grant.reaches(queue):
        raise Problem(403, "forbidden", "the token does not reach this queue", "Ask for a token for this queue.")


def own_session(grant: Grant, asked: str | None) -> str:
    """Give the session that something is done in: the token's, or the one of its own that was asked for."""
    if asked is not None and not grant.works_in(asked):
        hint = "Leave the session out, or ask for a token made with --sessions."
        raise Problem(403, "forbidden", "the session is not the token's own; nothing was done", hint)
    return grant.session if asked is None else asked


def agent_session(grant: Grant) -> str | None:
    """Give the session of an agent that asks for something; None where a person does."""
    return grant.session if grant.is_agent else None


def check_whole(grant: Grant, hint: str = "Ask for a token without a list of queues.") -> None:
    """Refuse what is about all queues to a token that reaches some."""
    if grant.queues is not None:
        raise Problem(403, "forbidden", "the token reaches only some queues", hint)


def reaches(grant: Grant, queue: str | None) -> bool:
    """Tell whether a token reaches what is about a queue, or, without one, about all of them."""
    return grant.queues is None if queue is None else grant.reaches(queue)


def _shown(request: Request) -> tuple[str | None, bool]:
    """Give the token a request shows, and whether a browser showed it by itself."""
    scheme, _, text = (header(request, b"authorization") or "").partition(" ")
    if scheme.lower() == "bearer" and text:
        return text.strip(), False
    cookie = request.cookies.get(COOKIE)
    return (cookie, True) if cookie else (None, False)


def _check_page(request: Request) -> None:
    """Refuse a change that a browser may have been led to: whoever asks shows a header of its own, or a page of ours.

    A foreign origin got no further than the front.
    """
    shown = request.headers
    ours = "origin" in shown or shown.get("sec-fetch-site") == "same-origin"
    by_itself = shown.get("authorization", "").lower().startswith("bearer ")  # no browser sends that unasked
    if request.method not in SAFE and not ours and not by_itself:
        hint = "Send an Origin header, or a bearer token, with it."
        raise Problem(403, "csrf", "nothing tells that a page of this server asks", hint)


def _csrf(token: str) -> str:
    return hmac.new(token.encode("utf-8", "surrogateescape"), b"standfast csrf", hashlib.sha256).hexdigest()
