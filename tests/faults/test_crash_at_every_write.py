"""A crash is a SIGKILL of a child at a counted write, judged by a file the product does not write."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path

import pytest

from tests.faults import roles
from tests.faults.nursery import nursery, reported
from tests.faults.verdict import read


class Told:
    """What the child had reported when it was killed."""

    def __init__(self, path: Path) -> None:
        self.offered: set[str] = set()
        self.accepted: set[str] = set()
        self.ending: set[str] = set()
        self.claimed: dict[str, int] = {}
        self.ended: dict[str, str] = {}
        for line in reported(path):
            for what, ids in line.items():
                getattr(self, what).update(ids)


@pytest.mark.timeout(0)
def test_a_process_killed_at_any_write_loses_nothing_it_was_told(place):
    with nursery() as children:
        for n in itertools.count(1):
            directory = place / str(n)
            directory.mkdir()
            status = children.spawn(roles.live_and_die, directory, n).wait()
            assert status in (0, -signal.SIGKILL)
            check(directory)
            if status == 0:
                break
    assert n > 250, "the scenario is shorter than it was"


def check(directory: Path) -> None:
    """Hold the file against what was told."""
    told = Told(directory / "told")
    jobs, flaws = read(directory / "queue.db")
    assert flaws == [], directory
    assert told.accepted <= set(jobs) <= told.offered
    assert {id_: jobs[id_].state for id_ in told.ended} == told.ended
    assert {job.id for job in jobs.values() if job.state in ("completed", "dead")} <= told.ending
    assert all(jobs[id_].token >= token for id_, token in told.claimed.items()), "an attempt that was not counted"
