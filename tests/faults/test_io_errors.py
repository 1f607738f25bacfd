"""I/O errors: fail the n-th operation of SQLite, once and for good, for every n; what callers were told stays true."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import apsw
import pytest

from standfast import Standfast
from standfast.application.wings import SCRIPTS
from standfast.clock import SystemClock
from standfast.errors import StoreUnavailable
from standfast.failure import Class, Failure, Landed
from standfast.job import Claim, NewJob
from standfast.outcome import Failed, Outcome, Succeeded
from standfast.rules import DEFAULTS
from standfast.spine import apply as scripts
from standfast.spine import claim as claiming
from standfast.spine import intake
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.store import engine
from standfast.store.sqlite import files, handle, sqlite_engine
from standfast.store.sqlite.files import Files
from standfast.store.sqlite.sqlite_engine import SqliteEngine
from standfast.worker.settling import settle
from tests.faults.faulty import FailAt, underneath
from tests.faults.verdict import read
from tests.warm import Warm

REFUSED = Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="request_rejected")
ORDER = ClaimRequest("worker", (QueueDemand("post", ("post",), 2),))
SHORT, LONG = 0.04, 20.0
"""Seconds callers wait: where the fault lasts they wait in vain, where it is over they must be served."""


class Told:
    """What one run's callers were told."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.ended: dict[str, str] = {}
        self.surely_not: set[str] = set()
        self.unsure: set[str] = set()
        self.everything = False
        """Whether the scenario came to its end; a slow machine may cut it short as a fault does."""

    def refused(self, error: StoreUnavailable, ids: Sequence[str]) -> None:
        (self.surely_not if error.definite else self.unsure).update(ids)

    def check(self, path: Path) -> None:
        """Hold the file against it."""
        jobs, flaws = read(path)
        assert flaws == []
        assert self.accepted - set(jobs) == set()
        assert self.surely_not & set(jobs) == set(), "told that nothing was written, and it was"
        assert set(jobs) <= self.accepted | self.unsure
        assert {id_: jobs[id_].state for id_ in self.ended} == self.ended


def new_job(id_: str) -> NewJob:
    letter = json.dumps({"letter": "x" * 3000})
    return NewJob(id=id_, queue="post", handler="post", payload=letter, idempotency_key=id_, fingerprint=id_)


def scenario(store: SqliteEngine, told: Told, patience: float) -> None:
    """Accept, claim, complete, die, three times over; stop at the first refusal."""
    for turn in range(3):
        ids = [f"job-{turn}-{n}" for n in range(2)]
        try:
            store.call(intake.enqueue, [new_job(id_) for id_ in ids], seconds=patience).result()
        except StoreUnavailable as error:
            told.refused(error, ids)
            return
        told.accepted.update(ids)
        try:
            [catch] = store.call(claiming.claim, [ORDER], seconds=patience).result()
            end(store, told, catch.claims, patience)
        except StoreUnavailable:
            return
    told.everything = True


def end(store: SqliteEngine, told: Told, claims: Sequence[Claim], patience: float) -> None:
    outcomes: list[Outcome] = [Succeeded('{"sent":true}'), Failed(REFUSED)]
    moves = [settle(claim, outcome, DEFAULTS, 0.0) for claim, outcome in zip(claims, outcomes, strict=False)]
    landed = store.call(scripts.apply, moves, seconds=patience).result()
    assert all(landed)
    told.ended.update({move.id: move.target for move in moves})


@pytest.fixture(autouse=True)
def _in_a_hurry(_quiet, monkeypatch):
    monkeypatch.setattr(engine, "PAUSE_AFTER_TROUBLE", 0.001)
    monkeypatch.setitem(handle.SETTINGS, "wal_autocheckpoint", 3)


@pytest.fixture
def template(place: Path) -> Path:
    """Give a store that was opened and closed before."""
    path = place / "template.db"
    store = SqliteEngine(Files(str(path)), SystemClock(), SCRIPTS)
    store.open()
    store.close()
    return path


def open_files(place: Path) -> list[str]:
    """List the files of a directory that this process has open, each as often as it has."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sorted(name for link in links if str(place) in (name := str(link.readlink())))


@contextmanager
def other_process_holding(path: Path) -> Iterator[None]:
    """Let another process keep the write lock meanwhile."""
    program = f"""
import apsw, sys
connection = apsw.Connection({str(path)!r})
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
    with Warm([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate(b"")


def opened(path: Path, fault: FailAt) -> SqliteEngine:
    """Open, a second time if the fault hits the first."""
    store = SqliteEngine(Files(str(path)), SystemClock(), SCRIPTS)
    try:
        store.open()
    except StoreUnavailable:
        fault.armed = False
        store = SqliteEngine(Files(str(path)), SystemClock(), SCRIPTS)
        store.open()
    return store


def run(path: Path, fault: FailAt, patience: float) -> Told:
    """Live through one fault, then see that the store is over it."""
    told = Told()
    with underneath(fault):
        store = opened(path, fault)
        scenario(store, told, patience)
        fault.armed = False
        store.call(intake.enqueue, [new_job("afterwards")], seconds=LONG).result()
        told.accepted.add("afterwards")
        assert store.trouble is None
        store.close()
    return told


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("error", "lasting", "step"),
    [
        pytest.param(apsw.IOError, False, 9, id="failed-once"),
        pytest.param(apsw.FullError, False, 16, id="full-once", marks=pytest.mark.long),
        pytest.param(apsw.CorruptError, False, 16, id="corrupt-once"),
        pytest.param(apsw.BusyError, False, 16, id="busy-once"),
        pytest.param(apsw.IOError, True, 7, id="failed-for-good", marks=pytest.mark.long),
        pytest.param(apsw.FullError, True, 10, id="full-for-good"),
    ],
)
def test_what_callers_are_told_is_true_whichever_operation_fails(template, error, lasting, step, soak):
    refused, unsure = 0, 0
    first = random.randint(1, step)  # noqa: S311 - each run tries others of them; what failed is named by its file
    for n in count(1) if soak else count(first, step):
        path = template.with_name(f"{n}.db")
        shutil.copy(template, path)
        fault = FailAt(n, error, lasting=lasting)
        told = run(path, fault, SHORT if lasting else LONG)
        told.check(path)
        refused, unsure = refused + len(told.surely_not), unsure + len(told.unsure)
        if told.everything and not fault.fired:
            break
    assert n > 300, "the scenario is shorter than it was"
    assert (bool(refused), bool(unsure)) == (lasting, lasting), "one fault is over before anybody's patience is"


async def test_a_read_that_fails_is_a_typed_error_and_leaves_no_handle_behind(place, monkeypatch):
    monkeypatch.setattr(files, "READERS", 1)
    fault = FailAt(1, lasting=True)
    fault.armed = False
    with underneath(fault):
        async with Standfast(str(place / "queue.db")) as sf:
            receipt = await sf.enqueue("post")
            assert await sf.status(receipt.id) is not None
            handles = open_files(place)
            for _ in range(10):
                await sf.enqueue("post")  # so that the reader must look at the file again
                fault.armed = True
                with pytest.raises(StoreUnavailable, match=r"injected: .*; call again"):
                    await sf.status(receipt.id)
                fault.armed = False
                assert await sf.status(receipt.id) is not None
            assert open_files(place) == handles


async def test_an_opening_that_is_refused_leaves_no_handle_behind(template, place, monkeypatch):
    monkeypatch.setattr(handle, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(sqlite_engine, "LONGEST_OPENING", 0.1)
    sf = Standfast(str(template))
    with other_process_holding(template):
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="locked; nothing was written") as refusal:
                await sf.enqueue("post")
            assert refusal.value.definite
        assert open_files(place) == []
    assert (await sf.enqueue("post")).outcome == "accepted"
    await sf.close()


def test_a_store_that_cannot_be_put_in_order_is_closed_all_the_same(place):
    for n in range(1, 10):
        fault = FailAt(n, lasting=True)
        fault.armed = False
        with underneath(fault):
            store = SqliteEngine(Files(str(place / f"{n}.db")), SystemClock(), SCRIPTS)
            store.open()
            store.call(intake.enqueue, [new_job("job")], seconds=LONG).result()
            fault.armed = True
            store.close()
        assert open_files(place) == []
        jobs, flaws = read(place / f"{n}.db")
        assert (set(jobs), flaws) == ({"job"}, [])


def test_a_file_another_process_keeps_locked_is_refused_in_time_and_used_when_it_is_free(place, monkeypatch):
    monkeypatch.setattr(handle, "BUSY_SECONDS", 0.01)
    path = place / "queue.db"
    store = SqliteEngine(Files(str(path)), SystemClock(), SCRIPTS)
    store.open()
    with other_process_holding(path):
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="nothing was written") as refusal:
                store.call(intake.enqueue, [new_job("refused")], seconds=SHORT).result()
            assert refusal.value.definite
    store.call(intake.enqueue, [new_job("accepted")], seconds=LONG).result()
    store.close()
    assert set(read(path)[0]) == {"accepted"}
