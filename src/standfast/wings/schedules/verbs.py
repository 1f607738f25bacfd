"""Schedules: jobs enqueued again and again, by whichever worker comes first. Call `add` at every start."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Unpack, get_args

import msgspec

from standfast.clock import Clock
from standfast.errors import ConfigurationError, UnknownSchedule
from standfast.job import Details, NewJob
from standfast.rules import seconds
from standfast.spine.accept import LATEST_MOMENT, LONGEST_SPAN, OPTIONS, Acceptor, checked_name, user
from standfast.store.store import Store
from standfast.typed.job_options import Duration, ScheduleOptions, When
from standfast.wings.queues.checks import Admission
from standfast.wings.records.view import shown_payload
from standfast.wings.schedules import scripts as schedules
from standfast.wings.schedules.rules import Missed, check_cron
from standfast.wings.schedules.scripts import NextRun, PauseRequest, Schedule, ScheduleUpsert
from standfast.wings.schedules.ticking import (
    OWN_LABELS,
    Spec,
    first_run,
    next_runs,
    options_of,
    run_after_pause,
    spec_of,
    zone_of,
)

log = logging.getLogger("standfast.queue")

SHORTEST_INTERVAL = 1.0
RUNS_SHOWN = 3
OWN_THREAD = "ticks"
"""Stands for the thread that a schedule's runs share, while their options are checked."""
REFUSED = {
    "first_seen_at": "each tick is new",
    "idempotency_key": "each tick is a separate job, and a key would let only the first one in",
    "delay": "say when with cron, every or at",
    "expires": "a moment would end every later tick; give the queue a max_age",
    "otherwise": "workers enqueue ticks, not this call",
    "tx": "a schedule is stored at once",
}
"""Options of `enqueue` that a schedule does not take, and why."""
TIMES = ("cron", "every", "at", "tz", "missed", "jitter", "overlap")
KNOWN = {"queue", "payload", *ScheduleOptions.__annotations__, *OPTIONS, *REFUSED}


class Schedules:
    """Verbs about schedules: `add`, `list`, `remove`, `pause`, `resume`."""

    def __init__(
        self,
        store: Store,
        ready: Callable[[], Awaitable[None]],
        acceptor: Acceptor,
        admission: Admission,
        clock: Clock,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ready = ready
        self._acceptor = acceptor
        self._admission = admission

    async def list(self) -> list[dict[str, Any]]:
        """Return every schedule with its times in plain words, its next runs, and its last one."""
        await self._ready()
        return [self._display(each) for each in await self._store.read(schedules.list_schedules())]

    async def add(
        self,
        name: str,
        queue: str,
        payload: Any = None,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        at: When | str | None = None,
        tz: str = "UTC",
        missed: Missed = "latest",
        jitter: Duration = 0,
        overlap: bool = False,
        by: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> dict[str, Any]:
        """Enqueue a job by the clock: give one of `cron`, `every` or `at`. Call it at every start.

        It is an upsert: a schedule that exists as you ask for it is left alone, with its next run and its pause. New
        times begin anew; any other change (a payload, a priority) holds from the next tick on. `cron` and `at` are wall
        time in `tz`; `every` counts from when it was added. `missed` says what happens after a time without workers:
        `latest` runs the last missed tick, `skip` none, `all` the last 100. `jitter` delays each tick by up to so many
        seconds. Ticks never run side by side, unless `overlap`. `by` is who asks, if not the operating system's user:
        the jobs are theirs, unless `requester` names another. The rest is as in `enqueue`.
        """
        when: dict[str, Any] = {"cron": cron, "every": every, "at": at, "tz": tz, "missed": missed, "jitter": jitter}
        return self._display(await self.put(name, queue, payload, overlap=overlap, by=by, **when, **options))

    async def put(self, name: str, queue: str, payload: Any = None, *, by: str | None = None, **asked: Any) -> Schedule:
        """Store what `add` is asked for, and return it as stored."""
        name, times, options = self.check_times(name, **asked)
        job = self._job(queue, payload, options)
        spec = _spec(job, options, **times)
        await self._admission.admit([job])
        await self._ready()
        known = await self._store.read(schedules.one(name))
        if known is None or known.spec != spec.text:
            known = await self._put(name, spec, checked_name("by", by or user()))
        self._admission.point_out([job])
        return known

    def check_times(
        self,
        name: str,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        at: When | str | None = None,
        tz: str = "UTC",
        missed: Missed = "latest",
        jitter: Duration = 0,
        overlap: bool = False,
        **options: Any,
    ) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """Check a schedule's name and times; return them as stored, and what is left: options of its jobs."""
        for each in options.keys() - KNOWN:
            raise ConfigurationError.unknown("option", each, (*TIMES, *ScheduleOptions.__annotations__))
        timing = self._timing(cron=cron, every=every, at=at, tz=tz)
        policy = _policy(missed=missed, jitter=jitter, overlap=overlap, options=options)
        return _checked_name(name), {**timing, **policy}, options

    async def _put(self, name: str, spec: Spec, by: str) -> Schedule:
        now, wall = self._store.times()
        following = first_run(spec, now, wall)
        put = ScheduleUpsert(
            name=name,
            queue=spec.queue,
            spec=spec.text,
            timing=spec.timing,
            by=by,
            anchor=now,
            following=following,
        )
        change = await self._store.write(schedules.put, put)
        if change == "added" and following == NextRun():
            log.warning("schedule %s is for a time that is past, and will not run: %s", name, spec.when)
        return await self._known_schedule(name)

    async def remove(self, name: str) -> None:
        """Remove a schedule; jobs that it has enqueued continue."""
        await self._ready()
        if not await self._store.write(schedules.remove, _checked_name(name)):
            raise UnknownSchedule.for_id(name)

    async def pause(self, name: str) -> None:
        """Enqueue nothing more until `resume`; the jobs it has enqueued continue."""
        await self._set(name, paused=True)

    async def resume(self, name: str) -> None:
        """Resume a paused schedule with its next regular tick; the ticks during the pause are left out."""
        await self._set(name, paused=False)

    async def _set(self, name: str, *, paused: bool) -> None:
        await self._ready()
        landed: bool | None = False
        while landed is False:  # its times changed between the read and the write
            known = await self._known_schedule(_checked_name(name))
            following = run_after_pause(spec_of(known.spec), known.anchor, *self._store.times())
            landed = await self._store.write(schedules.pause, PauseRequest(name, known.timing, paused, following))
        if landed is None:
            raise UnknownSchedule.for_id(name)

    async def _known_schedule(self, name: str) -> Schedule:
        known = await self._store.read(schedules.one(name))
        if known is None:
            raise UnknownSchedule.for_id(name)
        return known

    def _display(self, schedule: Schedule) -> dict[str, Any]:
        spec = spec_of(schedule.spec)
        zone = zone_of(spec.tz)
        times = {"at": spec.at, "last_tick": schedule.last_tick}
        moments = {name: value and datetime.fromtimestamp(round(value, 3), zone) for name, value in times.items()}
        return {
            "name": schedule.name,
            "when": spec.when,
            "queue": spec.queue,
            "handler": spec.handler,
            "payload": shown_payload(spec.handler, spec.payload),
            **{name: getattr(spec, name) for name in ("cron", "every", "tz", "missed", "jitter", "overlap")},
            **moments,
            "options": options_of(spec),
            "added_by": schedule.added_by,
            "paused": bool(schedule.paused),
            "done": schedule.ended_at is not None,
            "next_runs": next_runs(schedule, spec, self._store.skew(), RUNS_SHOWN),
            "last_job": schedule.last_job,
            "runs": schedule.runs,
            "coalesced": schedule.coalesced,
            "missed_runs": schedule.missed,
        }

    def _timing(self, *, cron: str | None, every: Duration | None, at: When | str | None, tz: str) -> dict[str, Any]:
        """Check the times that were asked for."""
        given = {"cron": cron, "every": every, "at": at}
        if sum(each is not None for each in given.values()) != 1:
            named = ", ".join(name for name, each in given.items() if each is not None) or "none of them"
            raise ConfigurationError(f"a schedule has one of cron, every and at, not {named}; nothing was written")
        zone = zone_of(tz)
        if cron is not None:
            if not isinstance(cron, str):
                raise ConfigurationError(f"cron must be text such as '0 9 * * 1-5', not {cron!r}")
            check_cron(cron, zone, self._clock.wall())
            return {"cron": " ".join(cron.split()), "tz": tz}
        if every is not None:
            return {"every": _span("every", every, SHORTEST_INTERVAL), "tz": tz}
        return {"at": _moment(at, tz), "tz": tz}

    def _job(self, queue: str, payload: Any, options: dict[str, Any]) -> NewJob:
        """Check the job to enqueue as `enqueue` does."""
        for name, why in REFUSED.items():
            if name in options:
                raise ConfigurationError(f"a schedule takes no {name}=: {why}; nothing was written")
        taken = [label for label in OWN_LABELS if label in (options.get("labels") or {})]
        if taken:
            raise ConfigurationError(f"the label {taken[0]!r} is the schedule's own, on every job; use another name")
        thread_key = options.get("thread_key") or OWN_THREAD
        [job] = self._acceptor.jobs(queue, (payload,), **{**options, "thread_key": thread_key})
        return job


def _policy(*, missed: str, jitter: Duration, overlap: bool, options: dict[str, Any]) -> dict[str, Any]:
    if missed not in get_args(Missed):
        raise ConfigurationError.unknown("missed", missed, get_args(Missed))
    if overlap and options.get("thread_key") is not None:
        raise ConfigurationError("thread_key= lets one job of it run at a time, and overlap=True several; give one")
    if overlap and options.get("coalesce") is not None:
        raise ConfigurationError("coalesce= folds runs that wait, and overlap=True lets none wait; give one")
    return {"missed": missed, "jitter": _span("jitter", jitter, 0.0), "overlap": bool(overlap)}


def _spec(job: NewJob, options: dict[str, Any], **rest: Any) -> Spec:
    """Build the specification. The requester is part of it only if named: processes run under many users."""
    details = msgspec.json.decode(job.details, type=Details)
    if options.get("requester") is None and options.get("session") is None:
        details = msgspec.structs.replace(details, requester=None)
    same = {name: getattr(job, name) for name in ("queue", "handler", "payload", "priority", "budget", "lease")}
    return Spec(**same, thread_key=options.get("thread_key"), details=msgspec.json.encode(details).decode(), **rest)


def _checked_name(name: object) -> str:
    """Check a name before the store is asked: the store cannot take every text."""
    return checked_name("a schedule's name", name)


def _span(what: str, value: Duration, least: float) -> float:
    span = value.total_seconds() if isinstance(value, timedelta) else seconds(value)
    if isinstance(span, bool) or not isinstance(span, int | float) or not least <= span < LONGEST_SPAN:
        raise ConfigurationError(
            f"{what} must be a length of time from {least:g} s, such as 900 or '15m', not {value!r}"
        )
    return float(span)


def _moment(value: When | str | None, tz: str) -> float:
    """Read a time. One without a zone is in `tz`; one that this zone skips is refused."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LATEST_MOMENT:
        return float(value)
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        parsed = None
    if not isinstance(parsed, datetime):
        raise ConfigurationError(f"at must be a time such as '2026-12-24T18:00', a datetime or seconds, not {value!r}")
    if parsed.utcoffset() is not None:
        return parsed.timestamp()
    moment = parsed.replace(tzinfo=zone_of(tz)).timestamp()
    if datetime.fromtimestamp(moment, zone_of(tz)).replace(tzinfo=None, fold=0) != parsed.replace(fold=0):
        raise ConfigurationError(f"{parsed.isoformat(sep=' ')} does not exist in {tz}: the clocks go forward past it")
    return moment
