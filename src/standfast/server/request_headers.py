"""The headers of a request, read once for everybody who asks for one."""

from __future__ import annotations

from typing import cast

from starlette.requests import Request
from starlette.types import Scope

_KEPT = "standfast.shown"


def headers(scope: Scope) -> dict[bytes, bytes]:
    """Give the headers by their names; of a name that comes twice the first counts, as everywhere."""
    if _KEPT not in scope:
        scope[_KEPT] = dict(reversed(scope["headers"]))
    return cast("dict[bytes, bytes]", scope[_KEPT])


def header(request: Request, name: bytes) -> str | None:
    """Give one header."""
    found = headers(request.scope).get(name)
    return None if found is None else found.decode("latin-1")
