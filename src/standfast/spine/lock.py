"""What a round locks before its first script touches a row: names, in one order for every transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from standfast.store.scripts import Write
from standfast.store.steps import Round, Script


def lock_round(round_: Round, calls: Iterable[tuple[Write[Any, Any], Sequence[Any]]]) -> Script[None]:
    """Lock the names that the scripts of a round need, and note the jobs that they will lock."""
    threaded = []
    names: list[str] = []
    for script, items in calls:
        if script.newcomers is not None:
            threaded += [job for job in script.newcomers(items) if job.thread_key is not None]
        if script.gates is not None:
            names += yield from script.gates(items)
        if script.number is not None:
            round_.jobs.update(map(script.number, items))
    if threaded or names:
        yield from round_.riders.names(round_, threaded, names)
