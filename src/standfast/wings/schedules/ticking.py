"""From a schedule's specification to what runs: its times, and the job of each tick."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.job import Details, NewJob
from standfast.spine.accept import DETAILS
from standfast.spine.ids import IDS, Ids
from standfast.wings.schedules import wording as words
from standfast.wings.schedules.rules import (
    GRACE,
    Cron,
    Every,
    Missed,
    Once,
    Times,
    earlier_tick,
    plan,
    spread,
    wall_times,
)
from standfast.wings.schedules.scripts import NextRun, Schedule, TickDecision
from standfast.wings.threads.scripts import EVERY_TICK, TICKS

OWN_LABELS = ("schedule", "tick", "missed")
"""Labels of a tick's job: its schedule, the time it is for, and how many ticks before it never ran."""

_details = msgspec.json.Decoder(Details).decode
_text = msgspec.json.Encoder().encode


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked for; equal ones have equal text. The user who adds it is stored separately, unless named in it."""

    queue: str
    handler: str
    payload: str
    details: str
    cron: str | None = None
    every: float | None = None
    at: float | None = None
    tz: str = "UTC"
    missed: Missed = "latest"
    jitter: float = 0.0
    overlap: bool = False
    priority: int | None = None
    budget: int | None = None
    lease: float | None = None
    thread_key: str | None = None

    @property
    def text(self) -> str:
        """The text that is stored and compared."""
        return _text(self).decode()

    @property
    def timing(self) -> str:
        """The part about times: a schedule starts anew only if this changes."""
        zone = {"tz": self.tz} if self.cron is not None else {}
        return _text({"cron": self.cron, "every": self.every, "at": self.at, **zone}).decode()

    @property
    def when(self) -> str:
        """Say the times in plain words."""
        if self.cron is not None:
            return words.cron(self.cron, self.tz)
        if self.every is not None:
            return words.interval(self.every)
        return f"once at {datetime.fromtimestamp(self.at or 0.0, zone_of(self.tz)):%Y-%m-%d %H:%M:%S} {self.tz}"

    def times(self, anchor: float) -> Times:
        """Return the times to compute with; only intervals have an anchor."""
        if self.cron is not None:
            return Cron(self.cron, zone_of(self.tz))
        return Once(self.at or 0.0) if self.every is None else Every(self.every, anchor)


spec_of = msgspec.json.Decoder(Spec).decode


def zone_of(name: object) -> tzinfo:
    """Find a time zone by its name; UTC needs no data."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones  # noqa: PLC0415 - slow, and rarely needed

    try:
        return ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = available_timezones()
        if not known:
            raise ConfigurationError(
                f"tz={name!r} cannot be looked up: this machine has no time zone data; pip install tzdata"
            ) from error
        if str(name) in known:
            raise ConfigurationError(f"the data of time zone {name!r} cannot be read here: {error}") from error
        from difflib import get_close_matches  # noqa: PLC0415 - only for a name that is wrong

        near = get_close_matches(str(name), known, n=1)
        suggestion = f" (did you mean {near[0]!r}?)" if near else ""
        raise ConfigurationError(
            f"no time zone is called {name!r}{suggestion}; write for example Europe/Berlin"
        ) from error


def first_run(spec: Spec, now: float, wall: float) -> NextRun:
    """Return when a schedule that is added or resumed now first runs. A time that is long past never does."""
    if spec.at is not None:
        return NextRun(wall=spec.at) if spec.at > wall - GRACE else NextRun()
    return _next(spec, spec.times(now).after(wall if spec.every is None else now))


def run_after_pause(spec: Spec, anchor: float, now: float, wall: float) -> NextRun:
    """Return when a paused schedule runs next: runs during the pause are skipped; intervals keep their rhythm."""
    return first_run(spec, now, wall) if spec.every is None else _next(spec, spec.times(anchor).after(now))


def _next(spec: Spec, tick: float | None) -> NextRun:
    return NextRun(wall=tick) if spec.every is None else NextRun(at=tick)


def decide_tick(schedule: Schedule, now: float, wall: float, ids: Ids = IDS) -> TickDecision:
    """Decide about a schedule whose time has come."""
    spec = spec_of(schedule.spec)
    times, clock = spec.times(schedule.anchor), wall if spec.every is None else now
    decided = plan(times, schedule.following or clock, clock, spec.missed)
    to_wall = wall - clock
    walls = decided.runs if spec.every is None else wall_times(decided.runs, to_wall, schedule.last_tick)
    jobs = []
    for place, tick in enumerate(decided.runs):
        late = spread(schedule.name, tick, times.after(tick), spec.jitter)
        start = tick + to_wall + late if late else None
        missed = 0 if place else decided.missed
        jobs.append((tick, _job(schedule, spec, walls[place], ids.mint(wall), start=start, missed=missed)))
    return TickDecision(
        seen=schedule,
        runs=tuple(jobs),
        following=_next(spec, decided.following),
        wall_times=dict(zip(decided.runs, walls, strict=True)),
        missed=decided.missed,
    )


def set_back(schedule: Schedule, now: float, wall: float, *, within: float = 0.0) -> TickDecision | None:
    """Make a schedule wait for an earlier tick than it does, if the clock was set back within so many seconds."""
    spec = spec_of(schedule.spec)
    clock = wall if spec.every is None else now
    earlier = earlier_tick(spec.times(schedule.anchor), schedule.following, clock - within)
    return None if earlier is None else TickDecision(seen=schedule, runs=(), following=_next(spec, earlier))


def _job(schedule: Schedule, spec: Spec, tick: float, job_id: str, *, start: float | None, missed: int) -> NewJob:
    """Build the job of one tick; it starts at once, or late by its jitter."""
    spec_details = _details(spec.details)
    labels = {**(spec_details.labels or {}), "schedule": schedule.name, "tick": _isoformat(tick)}
    details = msgspec.structs.replace(
        spec_details,
        labels={**labels, "missed": str(missed)} if missed else labels,
        requester=spec_details.requester or schedule.added_by,
        queue_reason="scheduled_job",
        newest_counts=spec.thread_key is None,
    )
    return NewJob(
        id=job_id,
        queue=spec.queue,
        handler=spec.handler,
        payload=spec.payload,
        details=_text(details).decode(),
        priority=spec.priority,
        at=start,
        budget=spec.budget,
        lease=spec.lease,
        thread_key=_thread(schedule.name, spec),
    )


def _thread(name: str, spec: Spec) -> str | None:
    """Name the thread that keeps a schedule's ticks apart. One that makes up for every missed run keeps every job."""
    if spec.overlap or spec.thread_key is not None:
        return spec.thread_key
    return f"{EVERY_TICK if spec.missed == 'all' else TICKS}{name}"


def _isoformat(moment: float) -> str:
    """Format a moment as a label: seconds, and a fraction only if there is one."""
    moment_ = datetime.fromtimestamp(round(moment, 3), UTC)
    return moment_.isoformat(timespec="milliseconds" if moment_.microsecond else "seconds").replace("+00:00", "Z")


def next_runs(schedule: Schedule, spec: Spec, skew: float, number: int) -> Sequence[datetime]:
    """Return the next runs in the schedule's own zone; none while it is paused."""
    found: list[datetime] = []
    tick, times = schedule.following, spec.times(schedule.anchor)
    zone, to_wall = zone_of(spec.tz), 0.0 if spec.every is None else skew
    while tick is not None and not schedule.paused and len(found) < number:
        found.append(datetime.fromtimestamp(round(tick + to_wall, 3), zone))
        tick = times.after(tick)
    return found


def options_of(spec: Spec) -> dict[str, Any]:
    """Return the job options that were asked for, under the names of `enqueue`."""
    details = _details(spec.details)
    given = {"priority": spec.priority, "attempts": spec.budget, "lease": spec.lease, "thread_key": spec.thread_key}
    options = {name: getattr(details, name) for name in DETAILS}
    return {name: value for name, value in (given | options).items() if value is not None}
