"""The test kit that users write their own tests with."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest

from standfast import ConfigurationError, Job, Permanent, Snooze, Standfast, Transient, exponential, no_backoff
from standfast.testing import FrozenClock, assert_enqueued, drain, in_memory, memory
from standfast.testing.kit import InMemory
from tests.waiting import job_of
from tests.worker.theirs import plain

ASKS_FOR_APPROVAL = """
version: v1
replay_rules:
  - match: {}
    decision: require_approval
    approver_group: ops
"""


@pytest.fixture
async def sf():
    async with memory() as store:
        yield store


# --- memory


async def test_memory_needs_no_file_and_its_clock_stands_still(sf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert isinstance(sf, InMemory)
    assert isinstance(sf.clock, FrozenClock)
    receipts = [await sf.enqueue("mail", number) for number in range(3)]
    assert len({(await job_of(sf, receipt.id)).created_at for receipt in receipts}) == 1
    assert list(tmp_path.iterdir()) == []


async def test_each_memory_is_a_store_of_its_own(sf):
    async with memory() as other:
        receipt = await sf.enqueue("mail")
        assert await other.status(receipt.id) is None
        assert not await other.jobs()


async def test_memory_can_begin_at_a_moment_of_ones_own():
    clock = FrozenClock()
    clock.advance("7d")
    async with memory(clock) as sf:
        receipt = await sf.enqueue("mail")
        assert (await job_of(sf, receipt.id)).created_at.timestamp() == clock.wall()


# --- the frozen clock


def test_the_clock_moves_only_when_told():
    clock = FrozenClock()
    wall, elapsed = clock.wall(), clock.elapsed()
    clock.advance(90)
    clock.advance("1h 30m")
    assert (clock.wall() - wall, clock.elapsed() - elapsed) == (5490, 5490)


def test_the_wall_clock_can_jump_alone():
    clock = FrozenClock()
    wall, elapsed = clock.wall(), clock.elapsed()
    clock.jump_wall(-3600)
    assert (clock.wall() - wall, clock.elapsed() - elapsed) == (-3600, 0)


def test_a_reboot_begins_the_time_since_boot_anew():
    clock = FrozenClock()
    boot, wall = clock.boot(), clock.wall()
    clock.reboot()
    assert (clock.elapsed(), clock.wall()) == (0, wall)
    assert clock.boot() != boot


# --- drain


async def test_drain_runs_all_that_is_due_and_counts_it(sf):
    runs: list[object] = []
    for queue in ("mail", "print"):
        sf.handler(queue)(lambda job: runs.append(job.payload))
    await sf.enqueue_many("mail", list(range(150)))
    await sf.enqueue("print", "x")
    await sf.enqueue("print", "later", delay=60)
    assert await drain(sf) == {"mail": 150, "print": 1}
    assert len(runs) == 151
    assert await drain(sf) == {}


async def test_drain_runs_repeats_until_time_would_have_to_pass(sf):
    sf.queue("hasty", attempts=3, backoff=no_backoff())
    sf.queue("patient", attempts=3, backoff=exponential(base=10))

    async def fails(_job):
        raise Transient("down")

    sf.handler("hasty")(fails)
    sf.handler("patient")(fails)
    hasty, patient = await sf.enqueue("hasty"), await sf.enqueue("patient")
    assert await drain(sf) == {"hasty": 3, "patient": 1}
    assert (await job_of(sf, hasty.id)).state == "dead"
    assert (await job_of(sf, patient.id)).view == "retry_pending"
    sf.clock.advance(10)
    assert await drain(sf) == {"patient": 1}
    sf.clock.advance(20)
    assert await drain(sf) == {"patient": 1}
    assert (await job_of(sf, patient.id)).state == "dead"


async def test_drain_runs_what_handlers_enqueue(sf):
    @sf.handler("first")
    async def first(_job):
        await sf.enqueue_many("second", [1, 2])

    sf.handler("second")(lambda _job: None)
    await sf.enqueue("first")
    assert await drain(sf) == {"first": 1, "second": 2}


async def test_drain_leaves_no_trace(sf):
    """Time stands still, nobody is left on the list of workers, and no attempt was given back on the way."""
    sf.handler("mail")(lambda _job: None)
    before = sf.clock.wall()
    receipts = await sf.enqueue_many("mail", list(range(300)))
    await drain(sf)
    jobs = [await job_of(sf, receipt.id) for receipt in receipts]
    assert {(job.state.value, job.attempts, job.deferrals, len(job.history)) for job in jobs} == {
        ("completed", 1, 0, 0)
    }
    assert sf.clock.wall() == before
    assert (await sf.health())["issues"] == []


async def test_drain_does_not_wait_for_a_snooze(sf):
    async def not_now(_job):
        return Snooze(1)

    sf.handler("mail")(not_now)
    await sf.enqueue("mail")
    assert await drain(sf) == {"mail": 1}


async def test_drain_waits_for_slow_handlers(sf):
    @sf.handler("mail")
    async def slow(_job):
        await asyncio.sleep(0.05)
        return "done"

    receipt = await sf.enqueue("mail")
    await drain(sf)
    assert (await job_of(sf, receipt.id)).result == "done"


async def test_drain_works_on_a_file_too(tmp_path):
    async with Standfast(str(tmp_path / "queue.db")) as sf:
        sf.handler("mail")(lambda _job: None)
        await sf.enqueue("mail")
        assert await drain(sf) == {"mail": 1}


# --- assert_enqueued


async def test_a_job_is_found_by_what_it_is_and_by_what_it_carries(sf):
    await sf.enqueue("mail", {"to": "ann", "copies": 2}, priority=5, session="s-1")
    await sf.enqueue("mail", {"to": "bob"})
    assert (await assert_enqueued(sf, "mail")).payload == {"to": "bob"}, "the newest"
    assert (await assert_enqueued(sf, "mail", to="ann")).priority == 5
    assert (await assert_enqueued(sf, "mail", to="ann", session="s-1", state="queued")).payload["copies"] == 2
    assert (await assert_enqueued(sf, "mail", payload={"to": "bob"})).session is None


async def test_what_is_not_there_fails_and_names_what_is(sf):
    await sf.enqueue("mail", {"to": "bob"})
    with pytest.raises(AssertionError, match="bob"):
        await assert_enqueued(sf, "mail", to="ann")
    with pytest.raises(AssertionError, match="no job of 'print'"):
        await assert_enqueued(sf, "print")
    with pytest.raises(AssertionError):
        await assert_enqueued(sf, "mail", to="bob", priority=9)


async def test_a_payload_that_is_no_dict_can_be_looked_for(sf):
    await sf.enqueue("mail", [1, 2])
    assert (await assert_enqueued(sf, "mail", payload=[1, 2])).queue == "mail"
    with pytest.raises(AssertionError):
        await assert_enqueued(sf, "mail", to="ann")


async def test_a_key_that_is_missing_is_not_the_same_as_none(sf):
    await sf.enqueue("mail", {"to": None})
    await sf.enqueue("mail", {"from": "bob"})
    assert (await assert_enqueued(sf, "mail", to=None)).payload == {"to": None}


# --- an application's own queue


async def test_an_applications_own_queue_is_in_memory_for_a_block(tmp_path):
    """Module-level code holds this very object, and its handlers enqueue through it."""
    app = Standfast(tmp_path / "real.db")
    app.queue("mail", attempts=2, backoff=exponential(base=60))
    sent: list[str] = []

    @app.handler("mail")
    def send(job):
        sent.append(job.payload["to"])
        if len(sent) == 1:
            raise Transient("busy")

    async with in_memory(app) as clock:
        receipt = await send.enqueue({"to": "ann"})
        await assert_enqueued(app, "mail", to="ann", max_attempts=2)
        await drain(app)
        clock.advance("1m")
        await drain(app)
        assert (await job_of(app, receipt.id)).state == "completed"
        app.handler("only here")(print)
    assert sent == ["ann", "ann"]
    assert list(tmp_path.iterdir()) == []
    async with app:
        assert await app.status(receipt.id) is None
        assert await app.queues.list() == ["mail"]
    async with in_memory(app):
        assert await app.jobs() == []


# --- drain: priority, redrives


@pytest.mark.parametrize("plain", [False, True])
async def test_drain_runs_the_jobs_of_a_queue_by_priority(sf: InMemory, plain):
    runs: list[int] = []

    async def awaited(job: Job) -> None:
        runs.append(job.payload)

    sf.handler("mail")((lambda job: runs.append(job.payload)) if plain else awaited)
    for priority in (1, 5, 10, 3):
        await sf.enqueue("mail", priority, priority=priority)
    await drain(sf)
    assert runs == [10, 5, 3, 1]


async def test_drain_runs_a_job_that_waits_for_another_of_its_queue(sf: InMemory):
    done = asyncio.Event()

    @sf.handler("mail")
    async def mail(job: Job) -> None:
        if job.payload == "waits":
            await done.wait()
        done.set()

    await sf.enqueue("mail", "waits", priority=9)
    await sf.enqueue("mail", "frees it")
    assert await drain(sf) == {"mail": 2}


async def test_drain_finishes_a_redrive_that_was_approved(sf: InMemory):
    broken = True

    @sf.handler("mail")
    async def mail(_job: Job) -> None:
        if broken:
            raise Permanent("no")

    for n in range(7):
        await sf.enqueue("mail", n)
    await drain(sf)
    await sf.policy.load(ASKS_FOR_APPROVAL)
    broken = False
    plan = await sf.dead_letters.plan({})
    redrive = await sf.dead_letters.redrive(plan["token"], by="ann", canary=2)
    [approval] = await sf.approvals.list()
    await sf.approvals.approve(approval["id"], by="ben", groups=("ops",))
    assert await drain(sf) == {"mail": 7}
    progress = await redrive.progress()
    assert (progress["state"], progress["completed"]) == ("finished", 7)


async def test_the_rate_of_a_redrive_holds_it_back_until_time_passes(sf: InMemory):
    sf.handler("mail")(_refuse_once())
    for n in range(3):
        await sf.enqueue("mail", n)
    await drain(sf)
    redrive = await sf.dead_letters.redrive((await sf.dead_letters.plan({}))["token"], by="ann", rate="1/s")
    assert await drain(sf) == {"mail": 1}
    for _ in range(2):
        sf.clock.advance(1)
        assert await drain(sf) == {"mail": 1}
    sf.clock.advance(1)
    await drain(sf)
    assert (await redrive.progress())["state"] == "finished"


def _refuse_once() -> Callable[[Job], None]:
    refused: set[int] = set()

    def refuse(job: Job) -> None:
        if job.payload not in refused:
            refused.add(job.payload)
            raise Permanent("no")

    return refuse


# --- tx=


@pytest.mark.parametrize("place", [":memory:", "app.db"])
async def test_a_job_of_a_transaction_is_there_once_it_is_committed(sf: InMemory, tmp_path, place):
    ran: list[object] = []
    sf.handler("mail")(lambda job: ran.append(job.payload))
    with closing(sqlite3.connect(place if place == ":memory:" else tmp_path / place)) as connection:
        receipt = await sf.enqueue("mail", "hello", tx=connection)
        assert receipt.outcome == "deferred"
        assert await drain(sf) == {}, "it is not committed yet"
        connection.commit()
        assert (await assert_enqueued(sf, "mail")).id == receipt.id
        await sf.enqueue("mail", "never", tx=connection)
        connection.rollback()
        assert await drain(sf) == {"mail": 1}
        assert await drain(sf) == {}
    assert ran == ["hello"]


async def test_a_database_in_memory_that_was_closed_brings_nothing(sf: InMemory) -> None:
    with closing(sqlite3.connect(":memory:")) as connection, connection:
        await sf.enqueue("mail", tx=connection)
    assert await drain(sf) == {}


async def test_a_job_is_there_also_if_the_connection_of_its_transaction_is_closed(sf: InMemory, tmp_path):
    sf.handler("mail")(print)
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection, connection:
        await sf.enqueue("mail", tx=connection)
    assert await drain(sf) == {"mail": 1}


async def test_an_application_on_postgresql_is_tested_in_memory_with_its_own_transactions(postgres_url):
    """There is no transaction to join: the job is there at once."""
    app = Standfast("postgresql://localhost/never_opened")
    app.handler("mail")(lambda job: job.payload)
    async with in_memory(app), await psycopg.AsyncConnection.connect(plain(postgres_url)) as connection:
        receipt = await app.enqueue("mail", "hello", tx=connection)
        assert receipt.outcome == "accepted"
        assert await drain(app) == {"mail": 1}


async def test_what_no_store_takes_as_a_transaction_is_refused_in_memory_too(sf: InMemory):
    with pytest.raises(ConfigurationError, match="tx must be a connection of sqlite3"):
        await sf.enqueue("mail", tx=object())
    assert await sf.jobs() == []
