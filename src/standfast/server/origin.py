"""Where a request comes from, as far as the browser says: one rule against whatever a page elsewhere might try."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from standfast.server.problems import Problem

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
ELSEWHERE = frozenset({b"same-site", b"cross-site"})
"""The values with which a browser marks a request from a page of another origin."""


def is_foreign(shown: Mapping[bytes, bytes]) -> bool:
    """Return whether the headers show a request from a page of another origin; one host may serve two origins."""
    origin = shown.get(b"origin")
    return shown.get(b"sec-fetch-site") in ELSEWHERE or (
        origin is not None and not _same(origin.decode("latin-1"), shown.get(b"host", b"").decode("latin-1"))
    )


def wrong_origin() -> Problem:
    """Return the refusal for such a page."""
    return Problem(403, "wrong-origin", "a page of another origin asked for this", "Use a page of this server.")


def _same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
