"""What a worker takes and when: only what it can start, at once, and no queue at the cost of another."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from functools import partial
from time import monotonic
from typing import Any

import pytest

from standfast import ConfigurationError, Standfast, StoreUnavailable, Transient, fixed
from standfast.clock import SystemClock
from standfast.lifecycle import NoticeKind
from standfast.spine.claim import claim
from standfast.spine.claim_requests import ClaimRequest, ClaimResult
from standfast.spine.registry import Registry
from standfast.spine.rounds import run as run_round
from standfast.store.engine import CommitUnknown, Engine
from standfast.store.scripts import Call, writes
from standfast.store.steps import Round
from standfast.store.store import Store
from standfast.store.waiting_requests import StandingClaim, StandingClaims
from standfast.wings.http.sender import Sender
from standfast.wings.limits.probes import says_no
from standfast.wings.limits.queue_gates import QueueGates
from standfast.wings.limits.readiness import Readiness
from standfast.worker import worker as worker_module
from standfast.worker.claimer import Claimer
from tests.between import Passed
from tests.waiting import ended, job_of, reached, seen, stamp
from tests.worker.inside import covers, deaf, idle, looked, store_of


@pytest.fixture
def no_poll(monkeypatch):
    """Whatever starts, starts because somebody woke the worker."""
    monkeypatch.setattr(worker_module, "POLL_EVERY", 3600.0)


class Doorway:
    """An async handler that counts who is inside and lets nobody out until told."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.open = asyncio.Event()

    async def __call__(self, job: Any) -> None:
        self.inside[job.queue] += 1
        self.most[job.queue] = max(self.most[job.queue], self.inside[job.queue])
        await self.open.wait()
        self.inside[job.queue] -= 1


async def test_claims_only_what_it_can_start(disk):
    door = Doorway()
    disk.handler("mail")(door)
    receipts = await disk.enqueue_many("mail", list(range(10)))
    async with disk.worker(concurrency=2):
        await seen(lambda: door.inside["mail"] == 2)
        states = Counter([(await job_of(disk, receipt.id)).state.value for receipt in receipts])
        assert states == {"running": 2, "queued": 8}
        door.open.set()
        for receipt in receipts:
            job = await ended(disk, receipt.id)
            assert (job.attempts, job.deferrals) == (1, 0)
    assert door.most == {"mail": 2}


async def test_the_next_jobs_are_claimed_while_the_first_begin(disk, monkeypatch):
    """A database that waits until all attempts have begun could have claimed the next ones meanwhile."""
    events: list[str] = []
    claim = Store.claim

    def noted(store: Store, request: ClaimRequest) -> Any:
        events.append("claim")
        return claim(store, request)

    @disk.handler("mail")
    async def mail(_job):
        events.append("run")

    await disk.enqueue_many("mail", list(range(600)))
    monkeypatch.setattr(Store, "claim", noted)
    async with disk.worker(concurrency=512):
        await seen(lambda: events.count("run") == 600)
    assert events[:3] == ["claim", "claim", "run"]


class Claims:
    """Notes how many claims of a worker are under way at once, and what they may bring."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open: list[ClaimRequest] = []
        self.most = 0
        self.largest = 0
        claim = Store.claim

        def noted(store: Store, request: ClaimRequest) -> Any:
            self.open.append(request)
            self.most = max(self.most, len(self.open))
            self.largest = max(self.largest, sum(demand.slots for each in self.open for demand in each.demands))
            answer = claim(store, request)
            answer.start().add_done_callback(lambda _answer: self.open.remove(request))
            return answer

        monkeypatch.setattr(Store, "claim", noted)


async def test_a_second_claim_stands_in_line_where_claims_have_a_writer_of_their_own(sf, monkeypatch):
    """That writer would do nothing while the jobs of the first begin. A file has one writer, which has enough to do."""
    claims = Claims(monkeypatch)
    ran: Counter[int] = Counter()

    @sf.handler("mail")
    async def mail(job):
        ran[job.payload] += 1

    await sf.enqueue_many("mail", list(range(3000)))
    async with sf.worker(concurrency=512):
        await seen(lambda: ran.total() >= 3000)
    assert claims.most == (2 if store_of(sf).location.is_server() else 1)
    assert claims.largest <= 512
    assert [*ran.values()] == [1] * 3000


async def test_one_slow_queue_never_holds_up_another(disk):
    door, blocked, go = Doorway(), threading.Event(), threading.Event()
    disk.handler("slow")(door)

    @disk.handler("stuck")
    def stuck(_job):
        blocked.set()
        go.wait(30)

    @disk.handler("quick")
    def quick(_job):
        return "done"

    for queue in ("slow", "stuck"):
        await disk.enqueue_many(queue, list(range(20)))
    async with disk.worker(concurrency=2):
        await seen(lambda: door.inside["slow"] == 2 and blocked.is_set())
        for receipt in await disk.enqueue_many("quick", list(range(20))):
            assert (await ended(disk, receipt.id)).result == "done"
        door.open.set()
        go.set()


async def test_handlers_of_one_queue_each_get_their_own_jobs(disk):
    told: list[tuple[str, Any]] = []

    @disk.handler("mail")
    async def letter(job):
        told.append(("letter", job.payload))

    @disk.handler("mail", name="parcel")
    async def parcel(job):
        told.append(("parcel", job.payload))

    async with disk.worker():
        receipts = [await letter.enqueue(1), await parcel.enqueue(2), await disk.enqueue("mail", 3, handler="parcel")]
        for receipt in receipts:
            await ended(disk, receipt.id)
    assert sorted(told) == [("letter", 1), ("parcel", 2), ("parcel", 3)]


async def test_a_worker_can_be_given_some_queues_only(disk):
    for name in ("mail", "print"):
        disk.handler(name)(Doorway())
    async with disk.worker(queues=["mail"], grace=0):
        mail, paper = await disk.enqueue("mail"), await disk.enqueue("print")
        await reached(disk, mail.id, "running")
        assert (await job_of(disk, paper.id)).state == "queued"


@pytest.mark.usefixtures("no_poll")
async def test_an_enqueue_wakes_the_worker(disk):
    disk.handler("mail")(lambda job: job.payload)
    async with disk.worker(concurrency=2):
        for number in range(300):
            receipt = await disk.enqueue("mail", number)
            if number % 3 == 0:
                assert (await ended(disk, receipt.id)).result == number
        assert (await ended(disk, receipt.id)).state == "completed"
        sync = await asyncio.to_thread(disk.enqueue_sync, "mail", "sync")
        assert (await ended(disk, sync.id)).result == "sync"


@pytest.mark.usefixtures("no_poll")
async def test_a_delayed_job_starts_when_it_is_due(disk):
    disk.handler("mail")(lambda _job: None)
    async with disk.worker():
        later = await disk.enqueue("mail", delay=0.4)
        sooner = await disk.enqueue("mail", delay=0.2)
        now = await disk.enqueue("mail")
        jobs = [await ended(disk, receipt.id) for receipt in (now, sooner, later)]
    waits = [stamp(job.claimed_at) - stamp(job.created_at) for job in jobs]
    assert waits[0] < 0.2 <= waits[1] < 0.4 <= waits[2]


@pytest.mark.usefixtures("no_poll")
async def test_a_retry_starts_when_it_is_due(disk):
    disk.queue("mail", backoff=fixed(0.2))

    @disk.handler("mail")
    async def handler(job):
        if job.attempt < 3:
            raise Transient("not yet")

    async with disk.worker():
        job = await ended(disk, (await disk.enqueue("mail")).id)
    starts = [stamp(line.at) for line in job.history] + [stamp(job.claimed_at)]
    for line, start in zip(job.history, starts[1:], strict=True):
        assert start - stamp(line.at) >= (line.delay or 0) >= 0.18
    assert (job.state, job.attempts) == ("completed", 3)


@pytest.mark.usefixtures("no_poll")
async def test_a_failing_job_goes_behind_waiting_work(disk):
    order: list[str] = []
    disk.queue("mail", backoff=lambda _repeat: 0)

    @disk.handler("mail")
    async def handler(job):
        order.append(job.payload)
        if job.payload == "failing" and job.attempt == 1:
            raise Transient("once")

    receipts = await disk.enqueue_many("mail", ["failing", "a", "b", "c"])
    async with disk.worker(concurrency=1):
        for receipt in receipts:
            await ended(disk, receipt.id)
    assert order == ["failing", "a", "b", "c", "failing"]


class AskedStore:
    """A store whose claims are answered by the test."""

    def __init__(self) -> None:
        self.orders: list[ClaimRequest] = []
        self.answers: asyncio.Queue[ClaimResult | Exception] = asyncio.Queue()

    def claim(self, order: ClaimRequest) -> Passed:
        return Passed(self._answered(order))

    async def _answered(self, order: ClaimRequest) -> ClaimResult:
        self.orders.append(order)
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stand(self, order: ClaimRequest) -> StandingClaim:
        claims = StandingClaims()
        standing = StandingClaim(claim, [order], claims.put, single=True)
        standing.claims = claims
        return standing


NOTHING = ClaimResult(claims=[], rules={}, next_due=None)


def claimer_of(store: Any) -> Claimer:
    doors, ready = QueueGates({}, Sender().ask), Readiness(Registry(), partial(says_no, sender=Sender()), monotonic)
    lanes: dict[str, tuple[str, ...]] = {"mail": ("mail",)}
    begin = partial(Claimer, store, "me", lanes, elsewhere=(), slots=4, start=lambda *_: None)
    return begin(give_back=lambda *_: None, doors=doors, readiness=ready, refused=lambda _error: None)


async def test_a_hint_that_comes_while_a_claim_is_under_way_is_not_lost():
    store = AskedStore()
    claimer = claimer_of(store)
    claimer.kick()
    await seen(lambda: len(store.orders) == 1)
    claimer.note_hint({"mail": 0.0})
    store.answers.put_nowait(NOTHING)
    await seen(lambda: len(store.orders) == 2)
    store.answers.put_nowait(NOTHING)
    await seen(lambda: claimer.answers == 2)
    assert len(store.orders) == 2, "and without a hint it does not ask again"
    await claimer.stop()


@pytest.mark.parametrize(
    ("error", "counted"), [(StoreUnavailable("locked", definite=True), 0), (LookupError("nobody foresaw this"), 1)]
)
async def test_a_claim_that_failed_is_made_again(monkeypatch, error, counted):
    monkeypatch.setattr("standfast.worker.claimer.PAUSE_AFTER_REFUSAL", 0.01)
    store = AskedStore()
    claimer = claimer_of(store)
    claimer.kick()
    store.answers.put_nowait(error)
    await seen(lambda: len(store.orders) == 2)
    store.answers.put_nowait(NOTHING)
    await seen(lambda: claimer.answers == 2)
    assert claimer.failures == counted
    await claimer.stop()


async def test_a_claim_that_fails_does_not_keep_its_worker_from_leaving():
    store = AskedStore()
    claimer = claimer_of(store)
    claimer.kick()
    await seen(lambda: len(store.orders) == 1)
    store.answers.put_nowait(LookupError("nobody foresaw this"))
    await claimer.stop()
    assert (claimer.failures, len(store.orders)) == (1, 1)


@pytest.mark.usefixtures("no_poll")
async def test_a_job_for_an_idle_worker_is_claimed_by_the_transaction_that_brings_it(disk):
    disk.handler("mail")(lambda _job: None)
    async with disk.worker() as worker:
        await seen(lambda: idle(worker))
        receipt = await disk.enqueue("mail")
        job = await ended(disk, receipt.id)
    assert stamp(job.claimed_at) == stamp(job.created_at)


@pytest.mark.usefixtures("no_poll")
async def test_a_job_is_run_once_although_the_commit_that_brought_and_claimed_it_is_in_doubt(disk, monkeypatch):
    ran: list[str] = []
    disk.queue("mail", lease=1)  # so that the worker compares often what it holds
    disk.handler("mail")(lambda job: ran.append(job.id))
    commit, fail = type(disk._store._engine)._commit, iter([True])  # noqa: SLF001 - the fault lies inside

    def doubtful(engine: Engine[Any], connection: Any) -> None:
        commit(engine, connection)
        if next(fail, False):
            raise CommitUnknown from OSError("the answer is lost")

    async with disk.worker() as worker:
        await seen(lambda: idle(worker))
        monkeypatch.setattr(type(disk._store._engine), "_commit", doubtful)  # noqa: SLF001
        receipt = await disk.enqueue("mail")
        job = await ended(disk, receipt.id)
    assert (job.state, ran) == ("completed", [receipt.id])


@pytest.mark.usefixtures("no_poll")
async def test_a_worker_that_left_claims_nothing_of_what_comes_afterwards(disk):
    disk.handler("mail")(lambda _job: None)
    async with disk.worker() as worker:
        await seen(lambda: idle(worker))
    receipt = await disk.enqueue("mail")
    assert receipt.state == "queued"
    assert (await job_of(disk, receipt.id)).state == "queued"


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "stopped"])
async def test_a_worker_whose_loop_has_ended_keeps_no_job_from_the_others(url, closed):
    """It did not drain, and its claim still waits in this process: what it took would stay until its lease is over."""

    async def work() -> None:
        theirs.handler("mail")(lambda _job: None)
        worker = theirs.worker()
        await worker.__aenter__()
        await seen(lambda: idle(worker))

    def abandoned() -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(work())
        if closed:
            loop.close()
        return loop

    theirs = Standfast(url)
    loop = await asyncio.to_thread(abandoned)
    async with Standfast(url) as here:
        here.handler("mail")(lambda _job: None)
        receipt = await here.enqueue("mail")
        async with here.worker():
            assert (await ended(here, receipt.id)).attempts == 1
    loop.close()
    store_of(theirs).close()


@pytest.mark.parametrize(("claimed", "work"), [(["a"], {}), (["older"], {"mail": 0.0})])
def test_other_workers_are_woken_unless_all_that_came_was_claimed(claimed, work):
    """A claim may take a job that came before, of another handler than the newcomer's."""

    @writes()
    def enqueue(round_, items):
        yield from ()
        round_.notices[NoticeKind.ENQUEUED, "mail"] += ["a"]
        round_.work["mail"] = 0.0
        return items

    @writes()
    def take(round_, items):
        yield from ()
        round_.notices[NoticeKind.CLAIMED, "mail"] += claimed
        return items

    round_ = Round(1.0, 0.0, "", work={})
    script = run_round(round_, [Call(enqueue, ["a"])], lambda _round: [Call(take, [ClaimRequest("me", ())])])
    while next(script, None) is not None:
        pass
    assert round_.work == work


async def test_a_worker_without_slots_is_refused(disk):
    for concurrency in (0, -1):
        with pytest.raises(
            ConfigurationError, match=f"concurrency must be at least 1 slot per queue, not {concurrency}"
        ):
            disk.worker(concurrency=concurrency)


async def test_a_lost_hint_is_made_good_by_the_poll(disk, monkeypatch):
    monkeypatch.setattr(worker_module, "POLL_EVERY", 0.05)
    disk.handler("mail")(lambda _job: None)
    async with disk.worker() as worker:
        await seen(lambda: idle(worker))
        with deaf(disk, worker):
            assert (await ended(disk, (await disk.enqueue("mail")).id)).state == "completed"


class Suspended(SystemClock):
    """A clock that goes on while the machine sleeps, as the loop's timers do not."""

    slept = 0.0

    def elapsed(self) -> float:
        return super().elapsed() + self.slept

    def wall(self) -> float:
        return super().wall() + self.slept


async def test_a_job_that_came_due_while_the_machine_slept_starts(path, monkeypatch):
    monkeypatch.setattr(worker_module, "POLL_EVERY", 0.05)
    clock = Suspended()
    async with Standfast(path, clock=clock) as sf:
        sf.handler("mail")(lambda _job: None)
        async with sf.worker() as worker:
            receipt = await sf.enqueue("mail", delay=3600)
            before = looked(worker)
            await seen(lambda: looked(worker) != before and idle(worker))
            clock.slept = 4000.0
            assert (await ended(sf, receipt.id)).state == "completed"


async def test_nothing_is_started_under_a_lease_that_ran_out_while_the_machine_slept(path):
    """The monotonic clock stands still meanwhile; leases do not."""
    clock = Suspended()
    async with Standfast(path, clock=clock) as sf, sf.worker() as worker:
        assert covers(worker, 90.0)
        clock.slept = 80.0
        assert not covers(worker, 90.0)


@pytest.mark.parametrize("name", ["$x", 'pay"now', "[1]", "a.b", "zahlung für später"])
async def test_any_name_keeps_what_its_handler_declared(disk, name):
    runs: list[str] = []

    @disk.handler(name, replay="manual", timeout=7)
    async def handler(_job):
        runs.append(name)
        raise KeyError

    disk.handler("other")(lambda _job: None)
    async with disk.worker():
        first, other = await disk.enqueue(name), await disk.enqueue("other")
        assert (await ended(disk, first.id)).reason == "unknown_commit_state"
        assert (await ended(disk, other.id)).state == "completed"
    assert runs == [name]
