"""The headers of a request, parsed once and shared by all readers."""

from __future__ import annotations

from typing import cast

from starlette.requests import Request
from starlette.types import Scope

_KEPT = "standfast.shown"


def headers(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers by name; of a repeated header the first counts, as everywhere."""
    if _KEPT not in scope:
        scope[_KEPT] = dict(reversed(scope["headers"]))
    return cast("dict[bytes, bytes]", scope[_KEPT])


def header(request: Request, name: bytes) -> str | None:
    """Return one header."""
    found = headers(request.scope).get(name)
    return None if found is None else found.decode("latin-1")
