"""Power cuts: whatever was acknowledged is there when the power comes back, at whichever operation it went."""

from __future__ import annotations

import itertools
import json
import random
import tempfile
from collections import Counter
from pathlib import Path

import apsw
import pytest

from standfast.application.wings import SCRIPTS
from standfast.errors import StoreUnavailable
from standfast.failure import Class, Failure, Landed
from standfast.job import Claim, NewJob
from standfast.outcome import Failed, Lapsed, Outcome, Succeeded
from standfast.rules import queue_rules
from standfast.spine import apply as scripts
from standfast.spine import claim as claiming
from standfast.spine import intake
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.store import engine
from standfast.store.sqlite import handle
from standfast.store.sqlite.files import Files
from standfast.testing import FrozenClock
from standfast.worker import upkeep
from standfast.worker.settling import settle
from tests.faults.disk import Disk, DiskVFS, lay_out
from tests.faults.stepped import Call, SteppedEngine
from tests.faults.verdict import Found, read

NORMAL = 1
RULES = queue_rules(attempts=2, backoff="none")
BROKEN = Failure(cls=Class.TRANSIENT, landed=Landed.MAYBE, reason_code="dependency_unavailable")
REFUSED = Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="request_rejected")
WANTS = (QueueDemand("post", ("post",), 6),)
SWEEP = upkeep.SweepRequest(every=1.0, patience=0.0)

CUTS_PER_MACHINE = 8
LATEST_CUT = 320
"""Writes and syncs; a round makes about twenty, a new file some hundred."""


class Promises:
    """What the callers of one machine were told, kept where no power cut reaches."""

    def __init__(self) -> None:
        self.offered: set[str] = set()
        self.accepted: set[str] = set()
        self.ended: dict[str, str] = {}
        self.handed_in: set[str] = set()
        self.tokens: dict[str, int] = {}

    def broken(self, jobs: dict[str, Found]) -> Counter[str]:
        """Count, by kind, what was promised and is not so."""
        here = set(jobs)
        unasked = {job.id for job in jobs.values() if job.state in ("completed", "dead")} - set(self.ended)
        return Counter(
            lost=len(self.accepted - here),
            undone=sum(id_ in here and jobs[id_].state != state for id_, state in self.ended.items()),
            ghost=len(here - self.offered) + len(unasked - self.handed_in),
            uncounted=sum(id_ in here and jobs[id_].token < token for id_, token in self.tokens.items()),
        )

    def learn(self, jobs: dict[str, Found]) -> None:
        """Take what stands in the file after a restart as promised: everybody has seen it."""
        self.accepted = set(jobs)
        self.ended = {job.id: job.state for job in jobs.values() if job.state in ("completed", "dead")}
        self.tokens = {job.id: job.token for job in jobs.values()}
        self.handed_in = set()


class Machine:
    """One store on one disk. It works until the power goes, again and again."""

    def __init__(self, seed: int, changed: dict[str, int]) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - chance, not secrecy
        self._settings = {"locking_mode": "exclusive", **handle.SETTINGS, **changed}
        del self._settings["mmap_size"]
        self._settings["wal_autocheckpoint"] = self._rng.choice([3, 20, 100, 1000])
        self._clock = FrozenClock()
        self._image: dict[str, bytes] = {}
        self._holding: list[Claim] = []
        self.promises = Promises()
        self.acknowledged = 0

    def live_until_cut(self, cut: int | None = None) -> dict[str, bytes]:
        """Work, lose power in the middle of it, and give what is left on the platter."""
        disk = Disk(self._rng, self._image)
        disk.cut_at = cut or self._rng.randint(1, LATEST_CUT)
        vfs = DiskVFS(disk)
        self._clock.reboot()
        self._holding.clear()
        while not disk.is_off:
            self._live_until_restart(disk, vfs.name)
        vfs.unregister()
        self._image = disk.image_after_cut()
        return self._image

    def _live_until_restart(self, disk: Disk, vfs: str) -> None:
        """Work in one process; now and then it ends in good order and another one goes on."""
        store = SteppedEngine(Files("/queue.db", vfs=vfs), self._clock, SCRIPTS)
        store.tries_again = False  # there is no power
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(handle, "SETTINGS", self._settings)
                store.open()
            self._reclaim(store)
            while not disk.is_off and self._rng.random() < 0.9:
                self._work(store)
        except (StoreUnavailable, apsw.Error):
            assert disk.is_off
        finally:
            store.drop()

    def _reclaim(self, store: SteppedEngine) -> None:
        """Decide about what the last cut interrupted: its worker was of an earlier boot."""
        [swept] = store.round([(upkeep.sweep, [SWEEP])])[0] or [None]
        if swept is not None:
            self._end(store, [(claim, Lapsed()) for claim in swept.lapsed], [])

    def _work(self, store: SteppedEngine) -> None:
        """Run one round as the writer would: new jobs of several callers, ends of attempts, and a claim."""
        self._clock.advance(self._rng.random())
        callers = [[self._new_job() for _ in range(self._rng.randint(1, 3))] for _ in range(self._rng.randint(0, 4))]
        self._rng.shuffle(self._holding)
        cut = self._rng.randint(0, len(self._holding))
        ending, self._holding = self._holding[:cut], self._holding[cut:]
        self._end(store, [(claim, self._outcome()) for claim in ending], callers)

    def _end(self, store: SteppedEngine, ends: list[tuple[Claim, Outcome]], callers: list[list[NewJob]]) -> None:
        moves = [settle(claim, outcome, RULES, 0.0) for claim, outcome in ends]
        self.promises.handed_in.update(move.id for move in moves)
        calls: list[Call] = [(intake.enqueue, jobs) for jobs in callers]
        worker = self._clock.boot()
        order, card = ClaimRequest(worker, WANTS), upkeep.WorkerCard(worker, "host", 1, "[]", "{}")
        landed, catches, _, *receipts = store.round(
            [(scripts.apply, moves), (claiming.claim, [order]), (upkeep.beat, [card]), *calls]
        )
        if landed is None:
            return
        assert all(landed)
        self.promises.handed_in.clear()
        self.promises.ended.update({move.id: move.target for move in moves if move.target != "queued"})
        self.promises.accepted.update(receipt.id for answered in receipts for receipt in answered)
        self.promises.tokens.update({claim.id: claim.token for claim in catches[0].claims})
        self._holding += catches[0].claims
        self.acknowledged += sum(map(len, callers)) + sum(move.target != "queued" for move in moves)

    def _new_job(self) -> NewJob:
        id_ = f"job-{len(self.promises.offered)}"
        self.promises.offered.add(id_)
        keyed = self._rng.random() < 0.3
        return NewJob(
            id=id_,
            queue="post",
            handler="post",
            payload=json.dumps({"letter": "x" * self._rng.choice([1, 50, 3000, 9000])}),
            idempotency_key=id_ if keyed else None,
            fingerprint=id_ if keyed else None,
            budget=2,
        )

    def _outcome(self) -> Outcome:
        outcomes: list[Outcome] = [Succeeded(), Succeeded('{"sent":true}'), Failed(BROKEN), Failed(REFUSED)]
        return self._rng.choice(outcomes)


def cut_power(machines: int, directory: Path, first: int = 0, **changed: int) -> Counter[str]:
    """Cut the power of so many machines, several times each, and count what came of it.

    The store has its own settings, but for those `changed`.
    """
    total: Counter[str] = Counter()
    for seed in range(first, first + machines):
        machine = Machine(seed, changed)
        for _ in range(CUTS_PER_MACHINE):
            image = machine.live_until_cut()
            jobs, flaws = reopened(image, directory)
            assert flaws == [], f"machine {seed}"
            total += machine.promises.broken(jobs) + Counter(cuts=1)
            machine.promises.learn(jobs)
        total["acknowledged"] += machine.acknowledged
    return total


def reopened(image: dict[str, bytes], directory: Path) -> tuple[dict[str, Found], list[str]]:
    """Open what is left with the ordinary engine on real files."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        lay_out(image, Path(place))
        return read(Path(place) / "queue.db")


@pytest.fixture(autouse=True)
def _no_pause(_quiet, monkeypatch):
    monkeypatch.setattr(engine, "PAUSE_AFTER_TROUBLE", 0.0)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_nothing_acknowledged_is_lost_when_the_power_goes(place, soak):
    total = cut_power(10_000 if soak else 140, place)
    assert total["cuts"] >= 1_000
    assert total["acknowledged"] >= 8_000
    assert broken(total) == {}


@pytest.mark.timeout(0)
def test_nothing_acknowledged_is_lost_when_the_power_of_a_few_machines_goes(place):
    first = random.randrange(10_000)  # noqa: S311 - each run tries others
    total = cut_power(20, place, first)
    assert total["cuts"] == 20 * CUTS_PER_MACHINE
    assert total["acknowledged"] >= 500
    assert broken(total) == {}, f"machines from {first}"


def test_a_power_cut_while_a_store_is_made_leaves_no_journal_that_empties_the_database_of_a_wal():
    """Such a journal is rolled back by whoever opens the store; if the power goes again there, a WAL is left alone."""
    for cut, seed in itertools.product(range(1, 12), range(10)):
        image = Machine(seed, {}).live_until_cut(cut)
        found = {Path(name).name for name, content in image.items() if content}
        assert not {"queue.db-journal", "queue.db-wal"} <= found, f"machine {seed}, cut at operation {cut}"
        assert "queue.db-wal" not in found or "queue.db" in found, f"machine {seed}, cut at operation {cut}"


def test_this_test_sees_what_a_store_loses_that_syncs_less_often(place):
    total = cut_power(10, place, synchronous=NORMAL)
    assert broken(total)["lost"] > total["acknowledged"] / 20
    assert broken(total)["undone"] > 0
    assert broken(total)["uncounted"] > 0


def broken(total: Counter[str]) -> dict[str, int]:
    return {kind: total[kind] for kind in ("lost", "undone", "ghost", "uncounted") if total[kind]}
