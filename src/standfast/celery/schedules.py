"""When beat entries run, under Celery's names: `crontab(...)`, `schedule(...)`, seconds or a timedelta."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from standfast.celery.unmapped import missing_name
from standfast.errors import ConfigurationError

Field = str | int | Iterable[int | str]
Every = float | timedelta
SHORTEST = 1.0


class crontab:  # noqa: N801 - Celery's name
    """Minutes, hours and days as in a crontab; each takes text, a number, or several numbers."""

    def __init__(
        self,
        minute: Field = "*",
        hour: Field = "*",
        day_of_week: Field = "*",
        day_of_month: Field = "*",
        month_of_year: Field = "*",
        **unmapped: object,
    ) -> None:
        if unmapped:
            raise ConfigurationError(
                f"crontab({next(iter(unmapped))}=...) of Celery does not map to standfast: set app.conf.timezone, and "
                "leave the rest to the store's clock"
            )
        given = (minute, hour, day_of_month, month_of_year, day_of_week)
        self.cron = " ".join(_field(each) for each in given)
        if _field(day_of_week) != "*" and _field(day_of_month) != "*":
            raise ConfigurationError(
                f"crontab {self.cron!r} names days of the month and of the week: Celery runs it when both fit, cron "
                "and standfast when either does. Name one of them, and return early from the task on the other days"
            )

    def when(self, tz: str) -> dict[str, Any]:
        """Return it as options for `sf.schedules.add`."""
        return {"cron": self.cron, "tz": tz}

    def __repr__(self) -> str:
        return f"<crontab: {self.cron}>"


class schedule:  # noqa: N801 - Celery's name
    """Repeats after a number of seconds."""

    def __init__(self, run_every: Every, relative: bool = False) -> None:  # noqa: FBT001, FBT002 - Celery's signature
        if relative:
            raise ConfigurationError(
                "schedule(relative=True) does not map to standfast: write crontab(minute='*/15') for times of the clock"
            )
        self.every = _seconds(run_every)

    def when(self, tz: str) -> dict[str, Any]:
        """Return it as options for `sf.schedules.add`. An interval needs no time zone."""
        del tz
        return {"every": self.every}

    def __repr__(self) -> str:
        return f"<freq: {self.every} s>"


def as_schedule(given: object) -> crontab | schedule:
    """Read the `schedule` of a beat entry."""
    if isinstance(given, crontab | schedule):
        return given
    if isinstance(given, int | float | timedelta) and not isinstance(given, bool):
        return schedule(given)
    raise ConfigurationError(f"a schedule is a number of seconds, a timedelta or a crontab(...), not {given!r}")


def _seconds(run_every: Every) -> float:
    seconds = run_every.total_seconds() if isinstance(run_every, timedelta) else float(run_every)
    if seconds >= SHORTEST:
        return seconds
    raise ConfigurationError(f"a schedule runs at most once a second, not every {seconds:g} s: let the task loop")


def _field(given: Field) -> str:
    if isinstance(given, str | int):
        return str(given).replace(" ", "")
    return ",".join(str(each) for each in sorted(given, key=_in_order))


def _in_order(value: int | str) -> tuple[int, str]:
    return len(str(value)), str(value)


def __getattr__(name: str) -> Any:
    raise missing_name("celery.schedules", name)
