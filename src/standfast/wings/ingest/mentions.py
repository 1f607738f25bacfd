"""Does a text mention a login with @? Read as GitHub reads it: not in code, comments, addresses or names of teams.

Every text costs linear time: it is split at marks, never matched against patterns that could start anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST = 1 << 18
"""How many characters of a body are read; GitHub accepts a quarter of that."""


def mentions(body: object, logins: Iterable[str]) -> bool:
    """Return whether a text mentions one of these logins."""
    names = "|".join(re.escape(login) for login in logins)
    if not isinstance(body, str) or not names:
        return False
    return re.search(rf"(?<![\w@./-])@(?:{names})(?![\w/-])", _prose(body[:LONGEST]), re.IGNORECASE) is not None


def _prose(text: str) -> str:
    """Return a text without comments, blocks of code and code within a line."""
    return " ".join(_outside(" ".join(_outside(_without_comments(text), "```")), "`"))


def _outside(text: str, mark: str) -> list[str]:
    """Return what is outside of pairs of a mark; a mark that is never closed marks nothing."""
    pieces = text.split(mark)
    outside = pieces[::2]
    return outside if len(pieces) % 2 else [*outside, pieces[-1]]


def _without_comments(text: str) -> str:
    before, *rest = text.split("<!--")
    return " ".join([before, *(piece.partition("-->")[2] for piece in rest)])
