"""The beat schedule, stored by whichever worker starts: there is no beat process to run, or to lose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from standfast.application import Standfast
from standfast.celery.schedules import as_schedule
from standfast.celery.task_arguments import written
from standfast.errors import ConfigurationError

LABEL = "beat"
"""The label of schedules from a beat schedule; its value is the app's name, so that two apps may share a store."""
KNOWN = ("task", "schedule", "args", "kwargs", "options")
OPTIONS = ("queue", "priority")


class Entry(NamedTuple):
    """One entry, as `sf.schedules.add` takes it."""

    name: str
    queue: str
    payload: dict[str, Any]
    options: dict[str, Any]


class Placed(Protocol):
    """Knows where a task goes."""

    def place(self, task: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the queue of a task, and its options for `enqueue`."""


def check(entries: Mapping[str, Any]) -> None:
    """Refuse entries that cannot be stored, when they are set."""
    for name, given in entries.items():
        unknown = [each for each in given if each not in KNOWN]
        if unknown or "task" not in given or "schedule" not in given:
            problem = f"has {unknown[0]!r}" if unknown else "needs a task and a schedule"
            raise ConfigurationError(f"beat entry {name!r} {problem}; known are {', '.join(KNOWN)}")
        unfit = [each for each in given.get("options") or () if each not in OPTIONS]
        if unfit:
            raise ConfigurationError(
                f"beat entry {name!r}: option {unfit[0]!r} does not map to a schedule; it takes queue and priority. "
                "A run that comes too late is folded into the next one, see the page Schedules (docs/schedules.md)"
            )
        as_schedule(given["schedule"])


def entry_of(app: Placed, main: str, tz: str, name: str, given: Mapping[str, Any]) -> Entry:
    """Read an entry of `beat_schedule`."""
    queue, placed = app.place(given["task"], given.get("options") or {})
    payload = {
        "args": written(list(given.get("args") or ()), f"an argument of beat entry {name}"),
        "kwargs": written(dict(given.get("kwargs") or {}), f"an argument of beat entry {name}"),
    }
    when = as_schedule(given["schedule"]).when(tz)
    return Entry(name, queue, payload, {**placed, **when, "labels": {LABEL: main}})


async def publish(sf: Standfast, main: str, entries: list[Entry]) -> None:
    """Write the entries to the store's schedules; remove those that the app no longer has."""
    for entry in entries:
        await sf.schedules.add(entry.name, entry.queue, entry.payload, **entry.options)
    names = {entry.name for entry in entries}
    for known in await sf.schedules.list():
        labels = known["options"].get("labels") or {}
        if labels.get(LABEL) == main and known["name"] not in names:
            await sf.schedules.remove(known["name"])
