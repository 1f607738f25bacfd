"""Scripts for schedules: recurring jobs, each tick enqueued once, by the first worker that gets to it.

A tick is planned outside the transaction: which ticks are due and which comes next is arithmetic. The transaction
locks the schedule's row, checks that the plan still fits, and writes the jobs, their ticks and the next run together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from standfast.job import NewJob, Receipt
from standfast.lifecycle import NoticeKind
from standfast.spine.intake import enqueue
from standfast.store.hints import TIMETABLE
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.threads import scripts as threads

BITE = 1000
"""How many due schedules are read at once."""
KEEP_TICKS = 7 * 86400.0
KEEP_ENDED = 30 * 86400.0
"""Seconds for which a one-time schedule stays in the list after it ended."""
MOST_SHOWN = 50
SOON = 60.0
"""A next run within this many seconds wakes the workers."""


class Schedule(NamedTuple):
    """A schedule as stored. `last_tick` is wall time."""

    name: str
    queue: str
    spec: str
    timing: str
    added_by: str
    anchor: float
    next_at: float | None
    next_wall: float | None
    paused: int
    last_tick: float | None
    last_job: str | None
    runs: int
    coalesced: int
    missed: int
    ended_at: float | None

    @property
    def following(self) -> float | None:
        """The next tick: queue time for an interval, wall time for the others."""
        return self.next_wall if self.next_at is None else self.next_at


class NextRun(NamedTuple):
    """When a schedule runs next, in queue time or in wall time; neither if it never does."""

    at: float | None = None
    wall: float | None = None

    def seconds(self, round_: Round) -> float | None:
        """Return how many seconds away that is."""
        if self.at is not None:
            return self.at - round_.now
        return None if self.wall is None else self.wall - round_.now - round_.skew


class ScheduleUpsert(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule to store; `following` counts only if its times are new."""

    name: str
    queue: str
    spec: str
    timing: str
    by: str
    anchor: float
    following: NextRun


Change = Literal["added", "changed", "unchanged"]


class PauseRequest(NamedTuple):
    """A schedule to pause, or to resume at `following`, as long as its times are still `timing`."""

    name: str
    timing: str
    paused: bool
    following: NextRun


Runs = list[tuple[float, NewJob]]
"""Ticks, each with its job."""


class TickDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about a schedule as it was read: which ticks run, each as a job, and which comes next."""

    seen: Schedule
    runs: tuple[tuple[float, NewJob], ...]
    following: NextRun
    wall_times: dict[float, float] = {}
    """The wall time to show for each tick that runs."""
    missed: int = 0


# --- adding, pausing, removing


@writes(separate=True)
def put(round_: Round, puts: Sequence[ScheduleUpsert]) -> Script[list[Change]]:
    """Store or change schedules. A schedule whose times did not change keeps its anchor, its pause and its next run."""
    answers: list[Change] = []
    yield from threads.lock(round_, [f"schedule:{each.name}" for each in puts])  # a new one has no row to lock
    for each in puts:
        known = yield from locked(each.name)
        if known is not None and known.spec == each.spec:
            answers.append("unchanged")
            continue
        answers.append("added" if known is None else "changed")
        yield from _write(round_, each, known)
    return answers


def _write(round_: Round, each: ScheduleUpsert, known: Schedule | None) -> Script[None]:
    kept = known if known is not None and known.timing == each.timing else None
    following = each.following if kept is None else NextRun(kept.next_at, kept.next_wall)
    row = {"name": each.name, "queue": each.queue, "spec": each.spec, "timing": each.timing, "by": each.by}
    yield (
        "write_schedule",
        {**row, "anchor": each.anchor if kept is None else kept.anchor, **stored(round_, following)},
    )
    if known is None:
        round_.notices[NoticeKind.SCHEDULE_ADDED, each.queue].append(each.name)
    else:
        round_.notices[NoticeKind.SCHEDULE_CHANGED, each.queue].append(each.name)
    hint(round_, following)


def stored(round_: Round, following: NextRun) -> dict[str, Any]:
    """Return the columns of a next run."""
    ended = following == NextRun()
    return {"next_at": following.at, "next_wall": following.wall, "ended_at": round_.now if ended else None}


def hint(round_: Round, following: NextRun) -> None:
    """Wake the workers if a run comes earlier than they may know."""
    seconds = following.seconds(round_)
    if seconds is not None and seconds < SOON:
        round_.note_work(TIMETABLE, seconds)


def locked(name: str) -> Script[Schedule | None]:
    """Read a schedule, and lock it until the round ends."""
    return next((Schedule(*row) for row in (yield "lock_schedule", {"name": name})), None)


@writes(separate=True)
def pause(round_: Round, pausings: Sequence[PauseRequest]) -> Script[list[bool | None]]:
    """Pause or resume schedules; answer None for an unknown one, False for one whose times have changed."""
    answers: list[bool | None] = []
    for name, timing, paused, following in pausings:
        known = yield from locked(name)
        answers.append(None if known is None else known.timing == timing)
        if known is not None and known.timing == timing:  # a person decided, whatever the code declares
            yield (
                ("mark_schedule_gone", {"name": name, "gone_at": None})
                if paused
                else (
                    "forget_declared_schedule",
                    {"name": name},
                )
            )
        if known is None or known.timing != timing or bool(known.paused) == paused:
            continue
        stays = known.ended_at is not None or paused
        then = NextRun(known.next_at, known.next_wall) if stays else following
        yield "pause_schedule", {"name": name, "paused": int(paused), **stored(round_, then)}
        round_.notices[NoticeKind.SCHEDULE_PAUSED if paused else NoticeKind.SCHEDULE_RESUMED, known.queue].append(name)
        if not paused:
            hint(round_, then)
    return answers


@writes(separate=True)
def remove(round_: Round, names: Sequence[str]) -> Script[list[bool]]:
    """Delete schedules; their ticks stay known, and their jobs continue. Answer False for an unknown one."""
    answers = []
    for name in names:
        known = yield from locked(name)
        if known is not None:
            yield "delete_schedule", {"name": name}
            yield "forget_declared_schedule", {"name": name}
            round_.notices[NoticeKind.SCHEDULE_REMOVED, known.queue].append(name)
        answers.append(known is not None)
    return answers


# --- ticking


@writes(
    room=ROOM_TO_ACCEPT, separate=True, newcomers=lambda tickings: (job for each in tickings for _, job in each.runs)
)
def tick(round_: Round, tickings: Sequence[TickDecision]) -> Script[list[bool]]:
    """Write the decisions about schedules that have not changed since; answer which decisions are done.

    A row that another worker has locked is left to that worker, and a schedule that changed is planned again.
    """
    names = text(sorted({each.seen.name for each in tickings}))
    rows = yield "lock_free_schedules", {"names": names}
    free = {row[0]: Schedule(*row) for row in rows}
    fitting = {each.seen.name: each for each in tickings if _fits(each.seen, free.get(each.seen.name))}
    fresh: dict[str, Runs] = {}
    for name, each in fitting.items():
        fresh[name] = yield from _unknown(each)
    receipts = yield from _enqueued(round_, [job for runs in fresh.values() for _, job in runs])
    for name, each in fitting.items():
        yield from _ticked(round_, each, fresh[name], receipts)
    done = {name for name, runs in fresh.items() if all(job.id in receipts for _, job in runs)}
    return [fitting.get(each.seen.name) is each and each.seen.name in done for each in tickings]


def _fits(seen: Schedule, now: Schedule | None) -> bool:
    """Return whether a schedule is as it was when its tick was planned."""
    if now is None or now.paused:
        return False
    return (seen.spec, seen.anchor, seen.following) == (now.spec, now.anchor, now.following)


def _unknown(ticking: TickDecision) -> Script[Runs]:
    """Leave out the ticks that already ran: the clock was set back, or the schedule was removed and added again."""
    if not ticking.runs:
        return []
    first, last = ticking.runs[0][0], ticking.runs[-1][0]
    ran = {tick for (tick,) in (yield "known_ticks", {"name": ticking.seen.name, "first": first, "last": last})}
    return [(tick, job) for tick, job in ticking.runs if tick not in ran]


def _enqueued(round_: Round, jobs: Sequence[NewJob]) -> Script[dict[str, Receipt]]:
    """Store the jobs; return the receipts of those that their queues had room for."""
    if not jobs:
        return {}
    answers = yield from enqueue(round_, jobs)
    return {job.id: answer for job, answer in zip(jobs, answers, strict=True) if isinstance(answer, Receipt)}


def _ticked(
    round_: Round, ticking: TickDecision, runs: Sequence[tuple[float, NewJob]], receipts: dict[str, Receipt]
) -> Script[None]:
    """Write the ticks that ran, and the next run. If a queue had no room, the rest is decided again later."""
    seen = ticking.seen
    ran = [(tick, receipts[job.id]) for tick, job in runs if job.id in receipts]
    if ran:
        yield "write_ticks", [(seen.name, tick, round_.now, receipt.id) for tick, receipt in ran]
    whole = len(ran) == len(runs)
    if not (ran or whole):
        return
    following = ticking.following if whole else NextRun(seen.next_at, seen.next_wall)
    missed = ticking.missed if whole else 0
    counts = {"runs": len(ran), "coalesced": sum(it.outcome == "coalesced" for _, it in ran), "missed": missed}
    last = {"last_tick": ticking.wall_times[ran[-1][0]] if ran else None, "last_job": ran[-1][1].id if ran else None}
    yield "move_schedule", {"name": seen.name, **stored(round_, following), **last, **counts}
    if missed:
        round_.notices[NoticeKind.SCHEDULE_MISSED, seen.queue].append(seen.name)
    if following == NextRun():
        round_.notices[NoticeKind.SCHEDULE_ENDED, seen.queue].append(seen.name)


# --- looking, and keeping order


def list_schedules() -> Script[list[Schedule]]:
    """Read all schedules, by name."""
    return [Schedule(*row) for row in (yield "schedule_rows", {})]


def one(name: str) -> Script[Schedule | None]:
    """Read one schedule."""
    return next((Schedule(*row) for row in (yield "schedule_row", {"name": name})), None)


def due(now: float, wall: float) -> Script[list[Schedule]]:
    """Read schedules whose time has come."""
    return [Schedule(*row) for row in (yield "due_schedules", {"now": now, "wall": wall, "limit": BITE})]


def until_next(now: float, wall: float) -> Script[float | None]:
    """Read how many seconds are left until the next run of any schedule; None if none runs again."""
    [(at, wall_at)] = yield "next_ticks", {}
    ahead = [each for each in (at and at - now, wall_at and wall_at - wall) if each is not None]
    return min(ahead, default=None)


def late(now: float, wall: float, after: float) -> Script[list[tuple[str, str, float, bool]]]:
    """Read the schedules that are overdue by more than `after` seconds, and those whose queue is paused."""
    rows = yield "late_schedules", {"now": now - after, "wall": wall - after, "limit": MOST_SHOWN}
    return [
        (name, queue, wall - wall_at if at is None else now - at, bool(paused))
        for name, queue, at, wall_at, paused in rows
    ]


def prune(now: float, limit: int) -> Script[None]:
    """Delete old ticks, and one-time schedules that ended long ago."""
    yield "delete_ticks", {"before": now - KEEP_TICKS, "limit": limit}
    yield "delete_ended_schedules", {"before": now - KEEP_ENDED}
