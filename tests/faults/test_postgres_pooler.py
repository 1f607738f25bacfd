"""Behind a pooler that hands out sessions by the transaction, nothing is left in a session or expected there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from standfast import Job, Standfast, Transient
from standfast.application.wings import store_at
from standfast.errors import StoreUnavailable
from standfast.job import NewJob, Receipt
from standfast.outcome import Succeeded
from standfast.rules import DEFAULTS
from standfast.spine import intake
from standfast.spine.apply import apply
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import connect as connect_as_the_product
from standfast.store.postgres.connection import opening
from standfast.store.store import Store
from standfast.wings.notices.journal import journal
from standfast.wings.records import reads
from standfast.worker import worker as worker_module
from standfast.worker.settling import settle
from tests.faults.pooler import Switching, installed, pgbouncer
from tests.postgres import connect, drop_schema, fresh_schema, in_schema
from tests.waiting import seen

NOT_INSTALLED = pytest.mark.skipif(not installed(), reason="PgBouncer is not installed (Debian: apt install pgbouncer)")
POOLERS = ["switching", pytest.param("pgbouncer", marks=[pytest.mark.long, NOT_INSTALLED])]
ORDER = ClaimRequest("worker", (QueueDemand("mail", ("mail",), 100),))


@pytest.fixture(params=POOLERS)
def pooled(request: pytest.FixtureRequest, shared_server: str, tmp_path: Path) -> Iterator[str]:
    """Give the server's URL through a pooler."""
    with ExitStack() as stack:
        if request.param == "switching":
            yield stack.enter_context(Switching(shared_server)).url
        else:
            yield stack.enter_context(pgbouncer(shared_server, tmp_path))


@pytest.fixture
def schemas(shared_server: str) -> Iterator[list[str]]:
    """Give names of places that are gone afterwards."""
    names = [fresh_schema() for _ in range(2)]
    yield names
    for name in names:
        drop_schema(in_schema(shared_server, name))


@contextmanager
def opened(url: str) -> Iterator[Store]:
    store = store_at(url)
    store.open()
    yield store
    store.close()


def job(name: str, **given: str) -> NewJob:
    return NewJob(id=name, queue="mail", handler="mail", payload=f'"{name}"', **given)  # type: ignore[arg-type]


async def test_two_stores_behind_one_pooler_stay_apart(pooled, schemas):
    first, second = (in_schema(pooled, schema) for schema in schemas)
    with opened(first) as ours, opened(second) as theirs:
        for turn in range(10):
            await asyncio.gather(
                ours.write(intake.enqueue, job(f"ours-{turn}")), theirs.write(intake.enqueue, job(f"theirs-{turn}"))
            )
            assert await ours.read(reads.job(f"theirs-{turn}")) is None
        for store, name in ((ours, "ours"), (theirs, "theirs")):
            claims = (await store.claim(ORDER)).claims
            assert [claim.id for claim in claims] == [f"{name}-{turn}" for turn in range(10)]
            assert all(await store.write_all(apply, [settle(claim, Succeeded("1"), DEFAULTS, 0.0) for claim in claims]))
            assert len(await journal(store, 0, 100)) == 12


def test_a_transaction_leaves_nothing_in_its_session(postgres_url):
    """Its session is somebody else's next."""
    names = ("search_path", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    address = Address.read(postgres_url)
    with opened(postgres_url), connect_as_the_product(address) as connection:
        before = [connection.execute(f"SHOW {name}".encode()).fetchall() for name in names]
        connection.execute(opening(address).encode())
        connection.execute("COMMIT")
        assert [connection.execute(f"SHOW {name}".encode()).fetchall() for name in names] == before


async def test_keys_and_threads_hold_behind_a_pooler(pooled, schemas):
    url = in_schema(pooled, schemas[0])
    with opened(url) as store, opened(f"{url}&application_name=other") as other:
        keyed = {"idempotency_key": "key", "fingerprint": "the same"}
        answers = await asyncio.gather(
            *(
                (store, other)[n % 2].write_all(
                    intake.enqueue, [job(f"job-{n}", **keyed), job(f"part-{n}", thread_key="t")]
                )
                for n in range(10)
            )
        )
        outcomes = [answer.outcome for answer, _ in answers if isinstance(answer, Receipt)]
        assert sorted(outcomes) == ["accepted"] + ["duplicate"] * 9
        claims = [claim for each in (store, other) for claim in (await each.claim(ORDER)).claims]
        assert sum(claim.gate is not None for claim in claims) == 1


async def test_a_worker_behind_a_pooler_is_woken_by_another_way(shared_server, pooled, schemas, monkeypatch):
    """LISTEN needs a session of its own, which `listen=` leads to; nothing else would wake it here."""
    monkeypatch.setattr(worker_module, "POLL_EVERY", 600.0)
    url = f"{in_schema(pooled, schemas[0])}&listen={quote(shared_server, safe='')}"
    sf = Standfast(url)
    ran: list[int] = []

    @sf.handler("mail")
    async def mail(job: Job) -> None:
        ran.append(job.payload["n"])

    async with sf.worker(), Standfast(f"{url}&application_name=other") as producer:
        for n in range(3):
            await asyncio.sleep(0.2)  # it has nothing left to do, and sleeps
            await producer.enqueue("mail", {"n": n})
            await seen(partial(ran.__contains__, n))
    await sf.close()


async def test_workers_behind_a_pooler_do_every_job_once(pooled, schemas):
    """Retries, threads and keys of many jobs, with two workers that share the sessions."""
    url = in_schema(pooled, schemas[0])
    apps = [Standfast(f"{url}&application_name=worker-{n}") for n in range(2)]
    done: list[int] = []
    for sf in apps:
        sf.queue("mail", coalesce="never", backoff=lambda _: 0.01)

        @sf.handler("mail")
        async def mail(job: Job) -> None:
            if job.payload % 10 == 0 and job.attempt == 1:
                raise Transient("not yet")
            done.append(job.payload)

    async with apps[0].worker(concurrency=8), apps[1].worker(concurrency=8):
        for n in range(60):
            given = {"thread_key": "t"} if n % 5 == 1 else {"idempotency_key": str(n)} if n % 5 == 2 else {}
            await apps[n % 2].enqueue("mail", n, **given)  # type: ignore[arg-type]
        await seen(lambda: len(done) >= 60)
    for sf in apps:
        await sf.close()
    assert sorted(done) == list(range(60))
    assert [n for n in done if n % 5 == 1] == list(range(1, 60, 5))


@pytest.mark.long
@NOT_INSTALLED
@pytest.mark.usefixtures("_quiet")
async def test_a_pool_that_has_run_dry_hangs_nobody(shared_server, schemas, tmp_path):
    with pgbouncer(shared_server, tmp_path, size=2) as pooled:
        url = in_schema(pooled, schemas[0])
        with opened(url) as store:
            await store.write_all(intake.enqueue, [job("first")])
            with connect(pooled) as one, connect(pooled) as two:
                with one.transaction(), two.transaction():
                    one.execute("SELECT 1")
                    two.execute("SELECT 1")
                    began = time.monotonic()
                    calls = (
                        store.write_all(intake.enqueue, [job("second")]),
                        store.read(reads.job("first", store.boot())),
                    )
                    answers = await asyncio.gather(*calls, return_exceptions=True)
                    assert [type(answer) for answer in answers] == [StoreUnavailable, StoreUnavailable]
                    assert time.monotonic() - began < 5.7
                began = time.monotonic()
                while True:
                    try:
                        await store.write_all(intake.enqueue, [job("third")])
                        break
                    except StoreUnavailable:
                        assert time.monotonic() < began + 10
            assert await store.read(reads.job("first", store.boot())) is not None


def test_statements_are_prepared_only_where_nobody_shares_the_session(pooled: str, shared_server: str):
    ours = connect_as_the_product(Address.read(shared_server))
    with connect_as_the_product(Address.read(pooled)) as behind, ours as own:
        assert (behind.session is None, own.session is None) == (True, False)


@pytest.mark.parametrize(("asked", "prepares"), [("yes", True), ("no", False)])
def test_the_url_decides_about_preparing(shared_server: str, asked: str, prepares: bool):  # noqa: FBT001
    joint = "&" if "?" in shared_server else "?"
    with connect_as_the_product(Address.read(f"{shared_server}{joint}prepare={asked}")) as connection:
        assert (connection.session is not None) == prepares
