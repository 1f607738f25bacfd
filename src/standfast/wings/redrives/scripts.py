"""Scripts for redrives: plan and results are rows, so that any worker can continue where another one stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from standfast.lifecycle import Move, NoticeKind, Transition
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.approvals import scripts as approvals
from standfast.wings.approvals.scripts import ApprovalAnswer
from standfast.wings.approvals.words import Answer, ApprovalState, Filing
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision
from standfast.wings.redrives.words import Outcome, Phase, RedriveMember, RedriveOptions

KEEP_PLANS = 86400.0
"""Seconds after which an unused plan is deleted."""
KEEP_REDRIVES = 30 * 86400.0
FORGOTTEN_AT_ONCE = 20
"""The most plans and redrives that are deleted in one transaction."""
EVER = 9e99
RESTORED = "it came back from a backup"


class RedriveRow(NamedTuple):
    """A redrive's row in the store. Times are queue time."""

    id: str
    state: Phase
    wanted: str
    foreseen: str
    snapshot: str
    course: str
    asked_by: str | None
    reason: str | None
    approval: str | None
    note: str | None
    episode: int
    planned_at: float
    started_at: float | None
    ended_at: float | None
    next_at: float

    @property
    def options(self) -> RedriveOptions:
        """The options it was started with."""
        return msgspec.json.decode(self.course, type=RedriveOptions)


class PlanRow(NamedTuple):
    """One letter of a plan, as it was when planned."""

    place: int
    n: int
    token: int
    generation: int
    fate: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan to store."""

    id: str
    wanted: str
    foreseen: str
    snapshot: str
    letters: Sequence[PlanRow]


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A plan to carry out."""

    id: str
    options: RedriveOptions
    by: str
    reason: str | None
    snapshot: str
    filing: Filing | None = None


class Started(msgspec.Struct, frozen=True):
    """Whether this request started it, its present row, and which letters are not as they were planned."""

    first: bool
    row: RedriveRow | None
    drifted: list[tuple[str | None, str | None]] = []


class DriveRequest(msgspec.Struct, frozen=True):
    """A worker that wants to drive the next redrive after the id `after`, for so many seconds."""

    driver: str
    after: str
    seconds: float


class DrivenRedrive(msgspec.Struct, frozen=True):
    """A redrive to drive, with its letters under way: place, state and replay status of each."""

    row: RedriveRow
    released: list[tuple[int, str | None, str | None]]
    now: float


class MemberOutcome(msgspec.Struct, frozen=True):
    """What became of a letter of a redrive."""

    member: RedriveMember
    outcome: Outcome | None
    """None means under way."""
    source: Literal["waiting", "released"] = "waiting"
    """The state the letter must be in: if it was changed meanwhile, it stays as it is."""


class AdvanceRequest(msgspec.Struct, frozen=True):
    """A driver's request for the next letters of a redrive; from `next_at` on there may be more.

    With no letters and no time, it only says that the redrive is still being driven.
    """

    id: str
    driver: str
    number: int
    next_at: float | None
    seconds: float


class StateChange(msgspec.Struct, frozen=True):
    """A change of a redrive's state. `again` begins a new episode, which is judged by itself."""

    id: str
    source: Phase
    target: Phase
    decision: Decision
    note: str | None = None
    again: bool = False
    driver: str | None = None
    """The worker that decided it: it applies only while no other worker drives the redrive."""


@writes(size=lambda plan: len(plan.letters) + 1)
def plan(round_: Round, plans: Sequence[Plan]) -> Script[list[None]]:
    """Store plans, each with its letters."""
    rows = [(each.id, "planned", each.wanted, each.foreseen, each.snapshot, "{}", round_.now) for each in plans]
    yield "insert_redrives", rows
    letters = [(each.id, *letter) for each in plans for letter in each.letters]
    if letters:
        yield "insert_redriven", letters
    return [None] * len(plans)


@writes()
def start(round_: Round, starts: Sequence[Start]) -> Script[list[Started]]:
    """Start plans as they are, or return what drifted and start nothing."""
    answers: list[Started] = []
    for each in starts:
        answers += [(yield from _start(round_, each))]
    return answers


def _start(round_: Round, wanted: Start) -> Script[Started]:
    row = yield from _locked(wanted.id)
    if row is None or row.state != "planned":
        return Started(first=False, row=row)
    if (yield from _is_being_forgotten(wanted.id)):
        return Started(first=False, row=None)
    drifted = yield "drifted_letters", {"redrive": wanted.id}
    if drifted:
        return Started(first=False, row=row, drifted=[(job, state) for job, state in drifted])
    yield from _begin(round_, wanted)
    return Started(first=True, row=(yield from _locked(wanted.id)))


def _is_being_forgotten(plan: str) -> Script[bool]:
    """Return whether some letters of an old plan are deleted already; `prune` deletes the first ones first."""
    rows = yield "next_redriven", {"redrive": plan, "limit": 1}
    return bool(rows) and PlanRow(*rows[0]).place > 0


def _begin(round_: Round, wanted: Start) -> Script[None]:
    state = "running" if wanted.filing is None else "approval_pending"
    approval = wanted.filing and wanted.filing.id
    values = {"by": wanted.by, "reason": wanted.reason, "approval": approval, "now": round_.now}
    yield "start_redrive", {"id": wanted.id, "state": state, "course": text(wanted.options), **values}
    yield "end_denied", {"redrive": wanted.id, "now": round_.now}
    if wanted.filing is not None:
        yield from approvals.file_for_redrive(round_, wanted.filing)
    detail = {"redrive": wanted.id, **msgspec.to_builtins(wanted.options)}
    decision = Decision(
        kind="redrive",
        by=wanted.by,
        reason=wanted.reason,
        snapshot=wanted.snapshot,
        outcome="started" if wanted.filing is None else "approval_required",
        detail=detail,
    )
    _tell(round_, wanted.id, decision)


def _tell(round_: Round, redrive: str, decision: Decision) -> None:
    audit.record(round_, decision)
    round_.notices[NoticeKind(f"redrive_{decision.outcome}"), ""].append(redrive)


def _locked(redrive: str) -> Script[RedriveRow | None]:
    rows = yield "locked_redrive", {"id": redrive}
    return next((RedriveRow(*row) for row in rows), None)


@writes()
def take(round_: Round, takes: Sequence[DriveRequest]) -> Script[list[DrivenRedrive | None]]:
    """Give each worker the next redrive without another driver, and how its letters fare."""
    answers = []
    for each in takes:
        until = {"until": round_.now + each.seconds, "now": round_.now}
        rows = yield "take_redrive", {"driver": each.driver, "after": each.after, **until}
        found = [RedriveRow(*row) for row in rows]
        released = (yield "released_letters", {"redrive": found[0].id}) if found else []
        answers.append(DrivenRedrive(found[0], [(*row,) for row in released], round_.now) if found else None)
    return answers


@writes()
def mark(round_: Round, marks: Sequence[MemberOutcome]) -> Script[list[None]]:
    """Record what became of letters of redrives."""
    yield "mark_redriven", [_marked(round_, each) for each in marks]
    return [None] * len(marks)


def mark_moved(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Record, together with the transitions, that letters of redrives were replayed or resolved."""
    members = [(member, each.move) for each in moved if (member := each.rider(RedriveMember)) is not None]
    if members:
        marks = [MemberOutcome(member, Outcome.RESOLVED if move == Move.RESOLVE else None) for member, move in members]
        yield from mark(round_, marks)


def _marked(round_: Round, done: MemberOutcome) -> tuple[Any, ...]:
    state = "released" if done.outcome is None else "ended"
    return (done.member.redrive, done.member.place, state, done.outcome, done.member.episode, round_.now, done.source)


def stopped(transitions: Sequence[Transition]) -> Script[set[RedriveMember | None]]:
    """Return the members of redrives that are stopped or have another driver; keep the other redrives running."""
    members = {member for each in transitions if (member := each.rider(RedriveMember)) is not None}
    if not members:
        return set()
    driven: dict[str, str] = dict(
        (yield "driven_redrives", {"ids": text(sorted({member.redrive for member in members}))})
    )
    return {member for member in members if member.redrive not in driven or driven[member.redrive] != member.driver}


def of_stopped_redrives(transitions: Sequence[Transition]) -> Script[set[int]]:
    """Return the places of transitions whose redrive is stopped, or has another driver."""
    known = yield from stopped(transitions)
    return {place for place, each in enumerate(transitions) if each.rider(RedriveMember) in known}


@writes()
def advance(round_: Round, advances: Sequence[AdvanceRequest]) -> Script[list[list[PlanRow]]]:
    """Return the next letters for a driver, none if it is no longer the driver."""
    answers = []
    for each in advances:
        until = {"next_at": each.next_at, "until": round_.now + each.seconds}
        rows = yield "advance_redrive", {"id": each.id, "driver": each.driver, **until}
        wanted = {"redrive": each.id, "limit": each.number}
        letters = (yield "next_redriven", wanted) if rows and each.number else []
        answers.append([PlanRow(*row) for row in letters])
    return answers


@writes()
def change_state(round_: Round, steers: Sequence[StateChange]) -> Script[list[bool]]:
    """Change the states of redrives; return for each whether it was in the required state."""
    answers = []
    for each in steers:
        ends = each.target in ("finished", "cancelled")
        how = {"note": each.note, "again": int(each.again), "ends": ends, "now": round_.now, "driver": each.driver}
        rows = yield "steer_redrive", {"id": each.id, "source": each.source, "target": each.target, **how}
        if rows:
            _tell(round_, each.id, each.decision)
        if rows and each.target == "cancelled":
            yield from _void_approval(round_, each.id)
        answers.append(bool(rows))
    return answers


def _void_approval(round_: Round, redrive: str) -> Script[None]:
    """Void the approval of a redrive, if it is open."""
    if (yield "void_plans_approval", {"redrive": redrive, "why": "its redrive was cancelled"}):
        round_.notices[NoticeKind.APPROVAL_VOID, ""].append("")


@writes()
def withdraw(round_: Round, given: Sequence[ApprovalAnswer]) -> Script[list[bool]]:
    """Answer the approvals of redrives with a no, and end the redrives that waited for them."""
    answers = []
    for each in given:
        row = yield from _waiting_for(each.answer.id)
        [first] = yield from approvals.answer(round_, [each])
        if first and row is not None:
            yield from _go_on(round_, row, each.answer, "cancelled", f"its approval was {each.answer.target}")
        answers.append(first)
    return answers


@writes()
def carry_out(round_: Round, given: Sequence[ApprovalAnswer]) -> Script[list[bool]]:
    """Answer the approvals of redrives with a yes, and start the redrives that waited for them."""
    answers = []
    for each in given:
        row = yield from _waiting_for(each.answer.id)
        waits = row is not None and row.state == "approval_pending"
        [first] = (yield from approvals.answer(round_, [each])) if waits else [False]
        if first and row is not None:
            yield from _go_on(round_, row, each.answer, "running", None)
        elif not waits:
            why = f"its redrive is {'gone' if row is None else row.state}"
            void = Answer(each.answer.id, each.answer.source, ApprovalState.VOID, reason=why)
            yield from approvals.answer(round_, [ApprovalAnswer(void)])
        answers.append(first)
    return answers


def _waiting_for(approval: str) -> Script[RedriveRow | None]:
    """Read and lock the redrive that an approval is for."""
    found = yield from approvals.one(approval)
    return None if found is None or found.redrive is None else (yield from _locked(found.redrive))


def _go_on(round_: Round, row: RedriveRow, answer: Answer, target: Phase, note: str | None) -> Script[None]:
    """Change a redrive's state by the answer it waited for."""
    decision = Decision(
        kind="redrive",
        by=answer.by,
        reason=note,
        snapshot=row.snapshot,
        outcome="started" if target == "running" else target,
        detail={"redrive": row.id, "approval": answer.id},
    )
    yield from change_state(round_, [StateChange(row.id, "approval_pending", target, decision, note)])


def prune(now: float, limit: int) -> Script[bool]:
    """Delete unused plans, and redrives and approvals that ended long ago; return whether there may be more.

    A plan can have more letters than one transaction can delete in time. What is left of it starts nothing.
    """
    ended = {"ended_before": now - KEEP_REDRIVES}
    most = min(limit, FORGOTTEN_AT_ONCE)
    old = [id_ for (id_,) in (yield "old_redrives", {"plans_before": now - KEEP_PLANS, **ended, "limit": most})]
    room = limit
    for redrive in old:
        [(rows,)] = yield "delete_redriven", {"redrive": redrive, "limit": room}
        room -= rows
        if not room:
            break
    if old:
        yield "delete_redrives", {"ids": text(old)}
    [(approved,)] = yield "delete_approvals", {**ended, "limit": limit}
    return not room or len(old) == most or approved == limit


def pause_after_restore() -> Script[None]:
    """Pause the redrives of a restored store, and void its unused approvals: their replays may have happened since."""
    yield "pause_redrives", {"note": RESTORED}
    while letters := [each.n for each in (yield from approvals.due(now=-1.0, before=EVER)) if each.n is not None]:
        yield from approvals.void(letters, RESTORED)
