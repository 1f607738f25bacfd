"""A dependency that does not answer: its wording, and the verb that tries it at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.limits import scripts as ours
from standfast.wings.limits import words as gates
from standfast.wings.records.figures import span
from standfast.wings.threads import scripts as threads

LOOKED_AT = 1000
"""How many of the jobs that wait for it are read to find the queues whose workers are woken."""


class Outage(msgspec.Struct, frozen=True):
    """A dependency of jobs that has not answered since a moment."""

    dependency: str
    since: datetime
    next_try: float | None
    """Seconds until a job tries it again; None while one does."""

    def __str__(self) -> str:
        """Return the text for people."""
        soon = "it is being tried now" if not self.next_try else f"next try in {span(self.next_try)}"
        return f"{self.dependency} has not answered since {clock(self.since)}; {soon}"


def clock(at: datetime) -> str:
    """Return the time of day, with the date if it was not today."""
    at = at.astimezone(UTC)
    today = at.date() == datetime.now(UTC).date()
    return f"{at:%H:%M} UTC" if today else f"{at:%Y-%m-%d %H:%M} UTC"


def dependency_of(key: str) -> str:
    """Return the dependency that the breaker with this key guards."""
    return key.partition(":")[2]


def breaker_words(gate: dict[str, Any]) -> str:
    """Describe a breaker by the dependency it guards; `gate` is as `stats` shows it."""
    name = dependency_of(gate["key"])
    match gate["state"]:
        case "closed":
            return f"{name} answers"
        case "recovering":
            return f"{name} answers again"
        case state:
            wait = gate["opens_in"] if state == "open" else None
            return str(Outage(name, datetime.fromisoformat(gate["since"]), wait))


@writes()
def try_now(round_: Round, dependencies: Sequence[str]) -> Script[list[bool]]:
    """Let the first job that waits for a dependency try it at once; return whether any job was held back."""
    keys = [gates.of_dependency(each) for each in dependencies]
    yield from threads.lock(round_, keys)
    known = yield from ours.read_gates(keys)
    shut = {key: row for key, row in known.items() if gates.blocks(row)}
    waiting = {key: row for key, row in shut.items() if gates.circuit(row).state == "open"}
    if waiting:
        lines = [(key, LOOKED_AT, 0) for key in sorted(waiting)]
        for _, _, queue in (yield "next_in_line", {"lines": text(lines), "most": LOOKED_AT}):
            round_.note_work(queue, 0.0)
        yield from ours.write_gates(row._replace(opens_at=round_.now) for row in waiting.values())
    return [key in shut for key in keys]
