"""A child process of the crash kit: build, enqueue, work until everything is settled, report the outcome."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from standfast.application import Standfast
from standfast.lifecycle import State
from standfast.store.places import place as place_of
from standfast.testing.frozen_clock import LapsingClock
from standfast.testing.kill_steps import Steps, watch_commits, watch_handlers, watch_promises
from standfast.testing.kit import move
from standfast.testing.nursery import report, reported
from standfast.testing.scenario import load_scenario
from standfast.testing.verdict import VANISHED, Fate
from standfast.testing.world import World
from standfast.views import JobView
from standfast.worker.sweeper import Sweeper
from standfast.worker.upkeep import SweepRequest

log = logging.getLogger(__name__)

UNSETTLED = 3
"""The exit code of a child that ran out of patience."""
FIRST_PAUSE = 10.0
LONGEST_PAUSE = 30 * 86400.0
"""Seconds of store time that pass at once while nothing else can happen; anything that needs longer is not awaited."""
GRACE = 0.2
"""Seconds that handlers get to end when patience runs out."""
AT_ONCE = SweepRequest(every=1e9, patience=0.0)
"""No other process holds jobs: a worker that is late is gone."""


class Place:
    """The files of one run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.effects = directory / "effects"
        self.promised = directory / "promised"
        self.enqueued = directory / "enqueued"
        self.jobs = directory / "jobs"
        self.time = directory / "time"
        self.spool = directory / "spool"
        self.log = directory / "log"

    def steps(self, life: int) -> Path:
        """Return the file for the steps of one process of the run: number 0 is the one that is killed."""
        return self._directory / f"steps-{life}"


class CrashTask(msgspec.Struct, frozen=True):
    """The instructions for one process of a run."""

    scenario: str
    url: str
    receiver: str
    life: int
    """The number of this process in the run: 0 is the one that is killed."""
    fatal: str | None
    patience: float


def live(directory: str, task: dict[str, Any]) -> None:
    """Run a scenario from wherever the previous process ended; be killed at the fatal step."""
    life = Life(Place(Path(directory)), msgspec.convert(task, CrashTask))
    if not asyncio.run(life.live()):
        os._exit(UNSETTLED)


class Life:
    """One process of a run, from its start to its end."""

    def __init__(self, place: Place, task: CrashTask) -> None:
        _log_to(place.log)
        self._place = place
        self._order = task
        self._clock = LapsingClock(place.time)
        self._steps = Steps(place.steps(task.life), task.fatal)
        self._world = World(place.effects, task.receiver, self._steps)
        self._scenario = load_scenario(task.scenario)

    async def live(self) -> bool:
        """Build, enqueue, work and report; return whether everything is settled."""
        sf = self._scenario.build(self._world)
        move(sf, self._home())
        watch_handlers(sf, self._steps)
        watch_commits(sf, self._steps)
        watch_promises(sf, self._promised)
        async with sf:
            await self._work(sf)
            return await self._tell(sf)

    def _home(self) -> Standfast:
        """Return the run's own queue: the application's own spool and audit must not see the run."""
        os.environ["STANDFAST_SPOOL"] = str(self._place.spool)
        home = Standfast(self._order.url, clock=self._clock)
        home._store._place = place_of(self._order.url)  # noqa: SLF001 - drops the audit file that settings may name
        return home

    def _promised(self, job_id: str) -> None:
        report(self._place.promised, id=job_id)

    async def _work(self, sf: Standfast) -> None:
        if not self._place.enqueued.exists():
            await self._scenario.enqueue(sf, self._world)
            self._place.enqueued.touch()
        try:
            async with asyncio.timeout(self._order.patience):
                await _until_settled(sf, self._clock)
        except TimeoutError:
            log.warning("not everything was settled within %g s", self._order.patience)

    async def _tell(self, sf: Standfast) -> bool:
        """Record what the store says of each job, replacing the record of an earlier process."""
        fates = [self._fate(job) for job in await _jobs(sf)]
        unseen = {line["id"] for line in reported(self._place.promised)} - {fate.id for fate in fates}
        gone = [job_id for job_id in sorted(unseen) if await sf.status(job_id) is None]
        fates += [Fate(job_id, VANISHED, settled=True) for job_id in gone]
        self._place.jobs.write_bytes(msgspec.json.encode(fates))
        return all(fate.settled for fate in fates)

    def _fate(self, job: JobView) -> Fate:
        return Fate(
            job.id,
            job.state,
            settled=job.settled,
            expects=[(name, str(key)) for name, key in self._scenario.expects(job)],
            expected=self._scenario.ends(job),
            noted=sum(line.possible_duplicate for line in job.history),
            failure=_why(job),
        )


def _why(job: JobView) -> str:
    """Return why a job is not completed, as far as known."""
    if job.failure is None or job.state == State.COMPLETED:
        return ""
    return ": ".join(part for part in (job.failure.reason_code, job.failure.summary) if part)


def _log_to(path: Path) -> None:
    """Redirect a child's output, including a crash, to its run's log."""
    for stream in (1, 2):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), stream)
    logging.basicConfig(level=logging.WARNING, force=True)


async def _until_settled(sf: Standfast, clock: LapsingClock) -> None:
    """Run what is due; while nothing is, let time pass: backoffs end, and the leases of killed processes lapse."""
    sweeper = Sweeper(sf._store, AT_ONCE)  # noqa: SLF001 - the kit's business
    pause = FIRST_PAUSE
    while pause < LONGEST_PAUSE:
        ran = await sf.worker(grace=GRACE).run_due()
        left = [job for job in await _jobs(sf) if not job.settled]
        if not left:
            return
        pause = FIRST_PAUSE if ran else pause * 2
        clock.advance(_until_due(left, clock.wall()) or pause)
        await sweeper.sweep()


def _until_due(jobs: Sequence[JobView], now: float) -> float | None:
    """Return the seconds until the next of these jobs is due; None if unknown, because a lease must lapse first."""
    waits = [job.due_at.timestamp() - now for job in jobs if job.state == State.QUEUED]
    return min((wait for wait in waits if wait > 0), default=None)


async def _jobs(sf: Standfast) -> list[JobView]:
    found = await sf.jobs(limit=1000)
    jobs = list(found)
    while found.next_cursor is not None:
        found = await sf.jobs(limit=1000, cursor=found.next_cursor)
        jobs += found
    return jobs
