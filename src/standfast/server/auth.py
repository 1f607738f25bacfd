"""Authentication: by a bearer token, or the session of a browser that signed in with one. Loopback is not trusted."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from standfast.application import Standfast
from standfast.server import cookies
from standfast.server.connections import prove
from standfast.server.grant_cache import GrantCache
from standfast.server.origin import SAFE
from standfast.server.problems import Problem
from standfast.server.request_headers import header
from standfast.wings.access.words import Grant, Right

CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf"
LINK_LASTS = 600.0
"""Seconds within which a sign-in link must be used."""
LONGEST_SHOWN = 256
"""Characters of a token or a cookie that are looked at; no valid one is that long."""
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="standfast"'}
SIGN_IN = "Send Authorization: Bearer TOKEN; make one with: standfast token create NAME --role viewer --person YOU"


HostAuth = Callable[[Request], Grant | Awaitable[Grant | None] | None]
"""How an application that mounts the server says who is asking."""


class Gatekeeper:
    """Identifies callers, issues sign-in links for browsers, and signs browsers in and out."""

    def __init__(self, sf: Standfast, host: HostAuth | None = None) -> None:
        self._sf = sf
        self._host = host
        self._remembered = GrantCache(lambda: sf.tokens.revocations + sf.browser_sessions.closed)
        self._links: dict[str, tuple[float, str]] = {}

    async def grant(self, request: Request) -> Grant:
        """Return the caller's grant; refuse a caller who cannot be identified."""
        if self._host is not None and (known := await self._by_host(request, self._host)) is not None:
            _check_page(request)
            prove(request.scope)
            return known
        token, session = _bearer(request), cookies.session_secret(request)
        if token is None and session is None:
            raise Problem(401, "unauthenticated", "the request has no token", SIGN_IN, headers=CHALLENGE)
        found = await self._look_up(request, token, session)
        if found is None:
            raise Problem(
                401, "unauthenticated", "the token is unknown, expired or revoked", SIGN_IN, headers=CHALLENGE
            )
        if token is None and request.method not in SAFE:
            check_ours(request, request.headers.get(CSRF_HEADER, ""))
        prove(request.scope)
        return found

    async def signed_in(self, request: Request) -> Grant | None:
        """Return the caller's grant, or None if the caller is unknown."""
        if self._host is not None and (known := await self._by_host(request, self._host)) is not None:
            return known
        found = await self._look_up(request, _bearer(request), cookies.session_secret(request))
        if found is not None:
            prove(request.scope)
        return found

    async def _by_host(self, request: Request, host: HostAuth) -> Grant | None:
        granted = host(request)
        grant = await granted if isinstance(granted, Awaitable) else granted
        return None if grant is None else self._sf.tokens.bounded(grant)

    async def _look_up(self, request: Request, token: str | None, session: str | None) -> Grant | None:
        """Return the grant that a request proves; a header's token wins over a cookie; neither replaces the other."""
        if token is not None:
            return await self._remembered.grant(token, lambda: self._sf.tokens.grant(token))
        if session is None or len(session) > LONGEST_SHOWN or not session.isascii():
            return None
        address, visit = cookies.audience(request), cookies.is_visit(request)
        return await self._remembered.grant(
            f"{address} {visit} {session}",
            lambda: self._sf.browser_sessions.grant(session, address, renew=visit),
        )

    def link(self, token: str) -> str:
        """Return a code that signs one browser in, once, with the token of this id."""
        code = secrets.token_urlsafe(24)
        self._links[code] = (time.monotonic() + LINK_LASTS, token)
        return code

    def redeem(self, code: str) -> str | None:
        """Return the id of the token that a code stands for; the code cannot be used again."""
        until, token = self._links.pop(code, (0.0, ""))
        return token if time.monotonic() < until else None

    async def sign_in(self, request: Request, response: Response, token: str) -> None:
        """Sign a browser in with the token of this id. Its session is always a new one; the one it had before ends."""
        before = cookies.session_secret(request)
        secret = await self._sf.browser_sessions.open(token, cookies.audience(request), replaces=before)
        cookies.keep(request, response, secret)

    async def sign_out(self, request: Request, response: Response) -> None:
        """End a browser's session at this server and all others of the store."""
        session = cookies.session_secret(request)
        if session is not None:
            await self._sf.browser_sessions.close(session)
        cookies.forget(request, response)


def check_ours(request: Request, given: str) -> None:
    """Refuse a change by a signed-in person that was not sent by a page of this server.

    Without our cookie, the host's session or a header identifies the person: then the origin identifies the page.
    """
    if cookies.session_secret(request) is None:
        _check_page(request)
    elif not cookies.is_ours(request, given):
        hint = "Load the page again and repeat; nothing was changed."
        raise Problem(403, "csrf", "the request does not come from a page of this server", hint)


def check_right(grant: Grant, right: Right, also: Right | None = None) -> None:
    """Refuse what the role does not allow."""
    if not grant.may(right) and not (also is not None and grant.may(also)):
        raise Problem(
            403,
            "forbidden",
            f"role {grant.role} may not {right.replace('_', ' ')}",
            "Ask for a token with another role.",
        )


def check_queue(grant: Grant, queue: str) -> None:
    """Refuse a queue that the token does not reach."""
    if not grant.reaches(queue):
        raise Problem(403, "forbidden", "the token does not reach this queue", "Ask for a token for this queue.")


def own_session(grant: Grant, wanted: str | None) -> str:
    """Return the session to work in: the token's, or another of its sessions if the caller asked for one."""
    if wanted is not None and not grant.works_in(wanted):
        hint = "Leave the session out, or ask for a token made with --sessions."
        raise Problem(403, "forbidden", "the session is not the token's own; nothing was done", hint)
    return grant.session if wanted is None else wanted


def agent_session(grant: Grant) -> str | None:
    """Return the session if an agent is asking; None if a person is."""
    return grant.session if grant.is_agent else None


def check_whole(grant: Grant, hint: str = "Ask for a token without a list of queues.") -> None:
    """Refuse a token that reaches only some queues, for requests about all of them."""
    if grant.queues is not None:
        raise Problem(403, "forbidden", "the token reaches only some queues", hint)


def reaches(grant: Grant, queue: str | None) -> bool:
    """Return whether a token reaches a queue, or all queues if `queue` is None."""
    return grant.queues is None if queue is None else grant.reaches(queue)


def _bearer(request: Request) -> str | None:
    """Return the token in a request's header."""
    scheme, _, text = (header(request, b"authorization") or "").partition(" ")
    return text.strip()[:LONGEST_SHOWN] if scheme.lower() == "bearer" and text else None


def _check_page(request: Request) -> None:
    """Refuse a change that a browser may have been tricked into: it must carry a header, or come from our page.

    The front has already refused foreign origins.
    """
    shown = request.headers
    ours = "origin" in shown or shown.get("sec-fetch-site") == "same-origin"
    by_itself = shown.get("authorization", "").lower().startswith("bearer ")  # no browser sends that on its own
    if request.method not in SAFE and not ours and not by_itself:
        hint = "Send an Origin header, or a bearer token, with it."
        raise Problem(403, "csrf", "the request does not show that it comes from a page of this server", hint)
