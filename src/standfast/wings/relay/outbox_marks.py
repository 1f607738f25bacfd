"""What the store knows of the outboxes in other databases: when each was last relayed, and since when jobs wait there.

Only a process that declares an outbox can look into it. These marks are for all the others: `standfast health` without
the application, and a server. They are marks of `upkeep`, named by the path of the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from standfast.store.scripts import writes
from standfast.store.steps import Round, Script

OUTBOX = "outbox "
"""What the names of all these marks begin with."""
RELAYED = f"{OUTBOX}relayed "
"""Followed by the path of a database: the name of the mark for when its outbox was last relayed."""
WAITING = f"{OUTBOX}waiting "
"""Followed by the path: the name of the mark for when a job was first put there after that."""
KEPT = 30 * 86400.0
"""Seconds after which an outbox that nobody uses or relays any more is forgotten."""


class OutboxMark(NamedTuple):
    """Something that happened to an outbox, so many seconds ago."""

    name: str
    age: float


class KnownOutbox(NamedTuple):
    """What the store knows of one outbox, in queue time."""

    database: str
    relayed_at: float | None
    waiting_since: float | None
    """When a job was put there that no relay has looked for yet; its transaction may have been rolled back."""


@writes()
def mark(round_: Round, marks: Sequence[OutboxMark]) -> Script[list[None]]:
    """Write down what happened; of the jobs that wait, only the first one counts."""
    times: dict[str, float] = dict((yield "upkeep_times", {}))
    for name, age in sorted(marks):  # what was relayed comes before what waits
        at = round_.now - age
        if name.startswith(RELAYED) or _is_first(name.removeprefix(WAITING), at, times):
            times[name] = at
            yield "mark_upkeep", {"name": name, "now": at}
    return [None] * len(marks)


def _is_first(database: str, at: float, times: Mapping[str, float]) -> bool:
    """Return whether a job is the first one put into an outbox since that was relayed."""
    relayed, waiting = times.get(RELAYED + database, 0.0), times.get(WAITING + database)
    return at > relayed and (waiting is None or waiting <= relayed)


def known(times: Mapping[str, float]) -> list[KnownOutbox]:
    """Return what the marks of `upkeep` say of each outbox."""
    names = [name for name in times if name.startswith((RELAYED, WAITING))]
    return [_known(each, times) for each in sorted({name.split(" ", 2)[2] for name in names})]


def _known(database: str, times: Mapping[str, float]) -> KnownOutbox:
    relayed, waiting = times.get(RELAYED + database), times.get(WAITING + database)
    over = waiting is not None and relayed is not None and waiting <= relayed
    return KnownOutbox(database, relayed, None if over else waiting)


def any_known() -> Script[bool]:
    """Return whether this store ever had an outbox."""
    return bool(known(dict((yield "upkeep_times", {}))))
