"""Scripts for approvals: filed with the transition that needs one, answered once, used with the one they allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.lifecycle import LETTERS, NoticeKind, State, Transition
from standfast.store.scripts import number_of, writes
from standfast.store.steps import Round, Script, lock_jobs, text
from standfast.wings.approvals.words import TOLD, Answer, Approval, ApprovalState, Bound, Filing
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision

BITE = 100
"""How many approvals one look handles."""
OVERTAKEN = "the letter went another way meanwhile"
REPLACED = "it was asked for anew"
STATUSES = {
    ApprovalState.DENIED: "denied",
    ApprovalState.EXPIRED: "pending_review",
    ApprovalState.VOID: "pending_review",
}
"""The replay status of a letter after an answer that does not replay it."""

_bound = msgspec.json.Decoder(Bound).decode
_names = msgspec.json.Decoder(list[str]).decode


class ApprovalRequest(msgspec.Struct, frozen=True):
    """An approval to file for a letter that is held under this token."""

    n: int
    token: int
    id: str
    queue: str
    filing: Filing


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """An answer to write by itself, before what it allows. `decision`, if any, is added to the audit chain with it."""

    answer: Answer
    decision: Decision | None = None


class PendingWork(NamedTuple):
    """Which kinds of work are pending: any worker can do them."""

    redrives: bool
    asks: bool
    approvals: bool
    replays: bool


# --- parts of other transactions


def stale(transitions: Sequence[Transition]) -> Script[set[str]]:
    """Return the approvals that are not in the state that a transition needs; lock the others until it is applied."""
    answers = (each.rider(Answer) for each in transitions)
    wanted = {answer.id: answer.source for answer in answers if answer is not None}
    if not wanted:
        return set()
    states: dict[str, str] = dict((yield "approval_standings", {"ids": text(sorted(wanted))}))
    return {approval for approval, source in wanted.items() if states.get(approval) != source}


def without_approval(transitions: Sequence[Transition]) -> Script[set[int]]:
    """Return the places of transitions whose approval is not in the state that they need."""
    known = yield from stale(transitions)
    answers = [each.rider(Answer) for each in transitions]
    return {place for place, answer in enumerate(answers) if answer is not None and answer.id in known}


def write_down(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Write what transitions do to approvals: they answer or use one, file one, or make others void."""
    for each in moved:
        answer = each.rider(Answer)
        if answer is not None:
            yield from _answer(round_, answer)
            round_.notices[TOLD[answer.target], each.queue].append(each.id)
            if answer.target in STATUSES:
                yield from _set_status([each.n], STATUSES[answer.target])
    left = [each.n for each in moved if each.source in LETTERS and each.target != State.HELD]
    if left:
        yield "void_approvals", {"numbers": text(left), "why": OVERTAKEN}
    for each in moved:
        filing = each.rider(Filing)
        if filing is not None:
            yield from file(round_, ApprovalRequest(each.n, each.token, each.id, each.queue, filing))


def void(numbers: Iterable[int], why: str) -> Script[None]:
    """Void the open approvals of these jobs, in this transaction: the letters that they were about have changed."""
    voided = [n for (n,) in (yield "void_approvals", {"numbers": text(list(numbers)), "why": why})]
    if voided:
        yield from _set_status(voided, STATUSES[ApprovalState.VOID])


def _set_status(numbers: list[int], status: str) -> Script[None]:
    yield "set_replay_status", {"numbers": text(numbers), "status": status, "groups": None, "approval": None}


def file(round_: Round, ask: ApprovalRequest) -> Script[str]:
    """File an approval for a held letter, unless the same one is open already; return the id of the open one."""
    for known, state, bound, expires_at, groups, people in (yield "open_approvals", {"numbers": text([ask.n])}):
        same = _bound(bound) == ask.filing.bound and set(_names(groups)) >= set(ask.filing.groups)
        if same and (state == ApprovalState.APPROVED or expires_at > round_.now):
            yield from _join(str(known), _names(people), ask.filing)
            return str(known)
        yield from void([ask.n], REPLACED)
    yield "file_approvals", [_row(round_, ask.n, ask.filing)]
    yield "set_replay_status", {"numbers": text([ask.n]), "status": "approval_pending", **_asked(ask.filing)}
    round_.notices[NoticeKind.APPROVAL_ASKED, ask.queue].append(ask.id)
    return ask.filing.id


def _asked(filing: Filing) -> dict[str, str]:
    return {"groups": text(filing.groups), "approval": filing.id}


def _join(known: str, people: list[str], filing: Filing) -> Script[None]:
    """Add a second requester of a pending approval to those who may not answer it."""
    asking = [each for each in (filing.asked_by, *filing.requesters) if each is not None and each not in people]
    if asking:
        yield "set_requesters", {"id": known, "requesters": text([*people, *asking])}


def file_for_redrive(round_: Round, filing: Filing) -> Script[None]:
    """File the one approval of a whole redrive."""
    yield "file_approvals", [_row(round_, None, filing)]
    round_.notices[NoticeKind.APPROVAL_ASKED, ""].append("")


def _row(round_: Round, n: int | None, filing: Filing) -> tuple[Any, ...]:
    people = (text(filing.requesters), text(filing.groups))
    head = (filing.id, n, filing.redrive, ApprovalState.PENDING, filing.asked_by, filing.reason)
    return (*head, *people, text(filing.bound), filing.rule, round_.now, round_.now + filing.ttl)


def _answer(round_: Round, answer: Answer) -> Script[bool]:
    rows = yield "answer_approval", {**msgspec.structs.asdict(answer), "now": round_.now}
    return bool(rows)


# --- transactions of their own


@writes(number=number_of)
def ask(round_: Round, asks: Sequence[ApprovalRequest]) -> Script[list[str | None]]:
    """File approvals for letters that are held already; return for each the id of the open approval, or None.

    None means that the letter is no longer held.
    """
    yield from lock_jobs(round_, (each.n for each in asks))
    [(states, *_)] = yield "standing_states", {"held": text([(each.n, each.token) for each in asks])}
    answers: list[str | None] = []
    for each, state in zip(asks, msgspec.json.decode(states), strict=True):
        answers.append((yield from file(round_, each)) if state == State.HELD else None)
    return answers


@writes()
def answer(round_: Round, given: Sequence[ApprovalAnswer]) -> Script[list[bool]]:
    """Write answers; return for each whether it was the first."""
    answers = []
    for each in given:
        first = yield from _answer(round_, each.answer)
        if first and each.decision is not None:
            audit.record(round_, each.decision)
            round_.notices[TOLD[each.answer.target], each.decision.queue or ""].append(each.decision.job or "")
        answers.append(first)
    return answers


# --- reading


def one(approval_id: str) -> Script[Approval | None]:
    """Read an approval, or None."""
    rows = yield "approval_by_id", {"id": approval_id}
    return next((_approval(row) for row in rows), None)


def list_approvals(state: str | None, queues: Sequence[str] | None, limit: int) -> Script[list[Approval]]:
    """Read approvals, the newest first; with queues, only those of letters of these queues, and of no redrive."""
    named = None if queues is None else text(list(queues))
    return [_approval(row) for row in (yield "list_approvals", {"state": state, "queues": named, "limit": limit})]


def open_for(number: int) -> Script[str | None]:
    """Read the id of a letter's open approval, or None."""
    rows = yield "open_approvals", {"numbers": text([number])}
    return rows[0][0] if rows else None


def due(now: float, before: float) -> Script[list[Approval]]:
    """Read approvals that were not answered in time, and those approved `before` a time but not used."""
    rows = yield "due_approvals", {"now": now, "before": before, "limit": BITE}
    return [_approval(row) for row in rows]


def pending_work(now: float, before: float) -> Script[PendingWork]:
    """Return whether a redrive runs, a job waits for consent, an approval is due, or an automatic replay is due."""
    [(redrives, asks, approvals, replays)] = yield "standing_business", {"now": now, "before": before}
    return PendingWork(bool(redrives), bool(asks), bool(approvals), bool(replays))


def _approval(row: Sequence[Any]) -> Approval:
    found = dict(zip(Approval.__struct_fields__, row, strict=True))
    for name in ("requesters", "groups", "bound"):
        found[name] = msgspec.json.decode(found[name])
    return msgspec.convert(found, Approval)
