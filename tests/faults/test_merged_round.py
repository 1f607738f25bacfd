"""The merged round: callers share a transaction, but neither each other's mistakes nor each other's bad luck."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from standfast import Standfast
from standfast.application.wings import SCRIPTS
from standfast.clock import SystemClock
from standfast.errors import StoreUnavailable
from standfast.failure import Class, Failure, Landed
from standfast.job import Claim, NewJob
from standfast.lifecycle import Transition
from standfast.outcome import Failed, Lapsed, Succeeded
from standfast.rules import DEFAULTS
from standfast.spine import apply as scripts
from standfast.spine import claim as claiming
from standfast.spine import intake
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.store import engine
from standfast.store import store as store_verbs
from standfast.store.engine import CommitUnknown
from standfast.store.requests import Reply, Request
from standfast.store.scripts import writes
from standfast.store.sqlite.disk import Disk
from standfast.store.sqlite.files import Files
from standfast.store.sqlite.sqlite_engine import SqliteEngine
from standfast.store.steps import Round, Script
from standfast.wings.notices.scripts import last_journal_number
from standfast.worker import executor
from standfast.worker.settling import settle
from tests.faults.faulty import FailAt, underneath
from tests.faults.verdict import beside, look

PATIENCE = 20.0
LEASE = 1.5
REFUSED = Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="request_rejected")


class Gate:
    """A script that keeps the writer busy until it is opened, so that what comes meanwhile shares the next round."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.reached = threading.Event()

    def run(self, _round: Round, items: Sequence[Any]) -> Script[Any]:
        self.reached.set()
        self._open.wait(PATIENCE)
        yield "upkeep_times", {}
        return [None] * len(items)

    def open(self) -> None:
        self._open.set()


@asynccontextmanager
async def behind_a_gate(store: SqliteEngine) -> AsyncIterator[None]:
    """Collect every call made inside into one round."""
    gate = Gate()
    held = store.call(writes()(gate.run), [None], seconds=PATIENCE).start()
    await asyncio.to_thread(gate.reached.wait, PATIENCE)
    yield
    gate.open()
    await held


@pytest.fixture
def path(place: Path) -> Path:
    return place / "queue.db"


@pytest.fixture
def store(path):
    store = SqliteEngine(Files(str(path)), SystemClock(), SCRIPTS)
    store.open()
    yield store
    store.close()


@pytest.fixture(autouse=True)
def _in_a_hurry(_quiet, monkeypatch):
    monkeypatch.setattr(engine, "PAUSE_AFTER_TROUBLE", 0.001)


def new_job(name: str, **changes: Any) -> NewJob:
    return msgspec.structs.replace(NewJob(id=name, queue="post", handler="post", payload="null"), **changes)


def enqueue(store: SqliteEngine, job: NewJob) -> asyncio.Future[Any]:
    return store.call(intake.enqueue, [job], seconds=PATIENCE).start()


async def journal_length(store: SqliteEngine) -> int:
    return await store.read(last_journal_number())


@writes()
def broken_script(_round: Round, _items: Sequence[Any]) -> Script[list[None]]:
    yield "upkeep_times", {}
    raise ValueError("an unexpected value")


async def test_sixty_four_callers_share_one_transaction(store):
    async with behind_a_gate(store):
        calls = [enqueue(store, new_job(f"job-{n}")) for n in range(64)]
    assert [receipt.outcome for [receipt] in await asyncio.gather(*calls)] == ["accepted"] * 64
    assert await journal_length(store) == 1


@pytest.mark.parametrize(
    "bad",
    [
        lambda store: store.call(broken_script, [None], seconds=PATIENCE).start(),
        lambda store: store.call(intake.enqueue, [new_job("bad", payload=object())], seconds=PATIENCE).start(),
        lambda store: store.call(intake.enqueue, [new_job("bad", priority="high")], seconds=PATIENCE).start(),
    ],
    ids=["another-script", "an-object-in-the-same-script", "a-constraint-in-the-same-script"],
)
async def test_a_bad_call_fails_alone_and_the_others_get_their_receipts(store, path, bad):
    async with behind_a_gate(store):
        calls = [enqueue(store, new_job(f"job-{n}")) for n in range(31)]
        broken = bad(store)
        calls += [enqueue(store, new_job(f"job-{n}")) for n in range(31, 63)]
    receipts = await asyncio.gather(*calls)
    assert [receipt.outcome for [receipt] in receipts] == ["accepted"] * 63
    with pytest.raises((ValueError, TypeError, apsw.Error)):
        await broken
    jobs, flaws = look(path)
    assert (set(jobs), flaws) == ({f"job-{n}" for n in range(63)}, [])


async def test_a_cancelled_caller_is_committed_all_the_same(store, path):
    async with behind_a_gate(store):
        gone = enqueue(store, new_job("gone"))
        stays = enqueue(store, new_job("stays"))
        await asyncio.sleep(0)
        gone.cancel()
    assert [receipt.id for receipt in await stays] == ["stays"]
    assert set(look(path)[0]) == {"gone", "stays"}


async def test_a_caller_whose_loop_is_closed_stops_nobody(store, path):
    def ask_and_leave() -> None:
        async def ask() -> None:
            enqueue(store, new_job("gone"))
            await asyncio.sleep(0)

        loop = asyncio.new_event_loop()
        loop.run_until_complete(ask())
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.close()

    async with behind_a_gate(store):
        await asyncio.to_thread(ask_and_leave)
    [receipt] = await enqueue(store, new_job("stays"))
    assert receipt.outcome == "accepted"
    assert set(look(path)[0]) == {"gone", "stays"}


def strange_listeners(path: Path) -> None:
    wake = Path(f"{path}-wake")
    wake.mkdir()
    (wake / ("x" * 200)).touch()  # no socket can have an address this long
    (wake / "a-directory").mkdir()


async def test_a_listener_that_cannot_be_told_stops_nobody(store, path):
    strange_listeners(path)
    for n in range(3):
        [receipt] = await enqueue(store, new_job(f"job-{n}"))
        assert receipt.outcome == "accepted"


# --- a COMMIT that raised although it landed

IsIt = Callable[[Reply], bool]


@pytest.fixture
def lose_answer(monkeypatch) -> Callable[[IsIt], None]:
    """Let the next COMMIT land that has such an answer, and report it as failed."""
    transact = SqliteEngine._transact  # noqa: SLF001 - the one place where a COMMIT's answer can be lost
    awaited: list[IsIt] = []

    def lossy(self: SqliteEngine, pending: list[Request[Any]], *, alone: bool) -> tuple[list[Reply], Round]:
        answers, round_ = transact(self, pending, alone=alone)
        if awaited and any(map(awaited[0], answers)):
            awaited.clear()
            raise CommitUnknown from apsw.IOError("the answer is lost")
        return answers, round_

    monkeypatch.setattr(SqliteEngine, "_transact", lossy)
    return awaited.append


def from_(script: Any) -> IsIt:
    return lambda answer: answer[0].script is script


def is_a_claim(answer: Reply) -> bool:
    request, result = answer
    return request.script is claiming.claim and any(catch.claims for catch in result)


@pytest.mark.parametrize("key", [None, "key"])
async def test_an_enqueue_that_landed_unanswered_is_stored_and_told_once(store, path, lose_answer, key):
    lose_answer(from_(intake.enqueue))
    async with behind_a_gate(store):
        calls = [
            enqueue(store, new_job(f"job-{n}", idempotency_key=key and f"{key}-{n}", fingerprint=key)) for n in (1, 2)
        ]
    assert [receipt.outcome for [receipt] in await asyncio.gather(*calls)] == ["accepted"] * 2
    jobs, flaws = look(path)
    assert (sorted(jobs), flaws) == (["job-1", "job-2"], [])
    assert counted(path, "enqueued") == 2


async def test_an_end_that_landed_unanswered_is_written_once(store, path, lose_answer):
    await enqueue(store, new_job("job"))
    [catch] = await store.call(
        claiming.claim, [ClaimRequest("worker", (QueueDemand("post", ("post",), 1),))], seconds=PATIENCE
    )
    death = settle(catch.claims[0], Failed(REFUSED), DEFAULTS, 0.0)
    lose_answer(from_(scripts.apply))
    assert await store.call(scripts.apply, [death], seconds=PATIENCE) == [True]
    jobs, flaws = look(path)
    assert (jobs["job"].state, jobs["job"].reason, jobs["job"].lines) == ("dead", "request_rejected", 1)
    assert flaws == []
    assert counted(path, "dead_letter") == 1


def counted(path: Path, name: str) -> int:
    with beside(path) as connection:
        return int(connection.execute("SELECT coalesce(sum(value), 0) FROM counter WHERE name = ?", (name,)).get)


async def test_a_refusal_for_lack_of_disk_says_that_an_earlier_try_may_have_landed(store, lose_answer, monkeypatch):
    lose_answer(from_(intake.enqueue))
    free = iter([1 << 40])
    monkeypatch.setattr(Disk, "free_bytes", lambda _disk: next(free, 0))
    with pytest.raises(StoreUnavailable, match="may have been written") as refusal:
        await store.call(intake.enqueue, [new_job("job")], seconds=PATIENCE)
    assert not refusal.value.definite


# --- the same under a worker


@asynccontextmanager
async def working(path: Path, ran: list[str], during: Callable[[], None] = lambda: None) -> AsyncIterator[Standfast]:
    async with Standfast(str(path)) as sf:
        sf.queue("post", lease=LEASE)

        @sf.handler("post")
        async def post(job):
            ran.append(job.id)
            during()
            return {"sent": True}

        async with sf.worker():
            yield sf


async def test_a_claim_that_landed_unanswered_is_given_back_and_run_once(path, lose_answer):
    ran: list[str] = []
    async with working(path, ran) as sf:
        lose_answer(is_a_claim)
        receipt = await sf.enqueue("post")
        job = await sf.wait(receipt.id, PATIENCE)
    assert (job.state, job.attempts, job.deferrals, ran) == ("completed", 1, 1, [receipt.id])
    assert [line.reason_code for line in job.history] == ["given_back"]


@pytest.mark.parametrize("n", range(1, 20, 2))
async def test_an_effect_whose_bookkeeping_failed_is_not_run_again(path, n):
    ran: list[str] = []
    fault = FailAt(n, only=("write", "sync"))
    fault.armed = False
    with underneath(fault):
        async with working(path, ran, during=lambda: setattr(fault, "armed", True)) as sf:
            receipt = await sf.enqueue("post")
            job = await sf.wait(receipt.id, PATIENCE)
            await until(lambda: fault.fired)
    assert (job.state, job.attempts, job.result, ran) == ("completed", 1, {"sent": True}, [receipt.id])


async def test_an_effect_is_not_run_again_however_long_its_bookkeeping_fails(path, monkeypatch):
    monkeypatch.setattr(store_verbs, "PATIENCE", 0.05)
    ran: list[str] = []
    fault = FailAt(1, lasting=True)
    fault.armed = False
    with underneath(fault):
        async with working(path, ran, during=lambda: setattr(fault, "armed", True)) as sf:
            receipt = await sf.enqueue("post")
            await until(lambda: fault.fired)
            lapses = time.monotonic() + 2 * LEASE
            await until(lambda: time.monotonic() > lapses)  # nobody can renew it meanwhile
            fault.armed = False
            job = await sf.wait(receipt.id, PATIENCE)
    assert (job.state, job.attempts, ran) == ("completed", 1, [receipt.id])


async def until(fact: Callable[[], object]) -> None:
    """Wait for a fact."""
    async with asyncio.timeout(PATIENCE):
        while not fact():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.002)


async def test_two_ends_of_one_attempt_in_one_round_leave_one(store, path):
    await enqueue(store, new_job("job"))
    [catch] = await store.call(
        claiming.claim, [ClaimRequest("worker", (QueueDemand("post", ("post",), 1),))], seconds=PATIENCE
    )
    ends = [settle(catch.claims[0], outcome, DEFAULTS, 0.0) for outcome in (Succeeded(), Lapsed(), Failed(REFUSED))]
    async with behind_a_gate(store):
        calls = [store.call(scripts.apply, [end], seconds=PATIENCE).start() for end in ends]
    assert await asyncio.gather(*calls) == [[True], [False], [False]]
    jobs, flaws = look(path)
    assert (jobs["job"].state, jobs["job"].lines, flaws) == ("completed", 0, [])


async def test_an_end_that_cannot_be_written_strands_no_other_and_is_not_run_again(path, monkeypatch):
    def unwritable(claim: Claim, *evidence: Any, **more: Any) -> Transition:
        transition = settle(claim, *evidence, **more)
        return msgspec.structs.replace(transition, result=object()) if claim.payload == '"bad"' else transition

    monkeypatch.setattr(executor, "settle", unwritable)
    ran: list[str] = []
    async with working(path, ran) as sf:
        receipts = await sf.enqueue_many("post", [*("good",) * 10, "bad", *("good",) * 10])
        good = [receipt.id for n, receipt in enumerate(receipts) if n != 10]
        assert {(await sf.wait(str(id_), PATIENCE)).state for id_ in good} == {"completed"}
        four_beats_later = time.monotonic() + 4 * LEASE / 3
        await until(lambda: time.monotonic() > four_beats_later)  # nobody may take it for an orphan
        job = await sf.status(str(receipts[10].id))
    assert job is not None
    assert (job.state, job.attempts, Counter(ran)[job.id]) == ("running", 1, 1)
