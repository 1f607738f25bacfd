"""A simulated day of crashes, freezes, lost answers and clock jumps over the real store and the real decisions.

Time is virtual and chance is seeded: the same seed gives the same day, so a failure can be looked at again.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
from msgspec.structs import replace

from standfast.application.wings import SCRIPTS
from standfast.failure import Class, Failure, Landed
from standfast.job import Claim, NewJob
from standfast.outcome import Failed, Lapsed, Outcome, Succeeded
from standfast.rules import queue_rules
from standfast.spine import apply as scripts
from standfast.spine import claim as claiming
from standfast.spine import intake
from standfast.spine.claim_requests import ClaimRequest, Publication, QueueDemand
from standfast.store import engine
from standfast.store.engine import CommitUnknown
from standfast.store.requests import Reply, Request
from standfast.store.sqlite.files import Files
from standfast.store.steps import Round
from standfast.testing import FrozenClock
from standfast.wings.queues import scripts as queue_scripts
from standfast.worker import upkeep
from standfast.worker.settling import settle
from tests.faults.stepped import Call, SteppedEngine
from tests.faults.verdict import beside, look

RULES = queue_rules(attempts=4, backoff=lambda repeat: 5.0 * repeat, lease=30.0)
BEAT = 10.0
WORKERS = 3
MOODS = ["good"] * 10 + ["flaky", "flaky", "refused"] + ["slow"] * 6 + ["deadly"]
BROKEN = Failed(Failure(cls=Class.TRANSIENT, landed=Landed.MAYBE, reason_code="dependency_unavailable"))
REFUSED = Failed(Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="request_rejected"))


ROW = """
SELECT j.token, j.state, j.attempts, j.due_at, (SELECT count(*) FROM history AS h WHERE h.n = j.n)
FROM job AS j JOIN body AS b ON b.n = j.n WHERE b.id = ?
"""


class Row(NamedTuple):
    """What an end changes of a job."""

    token: int
    state: str
    attempts: int
    due_at: float
    lines: int


class LossyEngine(SteppedEngine):
    """Now and then a COMMIT lands and its answer is lost; the round is then tried again, as the writer does."""

    def __init__(self, files: Files, clock: FrozenClock, rng: random.Random) -> None:
        super().__init__(files, clock, SCRIPTS)
        self._rng = rng

    def _transact(self, pending: list[Request[Any]], *, alone: bool, waits: bool = True) -> tuple[list[Reply], Round]:
        answers = super()._transact(pending, alone=alone, waits=waits)
        if self._rng.random() < 0.02 and all(request.script is not claiming.claim for request in pending):
            raise CommitUnknown from apsw.IOError("the answer is lost")
        return answers


class Worker:
    """One worker process: crashes lose what it knows, and while it is frozen it does nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.card = upkeep.WorkerCard(name, "host", 1, "[]", "{}")
        self.alive = True
        self.frozen_until = 0.0
        self.running: set[tuple[str, int]] = set()
        self.apart = False
        """Whether it claims nothing until it holds nothing, to run a suspect alone."""


class Day:
    """Producers, workers, sweeps and mishaps, as events in virtual time."""

    def __init__(self, seed: int, path: Path) -> None:
        self.path = path
        self.rng = random.Random(seed)  # noqa: S311 - chance, not secrecy
        self.clock = FrozenClock()
        self.store = LossyEngine(Files(str(path)), self.clock, self.rng)
        self.store.open()
        self.accepted: dict[str, str] = {}
        self.effects: Counter[str] = Counter()
        self.tokens: set[tuple[str, int]] = set()
        self.holds: dict[str, int] = {}
        self.seen: Counter[str] = Counter()
        self.trace: list[str] = []
        self.quiet = False
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._names = itertools.count()

    def live(self, seconds: float) -> None:
        """Live through some time of mishaps, and then in quiet until everything has ended."""
        self.store.round([(queue_scripts.publish, [Publication({"post": RULES}, [])])])
        for _ in range(WORKERS):
            self.start_worker()
        self.after(0.0, self.produce)
        self.after(100.0, self.jump)
        self.run(seconds)
        self.quiet = True
        while self.unfinished() and self.clock.elapsed() < 20_000:
            self.run(60)

    # --- time

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.clock.elapsed() + seconds, next(self._order), event))

    def run(self, seconds: float) -> None:
        """Live through so many seconds."""
        end = self.clock.elapsed() + seconds
        while self._events and self._events[0][0] <= end:
            at, _, event = heapq.heappop(self._events)
            self.clock.advance(at - self.clock.elapsed())
            event()
        self.clock.advance(end - self.clock.elapsed())

    def call(self, script: Any, items: Sequence[Any]) -> Any:
        """Make one call, sometimes with another caller's in the same round."""
        calls: list[Call] = [(script, items)]
        if self.rng.random() < 0.1 and not self.quiet:
            calls.insert(self.rng.randrange(2), (intake.enqueue, [self.new_job()]))
        answers = self.store.round(calls)
        return answers[[each for each, _ in calls].index(script)]

    def unfinished(self) -> bool:
        jobs, _ = look(self.path)
        return any(job.state not in ("completed", "dead") for job in jobs.values())

    # --- actors

    def new_job(self) -> NewJob:
        id_ = f"job-{len(self.accepted)}"
        mood = self.accepted[id_] = self.rng.choice(MOODS)
        return NewJob(id=id_, queue="post", handler="post", payload=json.dumps({"mood": mood}), budget=RULES.attempts)

    def produce(self) -> None:
        if not self.quiet:
            self.call(intake.enqueue, [self.new_job()])
            self.after(self.rng.expovariate(1 / 6), self.produce)

    def start_worker(self) -> None:
        worker = Worker(f"worker-{next(self._names)}")
        self.call(upkeep.beat, [worker.card])
        self.after(BEAT, lambda: self.beat(worker))
        self.after(0.1, lambda: self.claim(worker))
        if not self.quiet:
            self.after(self.rng.expovariate(1 / 400), lambda: self.crash(worker))
            self.after(self.rng.expovariate(1 / 60), lambda: self.freeze(worker))

    def later_if_frozen(self, worker: Worker, event: Callable[[], None]) -> bool:
        left = worker.frozen_until - self.clock.elapsed()
        if worker.alive and left > 0:
            self.after(left + self.rng.random(), event)
            return True
        return not worker.alive

    def beat(self, worker: Worker) -> None:
        if self.later_if_frozen(worker, lambda: self.beat(worker)):
            return
        self.call(upkeep.beat, [worker.card])
        [swept] = self.call(upkeep.sweep, [upkeep.SweepRequest(every=BEAT, patience=BEAT)])
        for claim in swept.lapsed:
            self.seen["lapsed"] += self.settle(claim, Lapsed(alone=swept.lost_worker_of(claim).was_alone(claim)))
        self.after(BEAT, lambda: self.beat(worker))

    def claim(self, worker: Worker) -> None:
        if self.later_if_frozen(worker, lambda: self.claim(worker)):
            return
        for claim in self.claimed(worker):
            assert 1 <= claim.attempts <= claim.token, "every claim is an attempt, before anything is run"
            worker.running.add((claim.id, claim.token))
            self.holds[claim.id] = claim.token
            self.trace.append(f"{self.clock.elapsed():.3f} {worker.name} {claim.id} {claim.token}")
            self.after(self.rng.random() * 3, partial(self.effect, worker, claim))
        self.after(1 + self.rng.random() * 3, lambda: self.claim(worker))

    def claimed(self, worker: Worker) -> list[Claim]:
        """Claim as a worker does: a suspect alone, once it holds nothing, and else whatever is due."""
        if worker.apart and worker.running:
            return []
        want = QueueDemand("post", ("post",), 2)
        if worker.apart:
            [catch] = self.call(claiming.claim, [ClaimRequest(worker.name, (replace(want, slots=1, alone=True),))])
            self.seen["alone"] += len(catch.claims)
            if catch.claims:
                return list(catch.claims)
        [catch] = self.call(claiming.claim, [ClaimRequest(worker.name, (want,))])
        worker.apart = bool(catch.suspects)
        return list(catch.claims)

    def effect(self, worker: Worker, claim: Claim) -> None:
        if self.later_if_frozen(worker, lambda: self.effect(worker, claim)):
            return
        mood = self.accepted[claim.id]
        if mood == "deadly":
            self.crash(worker)
            return
        outcome: Outcome = Succeeded('{"sent":true}')
        if mood == "refused" or (mood == "flaky" and self.rng.random() < 0.5):
            outcome = REFUSED if mood == "refused" else BROKEN
        else:
            self.effects[claim.id] += 1
            assert (claim.id, claim.token) not in self.tokens
            self.tokens.add((claim.id, claim.token))
        self.after(self.rng.random() * (100 if mood == "slow" else 1), lambda: self.end(worker, claim, outcome))

    def end(self, worker: Worker, claim: Claim, outcome: Outcome) -> None:
        if self.later_if_frozen(worker, lambda: self.end(worker, claim, outcome)):
            return
        worker.running.discard((claim.id, claim.token))
        self.seen["landed" if self.settle(claim, outcome) else "fenced"] += 1

    def settle(self, claim: Claim, outcome: Outcome) -> bool:
        """Hand an end in. It must move the job exactly if its worker is the one that holds it.

        One that comes late changes nothing. It is answered as landed only where the job still stands where it leads,
        and by this very end: another that leads there is told apart by the history.
        """
        end = settle(claim, outcome, RULES, 0.0)
        held, stood = self.holds.get(claim.id) == claim.token, self.row(claim.id)
        [landed] = self.call(scripts.apply, [end])
        assert landed if held else not landed or (stood.token, stood.state) == (claim.token, end.target), claim
        if held:
            del self.holds[claim.id]
        else:
            assert self.row(claim.id) == stood, claim
        return held

    def row(self, id_: str) -> Row:
        """Read a job beside the product."""
        with beside(self.path) as connection:
            [row] = connection.execute(ROW, (id_,))
        return Row(*row)

    # --- mishaps

    def crash(self, worker: Worker) -> None:
        if worker.alive:
            worker.alive = False
            self.seen["crashed"] += 1
            self.after(self.rng.random() * 5, self.start_worker)

    def freeze(self, worker: Worker) -> None:
        if not worker.alive:
            return
        self.seen["frozen"] += 1
        worker.frozen_until = self.clock.elapsed() + self.rng.choice([1.0, 20.0, 50.0, 120.0])
        if not self.quiet:
            self.after(self.rng.expovariate(1 / 60), lambda: self.freeze(worker))

    def jump(self) -> None:
        self.clock.jump_wall(self.rng.choice([-7200.0, -5.0, 5.0, 7200.0]))
        self.after(self.rng.expovariate(1 / 600), self.jump)


@contextmanager
def lived(seed: int, path: Path, seconds: float = 1200) -> Iterator[Day]:
    """Give a day after some time of mishaps, and then of quiet until everything has ended."""
    day = Day(seed, path)
    try:
        day.live(seconds)
        yield day
    finally:
        day.store.drop()


def flaws_of(day: Day) -> list[str]:
    jobs, found = look(day.path)
    found += [f"{id_} is lost" for id_ in day.accepted if id_ not in jobs]
    for job in jobs.values():
        deadly = day.accepted[job.id] == "deadly"
        if job.state not in ("completed", "dead"):
            found.append(f"{job.id} is still {job.state}")
        if deadly and job.reason != "worker_lost":
            found.append(f"{job.id} kills its workers and is {job.state} {job.reason}")
        if job.state == "completed" and not day.effects[job.id]:
            found.append(f"{job.id} is completed without an effect")
        if day.effects[job.id] > job.token:
            found.append(f"{job.id} had {day.effects[job.id]} effects in {job.token} claims")
    return found + told_twice(day.path)


def told_twice(path: Path) -> list[str]:
    with beside(path) as connection:
        ends = connection.execute("""
            SELECT id.value, count(*) FROM journal, json_each(journal.entries) AS entry, json_each(entry.value->2) AS id
            WHERE entry.value->>0 IN ('completed', 'dead_letter') GROUP BY id.value HAVING count(*) > 1""").fetchall()
    return [f"{id_} has ended {times} times" for id_, times in ends]


@pytest.fixture(autouse=True)
def _no_pause(_quiet, monkeypatch):
    monkeypatch.setattr(engine, "PAUSE_AFTER_TROUBLE", 0.0)


@pytest.mark.timeout(0)
def test_whatever_happens_every_job_ends_once_and_nothing_is_hidden(place, soak):
    seen: Counter[str] = Counter()
    for seed in range(1000 if soak else 2):
        with lived(seed, place / f"{seed}.db") as day:
            assert flaws_of(day) == [], f"seed {seed}"
            seen += day.seen
    assert min(seen[what] for what in ("landed", "fenced", "lapsed", "crashed", "frozen", "alone")) > 3, seen


def test_the_same_seed_gives_the_same_day(place):
    with lived(1, place / "first.db", 300) as first, lived(1, place / "second.db", 300) as second:
        assert first.trace == second.trace
        assert len(first.trace) > 50
