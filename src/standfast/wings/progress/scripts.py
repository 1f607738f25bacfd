"""Scripts that write the progress of attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from standfast.lifecycle import Carried, State, Transition
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script


class ProgressReport(NamedTuple):
    """An attempt's last report."""

    n: int
    token: int
    attempt: int
    fraction: float
    note: str | None


class LastReport(Carried, frozen=True):
    """An attempt's last report, carried by its end."""

    report: ProgressReport


@writes()
def write_reports(round_: Round, reports: Sequence[ProgressReport]) -> Script[list[None]]:
    """Write the reports of attempts, each only while its attempt runs and still has the job."""
    for each in reports:
        yield "write_progress", {**each._asdict(), "state": State.RUNNING, "now": round_.now}
    return [None] * len(reports)


def write_moves(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Write the last reports of attempts, with their ends."""
    for each in moved:
        if (last := each.rider(LastReport)) is not None:
            yield "write_progress", {**last.report._asdict(), "state": each.target, "now": round_.now}
