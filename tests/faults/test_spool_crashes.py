"""A producer killed at each step of spooling and bringing; two producers on one spool. The caller's word is outside."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from standfast import Standfast
from standfast.application.wings import store_at
from standfast.store import spool as spool_module
from tests.faults.spooler import STEPS, THREAD
from tests.postgres import PostgresServer, connect
from tests.waiting import seen
from tests.warm import Warm
from tests.worker.processes import environment

SPOOLER = Path(__file__).with_name("spooler.py")
JOBS = 12


class Told(NamedTuple):
    """What a caller was told."""

    name: str
    number: int
    id: str
    outcome: str


def start(url: str, place: Path, name: str, count: int, *step: str) -> Warm:
    given = [url, str(place / "spool"), str(place / "told"), name, str(count), *step]
    return Warm([sys.executable, str(SPOOLER), *given], env=environment(), stdout=subprocess.PIPE, text=True)


def told(place: Path) -> list[Told]:
    if not (place / "told").exists():
        return []
    lines = [line.split() for line in (place / "told").read_text().splitlines()]
    return [Told(name, int(number), job_id, outcome) for name, number, job_id, outcome in lines]


def left(place: Path, url: str) -> int:
    """Count what is in the spool."""
    spool = store_at(url, spool=str(place / "spool")).spool()
    assert isinstance(spool, spool_module.Spool)
    depth = spool.depth()
    spool.close()
    return depth


async def run_all(url: str, ran: list[tuple[str, int]]) -> None:
    """Run what is in the store, to its end."""
    sf = Standfast(url)

    @sf.handler("mail")
    def mail(job):
        ran.append((job.payload["name"], job.payload["number"]))

    async with sf, sf.worker():
        await seen(lambda: _idle(sf))


async def _idle(sf: Standfast) -> bool:
    stats = await sf.stats()
    parked = sum(queue["parked"] for queue in stats["queues"].values())
    return (stats["total_pending"], stats["total_processing"], parked) == (0, 0, 0)


def judge(url: str, place: Path, ran: list[tuple[str, int]]) -> None:
    """Judge by what callers were told: each job is there once, ran once, or gave way to a later one of its thread."""
    said = told(place)
    with connect(url) as connection:
        stored = {job_id for (job_id,) in connection.execute("SELECT id FROM body")}
        owners: dict[str, str] = dict(connection.execute("SELECT id, owner FROM alias").fetchall())
    assert [each for each in said if owners.get(each.id, each.id) not in stored] == [], "acknowledged and lost"
    counted = Counter(ran)
    assert {name: times for name, times in counted.items() if times > 1} == {}, "run twice"
    plain = {(each.name, each.number) for each in said if each.number % THREAD}
    assert plain - set(counted) == set(), "acknowledged and never run"
    for name in {each.name for each in said}:
        mine = [number for whose, number in ran if whose == name and not number % THREAD]
        last = max(each.number for each in said if each.name == name and not each.number % THREAD)
        assert mine == sorted(mine), "an older payload ran after a newer one"
        assert last <= max(mine), "the latest of the thread never ran"


LONG_STEPS = ("before it is brought", "before the commit", "after it is forgotten")


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[pytest.mark.long] if step in LONG_STEPS else []) for step in STEPS]
)
async def test_a_producer_that_dies_at_any_step_loses_and_doubles_nothing(own_server, own_url, tmp_path, step):
    own_server.stop("fast")
    producer = start(own_url, tmp_path, "first", JOBS, step)
    assert producer.stdout is not None
    producer.stdout.readline()  # it has spooled everything, or is gone
    own_server.start()
    assert producer.wait(30) == -signal.SIGKILL
    producer.stdout.close()
    ran: list[tuple[str, int]] = []
    await run_all(own_url, ran)  # what came through is long done when the rest follows
    follower = start(own_url, tmp_path, "second", 3)
    assert follower.wait(30) == 0
    assert follower.stdout is not None
    follower.stdout.close()
    await run_all(own_url, ran)
    assert left(tmp_path, own_url) == 0
    judge(own_url, tmp_path, ran)


async def test_two_producers_share_a_spool(own_server: PostgresServer, own_url, tmp_path):
    own_server.stop("immediate")
    producers = [start(own_url, tmp_path, name, 60) for name in ("one", "two")]
    for producer in producers:
        assert producer.stdout is not None
        assert producer.stdout.readline() == "done\n"
    assert left(tmp_path, own_url) == 120
    own_server.start()
    assert [producer.wait(30) for producer in producers] == [0, 0]
    for producer in producers:
        assert producer.stdout is not None
        producer.stdout.close()
    with connect(own_url) as connection:
        plain = connection.execute(
            "SELECT b.payload::json->>'name', (b.payload::json->>'number')::integer"
            " FROM job AS j JOIN body AS b USING (n) WHERE b.thread_key IS NULL ORDER BY j.ready_at, j.n"
        ).fetchall()
    for name in ("one", "two"):
        mine = [number for whose, number in plain if whose == name]
        assert mine == [number for number in range(60) if number % THREAD], "each producer's order is kept"
    ran: list[tuple[str, int]] = []
    await run_all(own_url, ran)
    judge(own_url, tmp_path, ran)
