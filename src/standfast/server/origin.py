"""Where a request comes from, as far as the browser says so: one rule for whatever a page elsewhere might try."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from standfast.server.problems import Problem

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
ELSEWHERE = frozenset({b"same-site", b"cross-site"})
"""How a browser says that a page of another origin asks."""


def is_foreign(shown: Mapping[bytes, bytes]) -> bool:
    """Tell from its headers whether a page of another origin asks; one host may serve two of them."""
    origin = shown.get(b"origin")
    return shown.get(b"sec-fetch-site") in ELSEWHERE or (
        origin is not None and not _same(origin.decode("latin-1"), shown.get(b"host", b"").decode("latin-1"))
    )


def wrong_origin() -> Problem:
    """Word what is said to such a page."""
    return Problem(403, "wrong-origin", "a page of another origin asked for this", "Use a page of this server.")


def _same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
