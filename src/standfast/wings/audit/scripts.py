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
from standfast.wings.audit.words import Decision, Head, Kind, Link, following, genesis

ACTS: dict[Move, Kind] = {Move.REPLAY: "replay", Move.RESOLVE: "resolve", Move.DISCARD: "discard"}
"""The moves that are always decisions; other moves are if their transition carries one."""
OUTCOMES: dict[Kind, str] = {"replay": "replayed", "resolve": "resolved", "discard": "discarded"}


class StoredHead(msgspec.Struct, frozen=True):
    """The chain's head as stored: whose chain it is, and how far it has come."""

    store: str
    head: Head


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


def write_link(round_: Round) -> Script[None]:
    """Write the transaction's decisions as one link. On PostgreSQL this locks the head: it must come last."""
    decisions = round_.state(Decisions).made
    if not decisions:
        return
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


def lag(after: int) -> Script[float]:
    """Read over how many seconds the links after a number were written."""
    noted = yield from peek()
    first = yield from links(after, 1)
    last = [] if noted is None else (yield from links(noted.head.seq - 1, 1))
    if not first or not last:
        return 0.0
    return (datetime.fromisoformat(last[0].at) - datetime.fromisoformat(first[0].at)).total_seconds()


def hashes(numbers: Sequence[int]) -> Script[dict[int, str]]:
    """Read the hashes of these links."""
    return dict((yield "link_hashes", {"numbers": text(list(numbers))}))


def peek() -> Script[StoredHead | None]:
    """Read the head without locking it."""
    rows = yield "peek_head", {}
    return next((StoredHead(store, Head(seq, hashed)) for store, seq, hashed in rows), None)
