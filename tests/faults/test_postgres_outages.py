"""Bad days of server and network: what was acknowledged stays, nothing is doubled, nobody hangs, all recover."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from standfast.application.wings import store_at
from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.job import Claim, NewJob
from standfast.outcome import Succeeded
from standfast.rules import DEFAULTS
from standfast.spine import intake
from standfast.spine.apply import apply
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import connect as connect_as_the_product
from standfast.store.postgres.connection import opening
from standfast.store.store import Store
from standfast.wings.jobs import scripts as operations
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.notices.journal import journal
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.records import reads
from standfast.worker import upkeep
from standfast.worker.settling import settle
from standfast.worker.upkeep import WorkerCard
from tests import postgres
from tests.faults import outages
from tests.faults.nursery import Child, Nursery, nursery, reported, until
from tests.faults.proxy import Proxy
from tests.postgres import PostgresServer, connect, fresh_schema, in_schema

DEADLINE = 5.0
RECOVERY = 10.0
COMMIT = b"COMMIT\0"
"""The statement as it crosses, with its end: every BEGIN names READ COMMITTED."""
SLACK = 0.7
"""Seconds a busy machine may add."""

ORDER = ClaimRequest("worker", (QueueDemand("mail", ("mail",), 10),))
CARD = WorkerCard("worker", "host", 1, "[]", "{}")

pytestmark = pytest.mark.usefixtures("_quiet")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have callers give up sooner, where it is not their patience that is looked at."""
    monkeypatch.setattr("standfast.store.store.PATIENCE", 1.0)
    monkeypatch.setattr("standfast.store.postgres.server.PATIENCE", 1.0)


@pytest.fixture(scope="module")
def children() -> Iterator[Nursery]:
    with nursery() as started:
        yield started


@contextmanager
def opened(url: str) -> Iterator[Store]:
    store = store_at(url)
    store.open()
    yield store
    store.close()


def job(name: str, **given: Any) -> NewJob:
    return NewJob(id=name, queue="mail", handler="mail", payload="1", **given)


def ask(url: str, question: str) -> list[tuple[Any, ...]]:
    with connect(url) as connection:
        return connection.execute(question.encode()).fetchall()


def tell(url: str, *statements: str) -> None:
    with connect(url) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def done(claim: Claim) -> Any:
    return settle(claim, Succeeded("1"), DEFAULTS, 0.0)


async def again(call: Callable[[], Awaitable[Any]], within: float = RECOVERY) -> Any:
    """Call until it is answered; nobody else helps."""
    give_up = time.monotonic() + within
    while True:
        try:
            return await call()
        except StoreUnavailable:
            assert time.monotonic() < give_up
            await asyncio.sleep(0.05)


async def refused_in_time(*calls: Callable[[], Awaitable[Any]]) -> None:
    """See that each of these calls ends by its deadline, with the error that says so."""

    async def refused(call: Callable[[], Awaitable[Any]]) -> float:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await call()
        return time.monotonic() - began

    took = await asyncio.gather(*(refused(call) for call in calls))
    assert [seconds for seconds in took if seconds > DEADLINE + SLACK] == []


# --- the books


def balance(url: str, place: Path) -> None:
    """Balance what was acknowledged and done, as others wrote it down, with what the store says."""
    rows = ask(url, "SELECT b.id, b.idempotency_key, j.state, j.attempts FROM body AS b JOIN job AS j ON j.n = b.n")
    accepted = {line["key"]: line["id"] for line in reported(place / "accepted")}
    assert len(accepted) > 50
    assert Counter(key for _, key, *_ in rows).most_common(1)[0][1] == 1, "a row is doubled"
    kept = {key: job_id for job_id, key, *_ in rows}
    assert {key: kept.get(key) for key in accepted} == accepted, "something acknowledged is lost"
    assert kept.keys() <= {line["key"] for line in reported(place / "offered")}
    assert {state for _, _, state, _ in rows} == {"completed"}
    ran = reported(place / "ran")
    ends = Counter((line["id"], line["token"]) for line in ran if line["step"] == "end")
    assert {job_id for job_id, *_ in rows} == {job_id for job_id, _ in ends}, "something never ran"
    assert ends.most_common(1)[0][1] == 1, "an attempt ran twice"
    running: dict[str, str] = {}
    for line in ran:
        if line["step"] == "start":
            assert line["id"] not in running, "a job ran beside itself"
            running[line["id"]] = line["by"]
        else:
            del running[line["id"]]


class Company:
    """Producers and workers on one store."""

    def __init__(self, children: Nursery, url: str, place: Path) -> None:
        self._url = url
        self._place = place
        self._producers = [children.spawn(outages.produce, url, place, f"producer-{n}") for n in range(2)]
        self._workers = [children.spawn(outages.work, url, place, f"worker-{n}") for n in range(2)]
        self.works()

    def works(self, within: float = RECOVERY) -> None:
        """Wait until somebody's job is accepted now, and both workers finish something."""
        since = time.time()

        def proven() -> bool:
            accepted = any(line["at"] > since for line in reported(self._place / "accepted"))
            ended = {
                line["by"] for line in reported(self._place / "ran") if line["at"] > since and line["step"] == "end"
            }
            return accepted and len(ended) == len(self._workers)

        until(proven, within=within)

    def leaves(self) -> None:
        """Let the producers go, and the workers once they have finished everything."""
        (self._place / "stop").touch()
        assert [producer.wait() for producer in self._producers] == [0, 0]
        until(self._finished)
        for worker in self._workers:
            worker.kill()

    def _finished(self) -> bool:
        return ask(self._url, "SELECT count(*) FROM job WHERE state <> 'completed'") == [(0,)]


@pytest.mark.long
def test_crashes_and_cut_connections_under_load(own_server, own_url, children, tmp_path):
    company = Company(children, own_url, tmp_path)
    own_server.terminate_backends()
    company.works()
    own_server.stop("immediate")
    time.sleep(0.5)
    own_server.start()
    company.works()
    own_server.terminate_backends()
    own_server.stop("immediate")
    own_server.start()
    company.works()
    company.leaves()
    balance(own_url, tmp_path)
    slow = [line for line in reported(tmp_path / "refused") if line["took"] > DEADLINE + SLACK]
    assert slow == []


@pytest.mark.long
def test_a_network_that_falls_silent_under_load(own_url, children, tmp_path):
    with Proxy(own_url) as proxy:
        company = Company(children, proxy.url, tmp_path)
        proxy.fall_silent()
        proxy.heal()
        company.works()
        company.leaves()
        balance(own_url, tmp_path)
    slow = [line for line in reported(tmp_path / "refused") if line["took"] > DEADLINE + SLACK]
    assert slow == []


# --- leases


def waiting_job(children: Nursery, url: str, place: Path, lease: float) -> tuple[list[Child], str]:
    """Have one of two workers run a job that waits; give the workers and its id."""
    workers = [children.spawn(outages.work, url, place, f"worker-{n}", lease) for n in range(2)]
    until(lambda: len(reported(place / "working")) == 2)
    with opened(url) as store:
        waits = NewJob(id="long", queue="post", handler="post", payload='{"key":"long","waits":true}')
        store.write_all(intake.enqueue, [waits]).result()
        until(lambda: reported(place / "ran"))
    return workers, "long"


@pytest.mark.long
def test_an_outage_longer_than_the_lease_costs_no_live_worker_its_job(own_server, own_url, children, tmp_path):
    lease = 1.5
    workers, _ = waiting_job(children, own_url, tmp_path, lease)
    own_server.stop("immediate")
    time.sleep(2 * lease)
    own_server.start()

    def beats() -> list[tuple[Any, ...]]:
        return ask(own_url, "SELECT count(*) FROM worker WHERE beat_at > extract(epoch FROM clock_timestamp()) - 1")

    until(lambda: beats() == [(2,)], within=RECOVERY)
    since = ask(own_url, "SELECT max(at) FROM upkeep WHERE name = 'sweep'")[0][0]
    until(lambda: ask(own_url, "SELECT max(at) FROM upkeep WHERE name = 'sweep'")[0][0] > since + 2 * lease)
    assert ask(own_url, "SELECT state, attempts FROM job") == [("running", 1)]
    (tmp_path / "go").touch()
    until(lambda: ask(own_url, "SELECT state, attempts FROM job") == [("completed", 1)])
    assert [line["step"] for line in reported(tmp_path / "ran")] == ["start", "end"]
    for worker in workers:
        worker.kill()


@pytest.mark.long
def test_heartbeats_get_over_a_silent_network(own_url, children, tmp_path):
    with Proxy(own_url) as proxy:
        workers, _ = waiting_job(children, proxy.url, tmp_path, 12.0)
        proxy.fall_silent()
        proxy.heal()
        [(silent_at,)] = ask(own_url, "SELECT extract(epoch FROM clock_timestamp())::double precision")
        until(
            lambda: all(beat_at > silent_at + 0.5 for (beat_at,) in ask(own_url, "SELECT beat_at FROM worker")),
            within=RECOVERY,
        )
        (tmp_path / "go").touch()
        until(lambda: ask(own_url, "SELECT state, attempts FROM job") == [("completed", 1)], within=RECOVERY)
        for worker in workers:
            worker.kill()


# --- answers that do not come


@pytest.mark.parametrize(
    "cut", [pytest.param(True, id="cut off"), pytest.param(False, id="left waiting", marks=pytest.mark.long)]
)
async def test_a_commit_whose_answer_is_lost_is_found_again(own_url, cut):
    with Proxy(own_url) as proxy, opened(proxy.url) as store:
        proxy.swallow_answer(COMMIT, cut=cut)
        await again(lambda: store.write_all(intake.enqueue, [job("first"), job("second")]))
        assert proxy.met
        assert ask(own_url, "SELECT count(*), count(DISTINCT id) FROM body") == [(2, 2)]
        claims = (await store.claim(ORDER)).claims
        assert [claim.id for claim in claims] == ["first", "second"]
        proxy.swallow_answer(COMMIT, cut=cut)
        landed = await asyncio.wait_for(store.write_all(apply, [done(claim) for claim in claims]), RECOVERY)
        assert landed == [True, True]
        assert proxy.met
        assert ask(own_url, "SELECT sum(value) FROM counted WHERE name = 'completed'") == [(2,)]


async def test_a_claim_whose_answer_is_lost_is_not_forgotten(own_url):
    with Proxy(own_url) as proxy, opened(proxy.url) as store:
        await store.write_all(intake.enqueue, [job("first")])
        proxy.swallow_answer(COMMIT)
        assert (await store.claim(ORDER)).claims == []
        assert [held.id for held in store.write(upkeep.beat, CARD).result().held] == ["first"]


@pytest.mark.long
async def test_a_commit_that_never_arrives_holds_nothing_up_for_long(own_url):
    """The server keeps the locks of a client it does not hear from; it must let go of them by itself."""
    with Proxy(own_url) as proxy, opened(proxy.url) as store:
        await store.write_all(intake.enqueue, [job("first")])
        [claim] = (await store.claim(ORDER)).claims
        proxy.swallow(COMMIT)
        landed = await asyncio.wait_for(store.write_all(apply, [done(claim)]), RECOVERY)
        assert proxy.met
        assert landed == [True]
        assert ask(own_url, "SELECT state FROM job") == [("completed",)]


@pytest.mark.long
async def test_no_call_waits_longer_than_its_deadline_for_a_silent_network(own_url):
    with Proxy(own_url) as proxy, opened(proxy.url) as store:
        await store.write_all(intake.enqueue, [job("first")])
        assert await store.read(queue_scripts.queue_names()) == ["mail"]
        proxy.fall_silent()
        await refused_in_time(
            lambda: store.write_all(intake.enqueue, [job("second")]),
            lambda: store.claim(ORDER),
            lambda: asyncio.to_thread(store.write(intake.enqueue, job("third")).result),
            lambda: asyncio.to_thread(store.write(upkeep.beat, CARD).result),
            lambda: store.read(queue_scripts.queue_names()),
            lambda: store.read(reads.job("first", store.boot())),
            lambda: journal(store, 0, 10),
            lambda: store.read(journal_scripts.last_journal_number()),
            lambda: store.write(operations.hurry, "first"),
        )
        proxy.heal()
        await again(lambda: store.write_all(intake.enqueue, [job("fourth")]))
        assert await again(lambda: store.read(queue_scripts.queue_names())) == ["mail"]
        began = time.monotonic()
    assert time.monotonic() - began < DEADLINE


# --- a server that does not want us


@pytest.fixture
def app_url(own_server: PostgresServer) -> Iterator[str]:
    """Give a place of a user who is no superuser."""
    tell(own_server.url, "CREATE ROLE app LOGIN", "GRANT CREATE ON DATABASE postgres TO app")
    yield in_schema(own_server.url.replace("postgres@", "app@"), fresh_schema())
    tell(own_server.url, "DROP OWNED BY app CASCADE", "DROP ROLE app")


async def test_a_user_who_may_make_nothing_can_use_a_store_that_is_there(own_server, app_url):
    with opened(app_url):
        pass
    tell(own_server.url, "REVOKE CREATE ON DATABASE postgres FROM app")
    with opened(app_url) as store:
        assert len(await store.write_all(intake.enqueue, [job("first")])) == 1


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
async def test_a_server_without_room_for_a_connection_is_asked_again(own_server, app_url):
    with opened(app_url) as store:
        await store.write_all(intake.enqueue, [job("first")])
        tell(own_server.url, "ALTER ROLE app CONNECTION LIMIT 0")
        own_server.terminate_backends()
        await refused_in_time(
            lambda: store.write_all(intake.enqueue, [job("second")]), lambda: store.read(queue_scripts.queue_names())
        )
        assert "too many connections" in (store.trouble or "")
        tell(own_server.url, "ALTER ROLE app CONNECTION LIMIT -1")
        await again(lambda: store.write_all(intake.enqueue, [job("third")]))
        assert await again(lambda: store.read(queue_scripts.queue_names())) == ["mail"]
        assert store.trouble is None


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("setting", "word"),
    [("default_transaction_read_only = on", "read-only"), ("synchronous_commit = off", "synchronous_commit=off")],
)
async def test_a_setting_that_loses_work_or_takes_none_is_refused_at_every_connection(
    own_server, app_url, setting, word
):
    name = setting.split(" ", maxsplit=1)[0]
    with opened(app_url) as store:
        await store.write_all(intake.enqueue, [job("first")])
        tell(own_server.url, f"ALTER ROLE app SET {setting}")
        with pytest.raises((ConfigurationError, StoreUnavailable), match=word):
            store_at(f"{app_url}&application_name=other").open()
        own_server.terminate_backends()
        await refused_in_time(lambda: store.write_all(intake.enqueue, [job("second")]))
        assert word in (store.trouble or "")
        tell(own_server.url, f"ALTER ROLE app RESET {name}")
        await again(lambda: store.write_all(intake.enqueue, [job("third")]))
        assert ask(app_url, "SELECT id FROM body ORDER BY n") == [("first",), ("third",)]


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
async def test_a_server_that_does_not_sync_is_refused_at_every_connection(own_server, own_url, monkeypatch):
    with opened(own_url) as store:
        await store.write_all(intake.enqueue, [job("first")])
        own_server.stop("fast")
        with monkeypatch.context() as patched:
            patched.setitem(postgres.SETTINGS, "fsync", "off")
            own_server.start()
        await refused_in_time(lambda: store.write_all(intake.enqueue, [job("second")]))
        assert "fsync=off" in (store.trouble or "")
        with pytest.raises(ConfigurationError, match="fsync=off"):
            store_at(f"{own_url}&application_name=other").open()
        own_server.stop("fast")
        own_server.start()
        await again(lambda: store.write_all(intake.enqueue, [job("third")]))


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
async def test_a_standby_is_refused_until_it_is_promoted(own_server, own_url):
    with opened(own_url) as store:
        await store.write_all(intake.enqueue, [job("first")])
        own_server.stop("fast")
        (own_server._data / "standby.signal").touch()  # noqa: SLF001 - it is the server's own way
        own_server.start()
        await refused_in_time(lambda: store.write_all(intake.enqueue, [job("second")]))
        assert "standby" in (store.trouble or "")
        with pytest.raises(StoreUnavailable, match="standby"):
            store_at(f"{own_url}&application_name=other").open()
        tell(own_server.url, "SELECT pg_promote()")
        await again(lambda: store.write_all(intake.enqueue, [job("third")]))
        assert ask(own_url, "SELECT id FROM body ORDER BY n") == [("first",), ("third",)]


async def test_another_default_isolation_is_not_ours(own_server, app_url):
    """Scripts look again after they have waited: what they would see of an older snapshot is not so any more."""
    tell(own_server.url, "ALTER ROLE app SET default_transaction_isolation = 'serializable'")
    address = Address.read(app_url)
    with connect_as_the_product(address) as connection:
        before_it_reads, _, _ = opening(address).rpartition(";")
        connection.execute(before_it_reads.encode())
        assert connection.execute("SHOW transaction_isolation").fetchall() == [("read committed",)]


# --- another transaction is in the way


async def test_a_job_that_somebody_holds_holds_nothing_else_up(postgres_url):
    with opened(postgres_url) as store:
        await store.write_all(intake.enqueue, [job("held"), job("free")])
        held, free = (await store.claim(ORDER)).claims
        with connect(postgres_url) as other:
            with other.transaction():
                other.execute("SELECT n FROM job WHERE n = %s FOR UPDATE", (held.n,))
                stuck = asyncio.ensure_future(store.write_all(apply, [done(held)]))
                await asyncio.sleep(0)
                slowest = 0.0
                for turn in range(8):
                    began = time.monotonic()
                    await asyncio.gather(
                        store.write_all(intake.enqueue, [job(f"new-{turn}")]),
                        asyncio.to_thread(store.write(upkeep.beat, CARD).result),
                        store.claim(ORDER),
                        store.write_all(apply, [done(free)]),
                    )
                    slowest = max(slowest, time.monotonic() - began)
                assert slowest < 4.5, "who waits behind the one that is stuck waits until its own deadline, 5 s"
                assert not stuck.done()
            assert await asyncio.wait_for(stuck, RECOVERY) == [True]


@pytest.mark.long
async def test_a_thread_that_somebody_holds_holds_nothing_else_up(postgres_url):
    with opened(postgres_url) as store:
        gate = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' thread:mail:theirs', 57))"
        with connect(postgres_url) as other, other.transaction():
            other.execute(gate.encode())
            began = time.monotonic()
            stuck = asyncio.ensure_future(
                asyncio.wait_for(store.write_all(intake.enqueue, [job("held", thread_key="theirs")]), 60)
            )
            for turn in range(8):
                await store.write_all(intake.enqueue, [job(f"free-{turn}", thread_key="ours")])
            assert time.monotonic() - began < 3.0
            with pytest.raises(StoreUnavailable) as refused:
                await stuck
            assert time.monotonic() - began < DEADLINE + SLACK
        [(ready,)] = ask(postgres_url, "SELECT count(*) FROM job WHERE ready_at IS NOT NULL")
        assert ready == 1 or not refused.value.definite, "it was told that nothing was written, and something was"


async def test_a_due_job_that_somebody_holds_is_not_asked_for_without_pause(postgres_url):
    with opened(postgres_url) as store:
        await store.write_all(intake.enqueue, [job("held", delay=0.01)])
        with connect(postgres_url) as other, other.transaction():
            other.execute("SELECT n FROM job FOR UPDATE")
            await asyncio.sleep(0.05)
            catch = await store.claim(ORDER)
            assert catch.claims == []
            assert catch.next_due is not None
            assert catch.next_due > 0.05
        assert len((await store.claim(ORDER)).claims) == 1


@pytest.mark.usefixtures("impatient")
async def test_a_table_that_somebody_locks_hangs_nobody(postgres_url):
    with opened(postgres_url) as store:
        await store.write_all(intake.enqueue, [job("first")])
        with connect(postgres_url) as other, other.transaction():
            other.execute("LOCK TABLE job IN ACCESS EXCLUSIVE MODE")
            await refused_in_time(
                lambda: store.write_all(intake.enqueue, [job("second")]),
                lambda: store.claim(ORDER),
                lambda: asyncio.to_thread(store.write(upkeep.beat, CARD).result),
                lambda: store.read(reads.job("first", store.boot())),
            )
        await store.claim(ORDER)  # or the claim that was given up has it: it may have been granted the lock at last
        assert ask(postgres_url, "SELECT state FROM job WHERE n = 1") == [("running",)]


# --- two versions


def set_schema(url: str, version: int, readable_by: int) -> None:
    tell(url, f"UPDATE schema SET version = {version}, readable_by = {readable_by}")  # noqa: S608 - numbers


def schema_of(url: str) -> tuple[int, int]:
    [(version, readable_by)] = ask(url, "SELECT version, readable_by FROM schema")
    return version, readable_by


async def test_a_newer_schema_that_we_can_read_is_used_and_left_alone(postgres_url):
    with opened(postgres_url):
        version, _ = schema_of(postgres_url)
    set_schema(postgres_url, version + 1, version)
    with opened(postgres_url) as store:
        await store.write_all(intake.enqueue, [job("first")])
        assert len((await store.claim(ORDER)).claims) == 1
    assert schema_of(postgres_url) == (version + 1, version)


@pytest.mark.usefixtures("impatient")
async def test_a_newer_schema_that_we_cannot_read_is_refused_at_every_connection(own_server, own_url):
    with opened(own_url) as store:
        await store.write_all(intake.enqueue, [job("first")])
        version, readable_by = schema_of(own_url)
        set_schema(own_url, version + 1, version + 1)
        with pytest.raises(
            ConfigurationError, match=f"needs a library that knows schema {version + 1}.*upgrade standfast"
        ):
            store_at(f"{own_url}&application_name=other").open()
        own_server.terminate_backends()
        await refused_in_time(lambda: store.write_all(intake.enqueue, [job("second")]))
        assert "upgrade standfast" in (store.trouble or "")
        set_schema(own_url, version, readable_by)
        await again(lambda: store.write_all(intake.enqueue, [job("third")]))
        assert ask(own_url, "SELECT id FROM body ORDER BY n") == [("first",), ("third",)]
