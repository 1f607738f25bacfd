"""Who may do what: roles, what each allows, and the grant that a token gives. Nothing is read or stored here."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from enum import StrEnum
from typing import NamedTuple

import msgspec


class Role(StrEnum):
    """The purpose of a token."""

    VIEWER = "viewer"
    PRODUCER = "producer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"


class Right(StrEnum):
    """One thing that may be allowed."""

    READ = "read"
    READ_OWN = "read_own"
    READ_PAYLOADS = "read_payloads"
    ENQUEUE = "enqueue"
    OPERATE = "operate"
    APPROVE = "approve"
    ADMINISTER = "administer"


RIGHTS: dict[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.READ}),
    Role.PRODUCER: frozenset({Right.ENQUEUE, Right.READ_OWN}),
    Role.OPERATOR: frozenset({Right.ENQUEUE, Right.READ, Right.READ_OWN, Right.READ_PAYLOADS, Right.OPERATE}),
    Role.APPROVER: frozenset({Right.READ, Right.READ_PAYLOADS, Right.APPROVE}),
    Role.ADMIN: frozenset(Right),
}
"""What each role may do: SEMANTICS, "Roles"."""

PREFIX = "sft"
"""Prefix of a token, by which scanners for leaked secrets find it."""


class Reach(NamedTuple):
    """How much of a list a grant shows: which queues, whose jobs, and whether payloads are searched."""

    queues: tuple[str, ...] | None = None
    requester: str | None = None
    payloads: bool = True


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may do here, and as which person."""

    id: str
    name: str
    person: str
    role: Role
    groups: tuple[str, ...] = ()
    queues: tuple[str, ...] | None = None
    """The only queues it reaches; None for all of them."""
    sessions: tuple[str, ...] = ()
    """The sessions it was made for; without any, it works in one of its own."""
    host: bool = False
    """Whether an application that standfast is mounted into vouches for the person, without a token of ours."""
    payloads: bool = True
    """Whether payloads and results are shown at all, with their secrets removed."""

    @property
    def session(self) -> str:
        """The session it works in unless it names another of its own."""
        if self.sessions:
            return self.sessions[0]
        return f"person:{self.person}" if self.host else f"agent:{self.name}"

    @property
    def is_agent(self) -> bool:
        """Whether a program makes its requests: it is a producer, or a token made for sessions."""
        return self.role is Role.PRODUCER or bool(self.sessions)

    def works_in(self, session: str | None) -> bool:
        """Return whether a session is its own."""
        return session is not None and session in (self.sessions or (self.session,))

    def may(self, right: Right) -> bool:
        """Return whether it allows something."""
        return right in RIGHTS[self.role]

    def reaches(self, queue: str) -> bool:
        """Return whether it reaches a queue."""
        return self.queues is None or queue in self.queues

    def reach(self) -> Reach:
        """Return how much of a list it may see; without payloads, a search must not find their secrets."""
        own = not self.may(Right.READ)
        return Reach(self.queues, self.person if own else None, own or self.may(Right.READ_PAYLOADS))


class Minted(NamedTuple):
    """A new token: its name in the store, the text that is shown once, and the hash that is kept."""

    id: str
    text: str
    hash: str


def mint() -> Minted:
    """Make a token with 256 random bits."""
    name, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    return Minted(name, f"{PREFIX}_{name}_{secret}", fingerprint(secret))


def fingerprint(secret: str) -> str:
    """Return the hash to keep of a secret. It is 256 random bits, so one round of hashing hides it."""
    return hashlib.sha256(secret.encode()).hexdigest()


def read(text: str) -> tuple[str, str] | None:
    """Split a token into its name and its secret's fingerprint; None if it is not a token."""
    match text.strip().split("_", 2):
        case [begin, name, secret] if begin == PREFIX and name.isalnum() and name.isascii() and secret.isascii():
            return name, fingerprint(secret)
    return None


def same(one: str, other: str) -> bool:
    """Compare two fingerprints in constant time."""
    return hmac.compare_digest(one, other)
