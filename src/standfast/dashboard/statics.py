"""Styles, scripts and vendored libraries: read once, served unchanged, cached by browsers for good."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "LICENSE": "text/plain"}
FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable"}
"""An address contains the hash of its content, so a browser needs to ask only once."""
NAMES = (
    "dashboard.css",
    "dashboard.js",
    "live.js",
    "mark.svg",
    "vendor/htmx.min.js",
    "vendor/uplot.min.js",
    "vendor/uplot.min.css",
    "vendor/htmx.LICENSE",
    "vendor/uplot.LICENSE",
)


async def serve(request: Request) -> Response:
    """Serve one of these files; there are no others."""
    name = request.path_params["name"]
    if name not in NAMES:
        return Response("nothing is at this address", 404, media_type="text/plain")
    return Response(content(name), headers=FOR_GOOD, media_type=TYPES[name.rpartition(".")[2]])


@cache
def content(name: str) -> bytes:
    """Read a file."""
    return (files("standfast.dashboard") / "static" / name).read_bytes()


@cache
def versioned(name: str) -> str:
    """Return a file's address, which changes with its content."""
    return f"/static/{name}?v={hashlib.sha256(content(name)).hexdigest()[:12]}"
