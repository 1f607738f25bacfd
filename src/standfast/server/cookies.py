"""The cookie of a signed-in browser: a secret that is not the token, with a different name at each address."""

from __future__ import annotations

import hashlib
import hmac
from functools import lru_cache

from starlette.requests import Request
from starlette.responses import Response

from standfast.server.origin import SAFE
from standfast.server.request_headers import header

PREFIX = "standfast_session_"
HOST_ONLY = "__Host-"
"""Browsers accept a cookie with this prefix only from the host itself, over TLS: no sibling domain can plant one."""


def audience(request: Request) -> str:
    """Return the address that a browser uses: its cookie goes to every port of a host, but must count at only one."""
    root = str(request.scope.get("root_path", "")).rstrip("/")
    return f"{request.scope['scheme']}://{(header(request, b'host') or '').lower()}{root}"


def session_secret(request: Request) -> str | None:
    """Return the secret that a browser shows for this address."""
    return request.cookies.get(name_at(audience(request))) or None


def keep(request: Request, response: Response, secret: str) -> None:
    """Make a browser send a secret with every request to this host."""
    name, secure = name_at(audience(request)), request.scope["scheme"] == "https"
    response.set_cookie(name, secret, httponly=True, samesite="strict", secure=secure, path="/")


def forget(request: Request, response: Response) -> None:
    """Make a browser delete its secret."""
    name, secure = name_at(audience(request)), request.scope["scheme"] == "https"
    response.delete_cookie(name, path="/", httponly=True, samesite="strict", secure=secure)


def csrf_of(request: Request) -> str:
    """Return what our forms must carry: only a page that was given to this very session can know it."""
    return csrf(session_secret(request) or "")


def is_ours(request: Request, given: str) -> bool:
    """Return whether a request comes from a page that was given to this very session."""
    return session_secret(request) is not None and hmac.compare_digest(given.encode(), csrf_of(request).encode())


def csrf(secret: str) -> str:
    """Derive the value that a session's forms carry."""
    return hmac.new(secret.encode("utf-8", "surrogateescape"), b"standfast csrf", hashlib.sha256).hexdigest()


def is_visit(request: Request) -> bool:
    """Return whether a person asks, for a page or with a form. What an open page sends by itself does not count."""
    if request.method not in SAFE:
        return True
    return "text/html" in (header(request, b"accept") or "") and header(request, b"hx-request") is None


@lru_cache(maxsize=64)
def name_at(address: str) -> str:
    """Return the cookie's name at an address: servers at two ports do not sign each other's browsers out."""
    own = f"{PREFIX}{hashlib.sha256(address.encode()).hexdigest()[:12]}"
    return f"{HOST_ONLY}{own}" if address.startswith("https:") else own
