"""Signing in with a link or a token, and signing out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from standfast.application import Standfast
from standfast.dashboard.forms import read
from standfast.dashboard.page import NOT_KEPT, SEE_OTHER, RenderedPage, ask_to_sign_in, refusal_page, render, root_of
from standfast.errors import StandfastError
from standfast.server import cookies
from standfast.server.auth import CSRF_FIELD, Gatekeeper
from standfast.server.problems import Problem, of_error

Serves = Callable[[Request], Awaitable[Response]]
LONGEST_TOKEN = 200
LONGEST_FORM = 16 << 10
"""Bytes of a form that are read before the sender is known."""
ASIDE = ("//", "/\\", "/sign-in", "/sign-out")
"""Where a sign-in never redirects: to another site, or back to signing in."""


def by_link(gate: Gatekeeper) -> Serves:
    """Sign in with the code that `standfast serve` printed; it works once."""

    async def serve(request: Request) -> Response:
        code = request.query_params.get("code")
        if code is None or request.method != "GET":  # a mere preview of the link must not use it up
            return ask_to_sign_in(request)
        token = gate.redeem(code)
        if token is None:
            return await _too_late(request, gate)
        return await _welcomed(gate, request, token, "")

    return serve


async def _too_late(request: Request, gate: Gatekeeper) -> Response:
    """Say that a link has expired; a person who is signed in already needs no link."""
    try:
        known = await gate.signed_in(request) is not None
    except StandfastError as error:
        return refusal_page(request, None, of_error(error))
    if known:
        return RedirectResponse(f"{root_of(request)}/", SEE_OTHER, NOT_KEPT)
    return ask_to_sign_in(request, wrong="This link was used before, or is older than ten minutes.")


def by_token(sf: Standfast, gate: Gatekeeper) -> Serves:
    """Sign in with a pasted token."""

    async def serve(request: Request) -> Response:
        try:
            fields = await read(request, LONGEST_FORM)
            token = fields.get("token", "").strip()[:LONGEST_TOKEN]
            known = await sf.tokens.grant(token) if token.isascii() else None
        except Problem as problem:
            return refusal_page(request, None, problem)
        except StandfastError as error:
            return refusal_page(request, None, of_error(error))
        if known is None:
            return ask_to_sign_in(request, wrong="This token is not valid: it is mistyped, revoked or expired.")
        return await _welcomed(gate, request, known.id, fields.get("wanted", ""))

    return serve


def sign_out(gate: Gatekeeper) -> Serves:
    """End the session of a browser."""

    async def serve(request: Request) -> Response:
        response: Response = RedirectResponse(f"{root_of(request)}/sign-in", SEE_OTHER, NOT_KEPT)
        try:
            if cookies.is_ours(request, (await read(request, LONGEST_FORM)).get(CSRF_FIELD, "")):
                await gate.sign_out(request, response)
        except Problem as problem:
            return refusal_page(request, None, problem)
        except StandfastError as error:
            return refusal_page(request, None, of_error(error))
        return response

    return serve


async def _welcomed(gate: Gatekeeper, request: Request, token: str, wanted: str) -> Response:
    """Sign in with the token of this id, and lead to the wanted page.

    Not by a redirect: if the browser came from another site, that would still be the other site's request.
    """
    local = wanted if wanted.startswith("/") and wanted.isprintable() and not wanted.startswith(ASIDE) else "/"
    response = render(request, RenderedPage("signed_in.html", {"onward": f"{root_of(request)}{local}"}))
    try:
        await gate.sign_in(request, response, token)
    except StandfastError as error:
        return refusal_page(request, None, of_error(error))
    return response
