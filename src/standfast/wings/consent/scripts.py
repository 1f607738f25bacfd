"""Scripts for consent: given, revoked, spent by one job, and the jobs that are held until it is given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.job import Risk
from standfast.lifecycle import Move, NoticeKind, State, Transition
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision
from standfast.wings.consent.rules import REQUIRED
from standfast.wings.consent.words import Attempt, Grant, Ruling, Use, ruling

BITE = 200
"""How many held jobs are read at once."""
FIELDS = Grant.__struct_fields__


class ConsentRequest(NamedTuple):
    """A job that is held for consent. Fields are in the statement's order; `state` and `token` are the job's."""

    n: int
    job: str
    session: str
    queue: str
    handler: str
    first: int
    asked_at: float
    id: str
    token: int
    state: str
    gate: str | None
    details: str
    risk: Risk | None
    """The handler's risk; the caller's is in `details`."""

    @property
    def attempt(self) -> Attempt:
        """The attempt that asked, in the form in which it would ask again."""
        return Attempt(self.session, self.queue, self.handler, self.job, bool(self.first))


class Place(NamedTuple):
    """The place of a request among those that wait, the oldest first."""

    asked_at: float
    n: int


START = Place(-math.inf, 0)
"""The place before the oldest request."""


class Answered(NamedTuple):
    """A batch of requests that have their answer now, and where the next batch begins; None if this was the last."""

    found: list[tuple[ConsentRequest, Ruling]]
    end: Place | None


class GrantRequest(msgspec.Struct, frozen=True):
    """An answer for a session, and the decision that is chained with it."""

    grant: Grant
    decision: Decision
    job: str | None = None
    """The one job that it is for: it has its use at once, and no other job can take it."""


class RevokeRequest(msgspec.Struct, frozen=True):
    """The answers of a session to revoke: for one handler, or all if none is named."""

    session: str
    queue: str | None
    handler: str | None
    decision: Decision


# --- parts of other transactions


def write_down(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """File the requests of jobs that are held for consent, with the move; drop those of jobs that move on."""
    concerned = [each for each in moved if each.move is Move.HOLD or each.source is State.HELD]
    left = [each.n for each in concerned if each.source == State.HELD]
    if left:
        yield "drop_asks", {"numbers": text(left)}
    held = [each for each in concerned if each.target == State.HELD and _wants_consent(each)]
    if held:
        yield "file_asks", {"numbers": text([each.n for each in held]), "now": round_.now}
        for each in held:
            round_.notices[NoticeKind.CONSENT_ASKED, each.queue].append(each.id)
    released = [each for each in concerned if each.move == Move.RELEASE]
    if released:
        yield from _let_go(round_, released)


def _let_go(round_: Round, released: Sequence[Transition]) -> Script[None]:
    """Start a new round for jobs that got their answer, and spend the use of the consent that releases each."""
    numbers = text([each.n for each in released])
    yield "set_replay_status", {"numbers": numbers, "status": "none", "groups": None, "approval": None}
    yield "open_round", {"numbers": numbers, "now": round_.now}
    for use in sorted(use for each in released if (use := each.rider(Use)) is not None):
        yield from _spend(round_, use)


def _spend(round_: Round, use: Use) -> Script[None]:
    """Spend a use of a grant for a job. If none is left any more, the job asks again before it is entered."""
    if (yield "count_consent", {"id": use.grant}):
        yield "spend_consent", {"id": use.grant, "job": use.job, "now": round_.now}


def _wants_consent(moved: Transition) -> bool:
    return moved.failure is not None and moved.failure.reason_code == REQUIRED


# --- transactions of their own


@writes()
def enter(round_: Round, attempts: Sequence[Attempt]) -> Script[list[Ruling]]:
    """Judge attempts by the grants of their sessions, and spend what each needs: no use is ever spent twice."""
    found: dict[Attempt, Ruling] = {}
    for each in sorted(attempts, key=lambda attempt: attempt.session):
        ruling = yield from _ruling(round_.now, each, "lock_consents")
        if ruling.spends and ruling.grant is not None:
            yield from _spend(round_, Use(ruling.grant, each.job))
        found[each] = ruling
    return [found[each] for each in attempts]


def _ruling(now: float, attempt: Attempt, statement: str) -> Script[Ruling]:
    rows = yield statement, {"session": attempt.session, "now": now}
    grants = [_grant(row) for row in rows]
    spent = yield "consents_used", {"ids": text([each.id for each in grants]), "job": attempt.job}
    return ruling(attempt, grants, [each for (each,) in spent], now)


@writes()
def give(round_: Round, given: Sequence[GrantRequest]) -> Script[list[None]]:
    """Store answers for sessions, each with its decision."""
    rows = [tuple(getattr(each.grant, name) for name in FIELDS) for each in given]
    yield "give_consents", sorted(rows)
    for each in given:
        if each.job is not None:
            yield "spend_consent", {"id": each.grant.id, "job": each.job, "now": round_.now}
        audit.record(round_, each.decision)
        kind = NoticeKind.CONSENT_DENIED if each.grant.mode == "deny" else NoticeKind.CONSENT_GIVEN
        round_.notices[kind, ""].append("")
    return [None] * len(given)


@writes()
def take_back(round_: Round, takings: Sequence[RevokeRequest]) -> Script[list[int]]:
    """Revoke answers; return for each request how many that was."""
    answers = []
    for each in takings:
        given = {"session": each.session, "queue": each.queue, "handler": each.handler, "now": round_.now}
        rows = yield "revoke_consents", given
        if rows:
            detail = {**(each.decision.detail or {}), "grants": [found for (found,) in rows]}
            audit.record(round_, msgspec.structs.replace(each.decision, detail=detail))
            round_.notices[NoticeKind.CONSENT_REVOKED, ""].append("")
        answers.append(len(rows))
    return answers


# --- reading


def judge(attempt: Attempt, now: float) -> Script[Ruling]:
    """Judge an attempt by the grants; nothing is spent."""
    return (yield from _ruling(now, attempt, "consents_of"))


def list_grants(session: str | None, now: float, limit: int) -> Script[list[Grant]]:
    """Read the answers in force, of one session or of all."""
    rows = yield "list_consents", {"session": session, "now": now, "limit": limit}
    return [_grant(row) for row in rows]


def asks(session: str | None, limit: int = BITE) -> Script[list[ConsentRequest]]:
    """Read the jobs that are held for consent, the oldest first."""
    return [ConsentRequest(*row) for row in (yield "list_asks", {"session": session, "limit": limit})]


def asks_by_queue(since: float) -> Script[dict[str, tuple[int, int]]]:
    """Count the jobs of each queue that wait for consent, and those of them that began to wait after a moment."""
    rows = yield "asks_by_queue", {"since": since}
    return {queue: (number, lately) for queue, number, lately in rows}


def ask_of(job_id: str) -> Script[ConsentRequest | None]:
    """Read the request of a job, if it waits for consent."""
    rows = yield "ask_of", {"id": job_id}
    return ConsentRequest(*rows[0]) if rows else None


def asks_consent(queue: str, handler: str) -> Script[bool]:
    """Return whether a handler is entered only for sessions that consented."""
    return bool((yield "asks_consent", {"queue": queue, "handler": handler}))


def answered_requests(now: float, after: Place) -> Script[Answered]:
    """Read the next held jobs that have an answer now, with the answer; each use is counted once.

    `answered_asks` reads only requests that `ruling` can answer; a test checks that the two agree.
    """
    found: list[tuple[ConsentRequest, Ruling]] = []
    spent: dict[str, int] = {}
    asks = [ConsentRequest(*row) for row in (yield "answered_asks", {"now": now, "limit": BITE, **after._asdict()})]
    for ask in asks:
        ruling = yield from _ruling(now, ask.attempt, "consents_of")
        if ruling.spends and ruling.grant is not None:
            left = yield "uses_left", {"id": ruling.grant}
            spent[ruling.grant] = spent.get(ruling.grant, 0) + 1
            if not left or left[0][0] < spent[ruling.grant]:
                continue
        if ruling.verdict != "ask":
            found.append((ask, ruling))
    return Answered(found, Place(asks[-1].asked_at, asks[-1].n) if len(asks) == BITE else None)


def prune(now: float, limit: int) -> Script[None]:
    """Delete what is no longer in force."""
    yield "delete_consent_uses", {"before": now, "limit": limit}
    yield "delete_consents", {"before": now, "limit": limit}


def _grant(row: Sequence[Any]) -> Grant:
    return Grant(**dict(zip(FIELDS, row, strict=True)))
