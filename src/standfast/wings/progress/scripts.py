"""Writing down how far attempts are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from standfast.lifecycle import Carried, State, Transition
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script


class ProgressReport(NamedTuple):
    """What an attempt said last."""

    n: int
    token: int
    attempt: int
    fraction: float
    note: str | None


class LastReport(Carried, frozen=True):
    """What an attempt said last, as its end carries it."""

    report: ProgressReport


@writes()
def write_reports(round_: Round, reports: Sequence[ProgressReport]) -> Script[list[None]]:
    """Keep what attempts say, each as long as it runs and has its job."""
    for each in reports:
        yield "write_progress", {**each._asdict(), "state": State.RUNNING, "now": round_.now}
    return [None] * len(reports)


def write_moves(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Keep what attempts said last, with their ends."""
    for each in moved:
        if (last := each.rider(LastReport)) is not None:
            yield "write_progress", {**last.report._asdict(), "state": each.target, "now": round_.now}
