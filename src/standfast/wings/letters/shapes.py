"""The answers of routes about letters."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NotRequired, TypedDict

from standfast.wings.records.shapes import ShownJob


class LetterPage(TypedDict):
    """Letters, the newest first. `next_cursor` leads to the older ones; it is null on the last page.

    A page reads at most 5,000 letters: if few of them match, it may be short, even empty, and still have a
    `next_cursor`.
    """

    items: list[ShownJob]
    next_cursor: int | None


LetterGroup = TypedDict(
    "LetterGroup",
    {
        "fingerprint": str,
        "count": int,
        "queue": str,
        "handler": str,
        "reason_code": str,
        "cause": str | None,
        "class": str,
        "error_kind": str | None,
        "message": str,
        "first_seen": datetime | None,
        "last_seen": datetime | None,
        "sample": str,
        "replayed": int,
        "regressed": int,
    },
)
"""Letters of one cause, with the id of one of them."""


class LetterGroups(TypedDict):
    """Letters grouped by cause, the largest group first."""

    items: list[LetterGroup]


class ReplayOutcome(TypedDict):
    """What became of a replay that the policy allows."""

    outcome: Literal["replayed", "resolved"]
    rule: str
    why: NotRequired[str]


class PurgedLetters(TypedDict):
    """How many letters were deleted."""

    purged: int
