"""A schedule's times as a person says them: `every weekday at 09:00 Europe/Berlin`."""

from __future__ import annotations

import re

DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SHORT = {day[:3].upper(): str(number) for number, day in enumerate(DAYS[:7])}
GROUPS = {
    "*": "day",
    "1-5": "weekday",
    "1,2,3,4,5": "weekday",
    "0,6": "Saturday and Sunday",
    "6,7": "Saturday and Sunday",
}
UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_STEP = re.compile(r"\*/(\d+)")
_NUMBERS = re.compile(r"\d+(,\d+)*")


def interval(seconds: float) -> str:
    """Say an interval in the largest unit that divides it: `every 15 minutes`."""
    for size, unit in UNITS:
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            if unit == "day":  # a day of 23 or 25 hours does not move it
                return f"every {count * 24} hours"
            return f"every {unit}" if count == 1 else f"every {count} {unit}s"
    return f"every {seconds:g} seconds"


def cron(text: str, zone: str) -> str:
    """Say the usual expressions in words; return any other as it is."""
    words = _in_words(text.upper().split())
    return f"cron {text} {zone}" if words is None else words.replace("@zone", zone)


def _in_words(fields: list[str]) -> str | None:
    if len(fields) != len(("minute", "hour", "day", "month", "weekday")):
        return None
    minute, hour, day, month, weekday = fields
    if month != "*":
        return None
    if day == weekday == "*" and (often := _often(minute, hour)) is not None:
        return often
    if not minute.isdigit() or not _NUMBERS.fullmatch(hour):
        return None
    at = _join([f"{int(each):02}:{int(minute):02}" for each in hour.split(",")])
    which = _which(day, weekday)
    return None if which is None else f"{which} at {at} @zone"


def _which(day: str, weekday: str) -> str | None:
    if day.isdigit() and weekday == "*":
        return f"on day {int(day)} of every month"
    days = _weekdays(weekday) if day == "*" else None
    return None if days is None else f"every {days}"


def _often(minute: str, hour: str) -> str | None:
    """Say a time that comes at least daily at even intervals; None for others: */7 is uneven around the full hour."""
    if hour == "*":
        if minute == "*":
            return "every minute"
        if minute.isdigit():
            return f"every hour at minute {int(minute)}"
        return _stepped(minute, 60, "minutes")
    return None if not minute.isdigit() else _stepped(hour, 24, "hours", f" at minute {int(minute)} @zone")


def _stepped(field: str, size: int, unit: str, rest: str = "") -> str | None:
    step = _STEP.fullmatch(field)
    count = int(step[1]) if step else 0
    return f"every {count} {unit}{rest}" if count > 1 and size % count == 0 else None


def _weekdays(field: str) -> str | None:
    for short, number in SHORT.items():
        field = field.replace(short, number)
    if field in GROUPS:
        return GROUPS[field]
    if not _NUMBERS.fullmatch(field):
        return None
    numbers = [int(each) for each in field.split(",")]
    return _join([DAYS[each] for each in numbers]) if max(numbers) < len(DAYS) else None


def _join(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
