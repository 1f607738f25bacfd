"""Is a chain what it was when it was written? A link that was changed, removed, moved or exchanged shows somewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from standfast.wings.audit.words import NOTHING, Head, Link, canonical, decisions_of, digest

UNBEGUN = Head(-1, NOTHING)
"""The head of a chain without links."""


class Problem(msgspec.Struct, frozen=True):
    """The first link that is not as it was, and how that shows."""

    seq: int
    why: str


class Walk(msgspec.Struct, frozen=True):
    """How far a walk along a chain has come."""

    head: Head = UNBEGUN
    begins: str = ""
    """What the first link says."""
    entries: int = 0
    problem: Problem | None = None


def follow(walk: Walk, links: Iterable[Link]) -> Walk:
    """Go on over the next links, up to the first that does not fit."""
    for link in links:
        problem = _misfit(walk.head, link)
        if problem is not None:
            return msgspec.structs.replace(walk, problem=problem)
        if link.seq == 0:
            walk = Walk(link.head, link.entries)
        else:
            number = len(decisions_of(link) or ())
            walk = msgspec.structs.replace(walk, head=link.head, entries=walk.entries + number)
    return walk


def _misfit(before: Head, link: Link) -> Problem | None:
    expected = before.seq + 1
    if link.seq != expected:
        return Problem(expected, f"link {expected} is missing: the next one that is there is link {link.seq}")
    if link.hash != digest(link.seq, link.at, link.entries, link.previous):
        return Problem(expected, f"link {expected} was changed: its hash does not fit what it holds")
    if link.previous != before.hash:
        return Problem(expected, f"link {expected} does not follow the link before it")
    if decisions_of(link) is None:
        return Problem(expected, f"link {expected} holds no decisions")
    return None


def judge(walk: Walk, store: str | None, noted: Head) -> Problem | None:
    """Judge a chain that was followed to its end, by the store's own notes: its name, and its head."""
    if walk.problem is not None or walk.head == noted == UNBEGUN:
        return walk.problem
    if store is None or (walk.head.seq >= 0 and walk.begins != canonical([{"kind": "genesis", "store": store}])):
        return Problem(0, "the chain is another store's: its first link does not name this one")
    if walk.head.seq < noted.seq:
        return _cut(walk.head.seq, f"the store wrote link {noted.seq}")
    if walk.head != noted:
        return Problem(walk.head.seq, f"link {walk.head.seq} is not the head that the store wrote")
    return None


def compare(noted: Head, anchors: Iterable[Head], hashes: Mapping[int, str]) -> Problem | None:
    """Compare heads noted outside with the present links; return the first that differs."""
    for anchor in sorted(anchors):
        if anchor.seq > noted.seq:
            return _cut(noted.seq, f"link {anchor.seq} was noted outside")
        if hashes.get(anchor.seq) != anchor.hash:
            why = "what was noted outside is another chain" if anchor.seq == 0 else "another one was noted outside"
            return Problem(anchor.seq, f"link {anchor.seq} is not what it was: {why}")
    return None


def late_beginning(head: Head, begins: int | None, *, noted: bool) -> str | None:
    """Say what is unknown if heads are noted outside, but not from the beginning; None if nothing is.

    Someone who can write to the store could have rewritten the earlier links, and nothing outside would differ.
    """
    if not noted or head.seq < 1 or (begins is not None and begins <= 1):
        return None
    known = "nothing of it was noted outside" if begins is None else f"what was noted outside begins with link {begins}"
    return f"{known}, so that the {'' if begins is None else 'earlier '}links could have been written anew unseen"


def misfit(line: int, missing: tuple[int, int] | None) -> Problem:
    """Judge a line outside that is not a head."""
    if missing is None:
        return Problem(0, f"line {line} of what was noted outside was not written by this library: the file was edited")
    last, head = missing
    why = "lines were removed there, or could not be written"
    return Problem(
        last + 1,
        f"links {last + 1} to {head} were not noted outside in their time: {why}; "
        f"if you know why, take out line {line} there, 'cut {last} {head}'",
    )


def _cut(last: int, why: str) -> Problem:
    left = f"link {last} is the last here" if last >= 0 else "no link is left here"
    return Problem(last + 1, f"the end is cut off: {left}, and {why}")


def first(problems: Iterable[Problem | None]) -> Problem | None:
    """Return the problem that comes first in the chain."""
    return min((each for each in problems if each is not None), key=lambda each: each.seq, default=None)
