"""When does a schedule run? Times in, ticks out: arithmetic on seconds, without a clock.

Cron expressions and single times are wall time. Intervals count from their anchor in queue time, so that neither a
busy worker nor a change of the wall clock makes them drift.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo
from itertools import takewhile
from typing import Literal, NamedTuple

import msgspec

from standfast.errors import ConfigurationError
from standfast.wings.records.figures import span

Missed = Literal["latest", "skip", "all"]

GRACE = 60.0
"""How many seconds late the last tick may be and still count as on time."""
MOST_CAUGHT_UP = 100
"""How many missed ticks `all` makes up for: the most recent ones."""
MOST_COUNTED = 10_000
"""Up to this many missed ticks of a cron expression are counted one by one."""
OVERDUE_AFTER = 60.0
"""Seconds after which a run that did not happen is an issue."""
FIRST_WINDOW = 3600.0
APART = 0.001
"""Seconds between wall times that would otherwise repeat."""
FIELDS = "write five fields: minute, hour, day of the month, month, day of the week"


class Due(NamedTuple):
    """The ticks of a period: how many there are, and the last of them."""

    number: int
    last: list[float]


class Cron(msgspec.Struct, frozen=True):
    """A cron expression in a time zone, in wall time."""

    text: str
    zone: tzinfo

    def after(self, moment: float) -> float | None:
        """Return the first tick after a moment."""
        return next(self._from(moment), None)

    def due(self, first: float, now: float, most: int) -> Due:
        """Return the ticks from the first one up to now."""
        ticks = takewhile(lambda tick: tick <= now, self._from(first - 1))
        kept: deque[float] = deque(maxlen=most)
        count = 0
        for tick in ticks:
            kept.append(tick)
            count += 1
            if count == MOST_COUNTED:  # millions may be left: look only for the last ones
                return Due(count, self._latest(tick, now, most) or list(kept))
        return Due(count, list(kept)) if kept else Due(1, [first])  # the zone's rules changed since

    def _latest(self, start: float, now: float, most: int) -> list[float]:
        """Search back from now, over longer and longer periods, until there are enough ticks."""
        window = FIRST_WINDOW
        while True:
            begin = max(start, now - window)
            found = deque(takewhile(lambda tick: tick <= now, self._from(begin)), maxlen=most)
            if len(found) == most or begin == start:
                return list(found)
            window *= 2

    def _from(self, moment: float) -> Iterator[float]:
        """Yield the ticks after a moment. In the hour that comes twice, ticks before the moment are left out."""
        from cronsim import CronSim  # noqa: PLC0415 - only applications with schedules need it

        ticks = CronSim(self.text, datetime.fromtimestamp(moment, self.zone))
        return (tick for tick in (each.timestamp() for each in ticks) if tick > moment)


class Every(msgspec.Struct, frozen=True):
    """An interval, in the clock of its anchor. A tick is computed from its number: adding up would drift."""

    seconds: float
    anchor: float

    def after(self, moment: float) -> float:
        """Return the first tick after a moment; the anchor itself is not a tick."""
        return self._tick(max(1, self._number(moment) + 1))

    def due(self, first: float, now: float, most: int) -> Due:
        """Return the ticks from the first one up to now."""
        begin, end = self._number(first), self._number(now)
        return Due(end - begin + 1, [self._tick(n) for n in range(max(begin, end - most + 1), end + 1)])

    def _tick(self, number: int) -> float:
        return self.anchor + number * self.seconds

    def _number(self, moment: float) -> int:
        """Return the number of the last tick up to a moment; rounding may make the quotient off by one."""
        number = int((moment - self.anchor) // self.seconds)
        return next(n for n in (number + 1, number, number - 1) if self._tick(n) <= moment)


class Once(msgspec.Struct, frozen=True):
    """A single time, in wall time."""

    at: float

    def after(self, moment: float) -> float | None:
        """Return the time if it is still to come."""
        return self.at if self.at > moment else None

    def due(self, first: float, now: float, most: int) -> Due:
        """Return the time, which has come."""
        del first, now, most
        return Due(1, [self.at])


Times = Cron | Every | Once


class Plan(NamedTuple):
    """What to do about a schedule now: which ticks run, how many are missed for good, and which tick is next."""

    runs: list[float]
    missed: int
    following: float | None


def plan(times: Times, first: float, now: float, missed: Missed) -> Plan:
    """Decide about everything that is due, from the first tick that has not run yet.

    Of several due ticks, all but the last were missed; so was the last one if it is late by more than the grace.
    """
    due = times.due(first, now, MOST_CAUGHT_UP if missed == "all" else 1)
    on_time = now - due.last[-1] <= GRACE
    runs = due.last if missed != "skip" or on_time else []
    return Plan(runs, due.number - len(runs), times.after(max(now, due.last[-1])))


def wall_times(ticks: Iterable[float], to_wall: float, last: float | None) -> list[float]:
    """Return the wall times to show for ticks of an interval, each once and later than the last one shown.

    If the clock was set back, ticks continue and their wall times would repeat. They are then shown a millisecond apart
    until the clock has caught up.
    """
    walls: list[float] = []
    for tick in ticks:
        moment = round(tick + to_wall, 3)
        last = moment if last is None or moment > last else round(last + APART, 3)
        walls.append(last)
    return walls


def earlier_tick(times: Times, following: float | None, now: float) -> float | None:
    """Return the tick before the one the schedule waits for, if the clock was set back since; None if there is none.

    A tick that already ran is known by its time, and does not run again.
    """
    nearest = times.after(now)
    return nearest if nearest is not None and following is not None and nearest < following else None


def check_cron(text: str, zone: tzinfo, now: float) -> None:
    """Refuse a cron expression that cannot be read, or whose time never comes."""
    from cronsim import CronSimError  # noqa: PLC0415 - likewise

    try:
        following = Cron(text, zone).after(now)
    except (CronSimError, AssertionError, TypeError, ValueError) as error:
        problem = str(error)
        why = f"{problem[:1].lower()}{problem[1:]}" if isinstance(error, CronSimError) else "it is no cron expression"
        never = ", or a day that none of its months has" if why == "bad day-of-month" else ""
        raise ConfigurationError(f"cron={text!r} cannot be read: {why}{never}; {FIELDS}") from error
    if following is None:
        raise ConfigurationError(f"cron={text!r} never comes within 50 years; {FIELDS}")


def spread(name: str, tick: float, following: float | None, jitter: float) -> float:
    """Return the delay of a tick: from 0 to `jitter`, never up to the next tick, and the same in every process."""
    room = jitter if following is None else min(jitter, following - tick)
    drawn = hashlib.sha256(f"{name}\0{tick!r}".encode()).digest()[:7]
    return room * int.from_bytes(drawn) / (1 << 56)


class LateSchedule(NamedTuple):
    """A schedule whose run is `overdue` by so many seconds, or whose queue is paused."""

    name: str
    queue: str
    overdue: float
    queue_paused: bool


def issues_of_gone(rows: Iterable[tuple[str, str, float]]) -> Iterator[str]:
    """Word the schedules that are paused because no code declares them any more: name, module, for how many seconds."""
    for name, module, age in rows:
        yield (
            f"schedule {name}: it is gone from the code of {module}, and paused since {span(age)}; "
            "remove it, or resume it to keep it"
        )


def issues(found: Iterable[LateSchedule], *, workers: bool) -> Iterator[str]:
    """Word what is wrong with schedules."""
    why = (
        "though workers are alive: its queue may be full, else see their logs" if workers else "and no worker is alive"
    )
    for each in found:
        if each.overdue > OVERDUE_AFTER:
            yield f"schedule {each.name}: its run is {span(each.overdue)} overdue, {why}"
        if each.queue_paused:
            yield f"schedule {each.name}: its queue {each.queue} is paused"
