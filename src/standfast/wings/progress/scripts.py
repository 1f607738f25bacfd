"""Writing down how far attempts are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from standfast.store.scripts import writes
from standfast.store.steps import Round, Script


class ProgressReport(NamedTuple):
    """What an attempt said last."""

    n: int
    token: int
    attempt: int
    fraction: float
    note: str | None


@writes()
def write_reports(round_: Round, reports: Sequence[ProgressReport]) -> Script[list[None]]:
    """Keep what attempts say, each as long as it has its job."""
    for each in reports:
        yield "write_progress", {**each._asdict(), "now": round_.now}
    return [None] * len(reports)
