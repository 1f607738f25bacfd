"""Does a text mention a login with @? As GitHub reads it: not within code, comments, addresses or names of teams.

Every text costs linear time: it is cut at marks, never matched against patterns that could start everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST = 1 << 18
"""Characters of a body that are looked at; GitHub takes a quarter of that."""


def mentions(body: object, logins: Iterable[str]) -> bool:
    """Tell whether a text mentions one of these."""
    names = "|".join(re.escape(login) for login in logins)
    if not isinstance(body, str) or not names:
        return False
    return re.search(rf"(?<![\w@./-])@(?:{names})(?![\w/-])", _prose(body[:LONGEST]), re.IGNORECASE) is not None


def _prose(text: str) -> str:
    """Give a text without comments, blocks of code and code within a line."""
    return " ".join(_outside(" ".join(_outside(_without_comments(text), "```")), "`"))


def _outside(text: str, mark: str) -> list[str]:
    """Give what stands outside of pairs of a mark; one that is never closed marks nothing."""
    pieces = text.split(mark)
    outside = pieces[::2]
    return outside if len(pieces) % 2 else [*outside, pieces[-1]]


def _without_comments(text: str) -> str:
    before, *rest = text.split("<!--")
    return " ".join([before, *(piece.partition("-->")[2] for piece in rest)])
