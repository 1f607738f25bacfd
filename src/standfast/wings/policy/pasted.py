"""Restores a policy that lost its indentation on a web page, like the document it was first published in.

A rule and its `match` have no key name in common, so such a text can mean only one thing. It is recognised by a form
that no other policy has: no line is indented, and a key follows a `- match:` without a value.
"""

from __future__ import annotations

import itertools
import re

from standfast.wings.policy.words import MATCH_KEYS, TOP_KEYS

_BEGINS_RULE = re.compile(r"- match:\s*(?:#.*)?")
_KEY = re.compile(r"(\w+):")


def indented(text: str) -> tuple[str, dict[int, int]]:
    """Return the text with its indentation, and by how much each line (from 0) was shifted."""
    lines = text.split("\n")
    if not _lost_indentation(lines):
        return text, {}
    shifts = {number: shift for number, line in enumerate(lines) if (shift := _shift(line))}
    return "\n".join(" " * shifts.get(number, 0) + line for number, line in enumerate(lines)), shifts


def _lost_indentation(lines: list[str]) -> bool:
    if any(line[:1].isspace() and line.strip() for line in lines):
        return False
    return any(
        _BEGINS_RULE.fullmatch(line.rstrip()) and _shift(following) for line, following in itertools.pairwise(lines)
    )


def _shift(line: str) -> int:
    """Return how far to indent a line: keys of a match under `match`, other keys of a rule under its dash."""
    key = _KEY.match(line)
    if key is None or key[1] in TOP_KEYS:
        return 0
    return 4 if key[1] in MATCH_KEYS else 2
