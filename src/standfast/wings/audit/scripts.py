"""Scripts for the audit chain: a transaction's decisions become one link, in that transaction or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from standfast.lifecycle import AskedBy, Move, Transition
from standfast.printable import printable
from standfast.redact import redacted, redacted_text
from standfast.store.scripts import writes
from standfast.store.steps import Round, RoundState, Script, text
from standfast.wings.audit.words import Decision, Head, Kind, Link, NotedDecision, NotedIn, following, genesis

ACTS: dict[Move, Kind] = {Move.REPLAY: "replay", Move.RESOLVE: "resolve", Move.DISCARD: "discard"}
"""The moves that are always decisions; other moves are if their transition carries one."""
OUTCOMES: dict[Kind, str] = {"replay": "replayed", "resolve": "resolved", "discard": "discarded"}


class StoredHead(msgspec.Struct, frozen=True):
    """The chain's head as stored: whose chain it is, and how far it has come."""

    store: str
    head: Head


class MissingLinks(msgspec.Struct, frozen=True):
    """Links that a file has no lines for: the first and the last, and over how many seconds they were written."""

    first: int
    last: int
    seconds: float


class Decisions(RoundState):
    """The decisions to chain with a transaction."""

    def __init__(self) -> None:
        self.made: list[Decision] = []

    def absorb(self, other: Decisions) -> None:
        """Add the decisions of a part of the round."""
        self.made += other.made


def record(round_: Round, decision: Decision) -> None:
    """Chain a decision with this transaction. Secrets and control characters are removed first."""
    round_.state(Decisions).made.append(_safe(decision))


def record_moves(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Chain those of the moves that a person or a policy decided."""
    yield from ()
    for each in moved:
        if each.move in ACTS or each.rider(Decision) is not None:
            record(round_, _decision(each))


def _decision(moved: Transition) -> Decision:
    """Fill in what the move knows about its own decision."""
    decision = moved.rider(Decision) or Decision(kind=ACTS[moved.move], outcome=OUTCOMES[ACTS[moved.move]])
    asked = moved.rider(AskedBy) or AskedBy()
    by, reason = decision.by or asked.by, decision.reason or asked.reason
    return msgspec.structs.replace(decision, job=moved.id, queue=moved.queue, by=by, reason=reason)


def _safe(decision: Decision) -> Decision:
    by, reason = (said and printable(redacted_text(said)) for said in (decision.by, decision.reason))
    return msgspec.structs.replace(decision, by=by, reason=reason, detail=redacted(decision.detail))


@writes()
def note(round_: Round, decisions: Sequence[Decision]) -> Script[list[None]]:
    """Chain decisions that change nothing else in the store."""
    yield from ()
    for decision in decisions:
        record(round_, decision)
    return [None] * len(decisions)


def write_link(round_: Round, noted_in: NotedIn | None = None) -> Script[None]:
    """Write the transaction's decisions as one link. On PostgreSQL this locks the head: it must come last."""
    decisions = round_.state(Decisions).made
    if not decisions:
        return
    if noted_in is not None and noted_in.name is not None:
        first = msgspec.structs.asdict(decisions[0])
        decisions = [NotedDecision(**first, noted_in=noted_in.name), *decisions[1:]]
    wall = round_.now + round_.skew
    noted = yield from head()
    if noted is None:
        yield "begin_chain", {}
        noted = yield from head()
    if noted is None:
        raise LookupError("the chain cannot be begun")
    links = [genesis(noted.store, wall)] if noted.head.seq < 0 else []
    links.append(following(links[0].head if links else noted.head, wall, decisions))
    yield "write_links", links
    round_.audit_links = [link.head for link in links]
    yield "move_head", round_.audit_links[-1]._asdict()


def head() -> Script[StoredHead | None]:
    """Read the chain's head, and in a transaction that writes, lock it; None before the first decision."""
    rows = yield "chain_head", {}
    return next((StoredHead(store, Head(seq, hashed)) for store, seq, hashed in rows), None)


def links(after: int, limit: int, job: str | None = None, kind: str | None = None) -> Script[list[Link]]:
    """Read links after a number; with `job` or `kind`, only those whose text contains it."""
    about = {"job": text(job) if job is not None else "", "kind": f'"kind":{text(kind)}' if kind is not None else ""}
    rows = yield "read_links", {"after": after, "limit": limit, **about}
    return [Link(*row) for row in rows]


def links_to_note(after: int, file: str | None) -> Script[MissingLinks | None]:
    """Read which links after a number are to be noted in this file; without a name, all of them count."""
    named = "" if file is None else f'"noted_in":{text(file)}'
    [(first, last, begun, ended)] = yield "links_to_note", {"after": after, "file": named}
    if first is None:
        return None
    seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(begun)).total_seconds()
    return MissingLinks(first, last, seconds)


def hashes(numbers: Sequence[int]) -> Script[dict[int, str]]:
    """Read the hashes of these links."""
    return dict((yield "link_hashes", {"numbers": text(list(numbers))}))


def peek() -> Script[StoredHead | None]:
    """Read the head without locking it."""
    rows = yield "peek_head", {}
    return next((StoredHead(store, Head(seq, hashed)) for store, seq, hashed in rows), None)
