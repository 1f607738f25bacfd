"""The last minutes as a line: what this process saw once a second while a page was open. It is stored nowhere."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import deque
from typing import Any

import msgspec

from standfast.application import Standfast
from standfast.errors import StandfastError
from standfast.lifecycle import NoticeKind

EVERY = 1.0
KEPT = 600
"""How many samples are kept: ten minutes."""
UNSEEN = 600.0
"""Seconds after the last look at the page when sampling stops."""
SHARE = 20
"""The pause after a sample, as a multiple of the time the sample took: with very many jobs, samples are rarer."""
LATENCY_EVERY = 5
LATENCY_OF = 50
"""How many completed jobs are read for their latency."""
RATES = {
    "enqueued": NoticeKind.ENQUEUED,
    "completed": NoticeKind.COMPLETED,
    "retried": NoticeKind.RETRY,
    "dead": NoticeKind.DEAD_LETTER,
}
"""What is drawn per second, and the counter whose growth it is."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The queue at one moment. Rates are per second since the sample before."""

    at: float
    due: int
    running: int
    letters: int
    enqueued: float = 0.0
    completed: float = 0.0
    retried: float = 0.0
    dead: float = 0.0
    median: float | None = None
    slowest: float | None = None
    """Seconds from arrival to completion: the median and the 95th percentile of the last jobs that completed."""


class Series:
    """Samples the counters while a page is open."""

    def __init__(self, sf: Standfast) -> None:
        self._sf = sf
        self._samples: deque[Sample] = deque(maxlen=KEPT)
        self._counters: tuple[float, dict[str, int]] | None = None
        self._latency: tuple[float, float] | None = None
        self._looked_at = 0.0
        self._sampling: asyncio.Task[None] | None = None

    def look(self) -> list[Sample]:
        """Return the samples, and go on sampling for a while."""
        self._looked_at = time.monotonic()
        if self._sampling is None or self._sampling.done():
            self._samples.clear()  # a line across a time without samples would be invented
            self._counters = None
            self._sampling = asyncio.get_running_loop().create_task(self._sample())
        return list(self._samples)

    async def close(self) -> None:
        """Stop sampling."""
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)

    async def _sample(self) -> None:
        turn = 0
        while time.monotonic() - self._looked_at < UNSEEN:
            began = time.monotonic()
            try:
                if turn % LATENCY_EVERY == 0:
                    self._latency = await self._measured()
                self._add(await self._sf.stats())
            except StandfastError:  # the store is away: the line has a gap there
                self._counters = None
            turn += 1
            await asyncio.sleep(max(EVERY, SHARE * (time.monotonic() - began)))

    def _add(self, stats: dict[str, Any]) -> None:
        now, counters = time.monotonic(), stats["counters"]
        rates = {} if self._counters is None else growth(self._counters, (now, counters))
        median, slowest = self._latency or (None, None)
        self._counters = (now, counters)
        self._samples.append(
            Sample(
                at=round(time.time(), 1),
                due=stats["total_pending"],
                running=stats["total_processing"],
                letters=stats["total_dead_letter"],
                median=median,
                slowest=slowest,
                **rates,
            )
        )

    async def _measured(self) -> tuple[float, float] | None:
        jobs = await self._sf.jobs(state="completed", limit=LATENCY_OF)
        return percentiles([(job.finished_at - job.created_at).total_seconds() for job in jobs if job.finished_at])


def growth(before: tuple[float, dict[str, int]], now: tuple[float, dict[str, int]]) -> dict[str, float]:
    """Return how much each counter grew per second; a counter that started anew did not shrink."""
    passed = max(now[0] - before[0], 1e-3)
    grown = {name: now[1].get(kind, 0) - before[1].get(kind, 0) for name, kind in RATES.items()}
    return {name: round(max(0, number) / passed, 2) for name, number in grown.items()}


def percentiles(seconds: list[float]) -> tuple[float, float] | None:
    """Return the median and the 95th percentile."""
    if not seconds:
        return None
    ordered = sorted(max(0.0, each) for each in seconds)
    return round(statistics.median(ordered), 4), round(ordered[int(0.95 * (len(ordered) - 1))], 4)


def columns(samples: list[Sample]) -> dict[str, list[Any]]:
    """Return samples as a chart needs them: a list for each line."""
    names = Sample.__struct_fields__
    return {name: [getattr(each, name) for each in samples] for name in names}
