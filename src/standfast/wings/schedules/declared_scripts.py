"""Scripts for schedules that an application's code declares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from standfast.lifecycle import NoticeKind
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.schedules.scripts import NextRun, hint, locked, stored


class DeclaredRow(NamedTuple):
    """A schedule that code declares or declared. Fields are in the order of the statement's columns."""

    name: str
    module: str
    queues: str
    declared_at: float
    gone_at: float | None


class DeclaredUpsert(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that this process declares; `following` is its next run, if it was paused as gone from the code."""

    name: str
    module: str
    queues: str
    following: NextRun


def declared_rows() -> Script[list[DeclaredRow]]:
    """Read every schedule that code declares or has declared."""
    return [DeclaredRow(*row) for row in (yield "declared_schedules", {})]


def gone(now: float) -> Script[list[tuple[str, str, float]]]:
    """Read the schedules that are paused because they are gone from the code: name, module, for how many seconds."""
    rows = yield from declared_rows()
    return [(each.name, each.module, now - each.gone_at) for each in rows if each.gone_at is not None]


@writes(separate=True)
def declare(round_: Round, declared: Sequence[DeclaredUpsert]) -> Script[list[None]]:
    """Record that code declares these schedules. A schedule that was paused as gone from the code is resumed."""
    for each in sorted(declared, key=lambda each: each.name):
        schedule = yield from locked(each.name)
        row = yield from _locked_row(each.name)
        yield (
            "declare_schedule",
            {"name": each.name, "module": each.module, "queues": each.queues, "now": round_.now},
        )
        if schedule is not None and row is not None and row.gone_at is not None and schedule.paused:
            yield "pause_schedule", {"name": each.name, "paused": 0, **stored(round_, each.following)}
            round_.notices[NoticeKind.SCHEDULE_RESUMED, schedule.queue].append(each.name)
            hint(round_, each.following)
    return [None] * len(declared)


@writes(separate=True)
def renew(round_: Round, batches: Sequence[Sequence[str]]) -> Script[list[None]]:
    """Record that a live process still declares these schedules."""
    for names in batches:
        yield "renew_declared_schedules", {"names": text(sorted(names)), "now": round_.now}
    return [None] * len(batches)


class GoneRequest(NamedTuple):
    """A schedule that no code declares, unless a process has declared it since `silent_since`."""

    name: str
    silent_since: float


@writes(separate=True)
def pause_gone(round_: Round, requests: Sequence[GoneRequest]) -> Script[list[bool]]:
    """Pause schedules that are gone from the code; answer which. What a person has paused is left as it is."""
    answers = []
    for name, silent_since in sorted(requests):
        schedule = yield from locked(name)
        row = yield from _locked_row(name)
        gone = row is not None and row.gone_at is None and row.declared_at <= silent_since
        goes = gone and schedule is not None and not schedule.paused and schedule.ended_at is None
        if gone and schedule is None:
            yield "forget_declared_schedule", {"name": name}
        if goes and schedule is not None:
            following = NextRun(schedule.next_at, schedule.next_wall)
            yield "pause_schedule", {"name": name, "paused": 1, **stored(round_, following)}
            yield "mark_schedule_gone", {"name": name, "gone_at": round_.now}
            round_.notices[NoticeKind.SCHEDULE_PAUSED, schedule.queue].append(name)
        answers.append(goes)
    return answers


def _locked_row(name: str) -> Script[DeclaredRow | None]:
    return next((DeclaredRow(*row) for row in (yield "lock_declared_schedule", {"name": name})), None)
