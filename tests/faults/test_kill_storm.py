"""A kill -9 storm over producers and workers, judged by files that the product does not write."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.faults import roles
from tests.faults.nursery import Child, Nursery, nursery, reported, until_none_is_left
from tests.faults.verdict import Found, beside, read

LETHAL = {"poison", "vanish"}
LEFT = "SELECT count(*) FROM job WHERE state NOT IN ('completed', 'dead')"


class Storm:
    """Producers and workers that are killed at random and replaced at once."""

    def __init__(self, children: Nursery, place: Path, lethal: float) -> None:
        """Let this share of the jobs kill their workers."""
        self._children = children
        self._place = place
        self._rng = random.Random()  # noqa: S311 - chance, not secrecy
        self._alive: dict[str, Child] = {}
        self._start: dict[str, Callable[[], Child]] = {
            **{
                f"producer-{n}": partial(children.spawn, roles.produce, place, f"producer-{n}", lethal)
                for n in range(2)
            },
            **{f"worker-{n}": partial(children.spawn, roles.work, place) for n in range(3)},
        }
        self.kills = 0

    def blow(self, kills: int) -> None:
        """Kill somebody, again and again, until there was enough work too for the kills to mean something."""
        while self.kills < kills or not self._worked_enough():
            self._replace_the_dead()
            time.sleep(self._rng.random() * 0.15)
            self._alive[self._rng.choice(list(self._alive))].send(signal.SIGKILL)
            self.kills += 1

    def _worked_enough(self) -> bool:
        accepted = reported(self._place / "accepted")
        return len(accepted) > 5 * self.kills and sum(line["mode"] in LETHAL for line in accepted) > 2

    def calm_down(self) -> None:
        """Produce no more, and let the workers finish, replacing those that their jobs kill."""
        for name in [name for name in self._start if name.startswith("producer")]:
            del self._start[name]
            self._alive.pop(name).kill()
        until_none_is_left(self._left)
        for child in self._alive.values():
            child.kill()

    def _left(self) -> int:
        self._replace_the_dead()
        with beside(self._place / "queue.db") as connection:
            [(left,)] = connection.execute(LEFT)
        return int(left)

    def _replace_the_dead(self) -> None:
        for name, start in self._start.items():
            if name not in self._alive or self._alive[name].has_ended():
                self._alive[name] = start()


@pytest.mark.timeout(0)
def test_a_kill_storm_loses_nothing_and_hides_nothing(place, soak):
    with nursery() as children:
        storm = Storm(children, place, lethal=0.002 if soak else 0.03)
        storm.blow(3_000 if soak else 40)
        storm.calm_down()
    jobs, flaws = read(place / "queue.db")
    assert flaws == []
    found = judge(jobs, place)
    assert found.pop("accepted") > 200
    assert found.pop("lethal") > 2
    assert found == {}


def judge(jobs: dict[str, Found], place: Path) -> Counter[str]:
    """Count what there was, and whatever must not be."""
    modes = {line["key"]: line["mode"] for line in reported(place / "offered")}
    accepted = {line["key"]: line["id"] for line in reported(place / "accepted")}
    effects = reported(place / "effects")
    effects_of = Counter(line["id"] for line in effects)
    found = Counter(accepted=len(accepted))
    found["lost"] = sum(id_ not in jobs for id_ in accepted.values())
    found["ghost"] = sum(job.key not in modes for job in jobs.values())
    found["stored twice"] = len(jobs) - len({job.key for job in jobs.values()})
    found["two effects under one token"] = len(effects) - len({(line["id"], line["token"]) for line in effects})
    for job in jobs.values():
        found["lethal"] += modes[job.key] in LETHAL
        found["lethal but not worker_lost"] += modes[job.key] in LETHAL and job.reason != "worker_lost"
        found["more effects than claims"] += effects_of[job.id] > job.token
        # One that has failed until its last attempt may be alone in that when its worker is killed from outside.
        used_up = job.attempts == roles.ATTEMPTS
        found["good but worker_lost"] += modes[job.key] not in LETHAL and job.reason == "worker_lost" and not used_up
        found["completed without effect"] += job.state == "completed" and not effects_of[job.id]
        found["dead without reason"] += job.state == "dead" and not (job.reason and job.triage)
    return +found
