"""Decisions that act, and the chain they are kept in: the hash of each link covers the link before it.

A link holds the decisions of one transaction as canonical JSON: keys in order, no spaces. Its hash is the SHA-256, in
hexadecimal, of five lines: the version of this form, the link's number, its time, the hash before it, and that JSON.
Link 0 names the store; its decisions begin with link 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from standfast.lifecycle import Carried

VERSION = "standfast audit 1"
NOTHING = "0" * 64
"""The hash before the first link."""

Kind = Literal[
    "replay",
    "auto_replay",
    "approve",
    "deny",
    "resolve",
    "amend",
    "discard",
    "quarantine",
    "purge",
    "evict",
    "export",
    "import",
    "policy",
    "settings",
    "tokens",
    "restore",
    "redrive",
    "grant",
    "revoke",
    "pause",
    "resume",
]
KINDS: tuple[str, ...] = get_args(Kind)


HISTORY_WORDS: dict[Kind, str] = {"amend": "amended", "quarantine": "quarantined"}


class Decision(Carried, frozen=True, kw_only=True, omit_defaults=True):
    """One decision that acts. A death, or what triage only recommends, is not one."""

    kind: Kind
    job: str | None = None
    queue: str | None = None
    by: str | None = None
    reason: str | None = None
    payload_sha256: str | None = None
    rule: str | None = None
    snapshot: str | None = None
    """The policy in force, by its hash."""
    outcome: str | None = None
    detail: dict[str, Any] | None = None
    """Details that only this kind has: a count, an approval, hashes before and after."""

    @property
    def history_word(self) -> str | None:
        """The history's word for the move of a held letter that was amended or quarantined."""
        return HISTORY_WORDS.get(self.kind)


class NotedDecision(Decision, frozen=True, kw_only=True, omit_defaults=True):
    """The first decision of a link, with the name of the file in which the link's head is to be noted."""

    noted_in: str


_entries = msgspec.json.Decoder(list[dict[str, Any]])


class NotedIn:
    """The name of the file in which a process notes the heads of its links; None if there is none, or not yet."""

    name: str | None = None


class Head(NamedTuple):
    """The end of a chain: its number and its hash."""

    seq: int
    hash: str


class Link(NamedTuple):
    """One transaction's decisions, as stored. Fields are in the order of the statement's columns."""

    seq: int
    at: str
    entries: str
    previous: str
    hash: str

    @property
    def head(self) -> Head:
        """The head of the chain if it ends here."""
        return Head(self.seq, self.hash)


def genesis(store: str, wall: float) -> Link:
    """Begin the chain of a store, which keeps this name for good."""
    return _link(0, wall, canonical([{"kind": "genesis", "store": store}]), NOTHING)


def following(head: Head, wall: float, decisions: Sequence[Decision]) -> Link:
    """Make the link after the head."""
    return _link(head.seq + 1, wall, canonical(decisions), head.hash)


def _link(seq: int, wall: float, entries: str, previous: str) -> Link:
    at = datetime.fromtimestamp(wall, UTC).isoformat(timespec="microseconds")
    return Link(seq, at, entries, previous, digest(seq, at, entries, previous))


def canonical(entries: Sequence[Any]) -> str:
    """Encode these entries canonically: encoding them again gives the same text."""
    return msgspec.json.encode(entries, order="sorted").decode()


def decisions_of(link: Link) -> list[dict[str, Any]] | None:
    """Read a link's decisions; None if this library did not write them."""
    try:
        return _entries.decode(link.entries)
    except msgspec.DecodeError:
        return None


def digest(seq: int, at: str, entries: str, previous: str) -> str:
    """Return the hash of a link."""
    return hashlib.sha256("\n".join((VERSION, str(seq), at, previous, entries)).encode()).hexdigest()
