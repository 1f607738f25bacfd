"""PostgreSQL is away, from the start or in the middle: enqueue accepts on local disk, nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from standfast import PayloadRejected, Receipt, Standfast, StoreUnavailable, UnknownJob
from standfast.job import NewJob
from standfast.spine import intake
from standfast.store import store as store_module
from standfast.store.spool import Spool
from standfast.wings.relay import forwarder, relay
from tests.between import between
from tests.postgres import PostgresServer, connect
from tests.waiting import job_of, reached, seen

FALLBACK = Receipt(None, "fallback", None)


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(store_module, "PATIENCE", 0.5)
    monkeypatch.setattr(forwarder, "TRY_EVERY", 0.05)


@pytest.fixture
def path(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("STANDFAST_SPOOL", str(tmp_path / "spool"))
    return tmp_path / "spool"


@pytest.fixture
async def sf(own_url: str, path: Path) -> AsyncIterator[Standfast]:
    assert path
    made = Standfast(own_url)
    yield made
    await made.close()


@pytest.fixture
async def away(sf: Standfast, own_server: PostgresServer) -> Standfast:
    """Give a store that was never opened, on a server that is down."""
    own_server.stop("immediate")
    return sf


def spool_of(sf: Standfast) -> Spool:
    spool = sf._reception._spool  # noqa: SLF001
    assert spool is not None
    return spool


async def emptied(sf: Standfast) -> None:
    await seen(lambda: not spool_of(sf).depth())


def stored(url: str, what: str = "b.id") -> list[Any]:
    with connect(url) as connection:
        query = f"SELECT {what} FROM job AS j JOIN body AS b ON b.n = j.n ORDER BY j.ready_at, j.n"  # noqa: S608
        return [value for (value,) in connection.execute(query)]


async def test_a_server_that_is_away_from_the_start_keeps_nobody_from_accepting(away, own_server, own_url):
    async with away as sf:  # opening is no reason to fail either
        receipts = [await sf.enqueue("mail", 1)]
        receipts.append(await asyncio.to_thread(sf.enqueue_sync, "mail", 2))
        receipts += await sf.enqueue_many("mail", [3, 4])
        assert {(receipt.outcome, receipt.state) for receipt in receipts} == {("spooled", None)}
        own_server.start()
        await emptied(sf)
        assert stored(own_url) == [receipt.id for receipt in receipts]
        assert [await sf.enqueue("mail", 5)] == [Receipt(stored(own_url)[-1], "accepted", "queued")]
    assert stored(own_url, "b.payload") == ["1", "2", "3", "4", "5"]


async def test_a_call_with_a_key_for_each_payload_can_be_made_again_while_the_server_is_away(away, own_server, own_url):
    orders, keys = [{"order": n} for n in range(3)], [f"order-{n}" for n in range(3)]
    async with away as sf:
        first = await sf.enqueue_many("mail", orders, keys=keys)
        again = await sf.enqueue_many("mail", orders, keys=keys)
        assert {receipt.outcome for receipt in first + again} == {"spooled"}
        own_server.start()
        await emptied(sf)
        assert stored(own_url) == [receipt.id for receipt in first]
        known = [await job_of(sf, receipt.id) for receipt in again]
        assert [job.id for job in known] == [receipt.id for receipt in first], "each answers for its duplicate"
        assert [each.outcome for each in await sf.enqueue_many("mail", orders, keys=keys)] == ["duplicate"] * 3


async def test_a_call_is_tried_again_until_its_deadline_and_then_spooled(away, own_server, monkeypatch):
    monkeypatch.setattr(store_module, "PATIENCE", 20.0)
    asked = asyncio.create_task(away.enqueue("mail"))
    await seen(lambda: away._reception._current_refusal)  # noqa: SLF001 - it has met the server's absence
    own_server.start()
    assert (await asked).outcome == "accepted"


@pytest.mark.long
async def test_only_the_first_call_waits_for_the_deadline(away):
    clock = asyncio.get_running_loop().time
    begun = clock()
    await away.enqueue("mail")
    assert clock() - begun > 0.4
    begun = clock()
    await asyncio.gather(*(away.enqueue("mail") for _ in range(50)))
    assert clock() - begun < 20, "fifty deadlines one after the other would take 25 s"
    assert spool_of(away).depth() == 51


async def test_an_opened_store_whose_server_dies_goes_to_the_spool_and_back(sf, own_server, own_url, monkeypatch):
    with monkeypatch.context() as patient:
        patient.setattr(store_module, "PATIENCE", 60.0)  # a busy machine may take long to make the tables
        first = await sf.enqueue("mail", 1)
    own_server.stop("immediate")
    second = await sf.enqueue("mail", 2)
    monkeypatch.setattr(store_module, "PATIENCE", 60.0)
    third = await asyncio.wait_for(sf.enqueue("mail", 3), 30)  # it is known by now that the server is away
    assert [receipt.outcome for receipt in (first, second, third)] == ["accepted", "spooled", "spooled"]
    own_server.start()
    await emptied(sf)
    assert (await sf.enqueue("mail", 4)).outcome == "accepted"
    assert stored(own_url, "b.payload") == ["1", "2", "3", "4"]


async def test_nothing_overtakes_while_something_waits_though_the_server_is_there(sf, own_url, monkeypatch):
    """The spool alone decides: an answer that came late must not let the next job pass."""
    await sf.open()

    async def unknown(_jobs: object, _answer: object) -> None:
        raise StoreUnavailable("the answer was lost", definite=False)

    brought = asyncio.Event()
    loop = asyncio.get_running_loop()
    real = relay.hand_over

    async def slowly(store: Any, script: Any, entries: Any) -> list[bool]:
        asyncio.run_coroutine_threadsafe(brought.wait(), loop).result(10)
        return await real(store, script, entries)

    monkeypatch.setattr(relay, "hand_over", slowly)
    with monkeypatch.context() as lost:
        between(store_module.Store, intake.enqueue, unknown, lost.setattr)
        assert (await sf.enqueue("mail", 1)).outcome == "spooled"
    assert (await sf.enqueue("mail", 2)).outcome == "spooled"
    assert [entry.unsure for entry in spool_of(sf).oldest(10)] == [True, False]
    brought.set()
    await emptied(sf)
    assert stored(own_url, "b.payload") == ["1", "2"]


async def test_an_answer_that_was_lost_stores_a_job_once(sf, own_url, monkeypatch):
    await sf.open()

    async def unanswered(_jobs: Any, answer: Any) -> None:
        await answer
        raise StoreUnavailable("the answer was lost", definite=False)

    between(store_module.Store, intake.enqueue, unanswered, monkeypatch.setattr)
    receipts = [await sf.enqueue("mail"), await sf.enqueue("mail", thread_key="t")]
    assert {receipt.outcome for receipt in receipts} == {"spooled"}
    await emptied(sf)
    assert sorted(stored(own_url)) == sorted(str(receipt.id) for receipt in receipts)


async def test_the_fallback_is_for_a_spool_that_takes_nothing_either(away, path):
    calls: list[int] = []
    assert (await away.enqueue("mail", 1, otherwise=lambda: calls.append(1))).outcome == "spooled"
    assert calls == []
    await away.close()
    path.unlink()
    path.write_bytes(b"no database at all, but somebody's file" * 100)
    await away.open()
    assert await away.enqueue("mail", 2, otherwise=lambda: calls.append(2)) == FALLBACK
    given = await asyncio.to_thread(away.enqueue_sync, "mail", 3, otherwise=lambda: calls.append(3))
    assert (given, calls) == (FALLBACK, [2, 3])
    with pytest.raises(StoreUnavailable) as raised:
        await away.enqueue("mail")
    assert raised.value.definite


async def test_the_fallback_is_not_for_what_the_server_may_have(sf, path, monkeypatch):
    await sf.open()

    async def unknown(_jobs: object, _answer: object) -> None:
        raise StoreUnavailable("the answer was lost", definite=False)

    between(store_module.Store, intake.enqueue, unknown, monkeypatch.setattr)
    path.write_bytes(b"no database at all, but somebody's file" * 100)
    calls: list[int] = []
    with pytest.raises(StoreUnavailable) as raised:
        await sf.enqueue("mail", otherwise=lambda: calls.append(1))
    assert (raised.value.definite, calls) == (False, [])


async def test_what_is_refused_is_refused_before_it_is_spooled(away):
    away.handler("typed", input=dict[str, int])(print)
    for queue, payload in (("mail", object()), ("mail", "x" * 300_000), ("typed", {"a": "b"})):
        with pytest.raises(PayloadRejected):
            await away.enqueue(queue, payload)
    assert spool_of(away).depth() == 0


async def test_a_spooled_job_is_seen_and_waited_for_in_both_places(away, own_server):
    receipt = await away.enqueue("mail", {"a": 1}, priority=3, labels={"trigger": "push"})
    waiting = await away.status(receipt.id)
    assert waiting is not None
    assert (waiting.id, waiting.view, waiting.state, waiting.payload) == (receipt.id, "spooled", "queued", {"a": 1})
    assert (waiting.priority, waiting.labels, waiting.attempts) == (3, {"trigger": "push"}, 0)
    assert waiting.reason is not None
    assert "connect" in waiting.reason
    assert "waits in the spool of this host" in await away.explain(receipt.id)

    @away.handler("mail")
    def mail(job):
        return job.payload["a"]

    waited = asyncio.create_task(away.wait(receipt.id, 20))
    own_server.start()
    async with away.worker():
        assert (await waited).result == 1
    stored_at = (await reached(away, receipt.id, "completed")).created_at
    assert abs((stored_at - waiting.created_at).total_seconds()) < 0.2, "it was accepted when it was spooled"
    with pytest.raises(UnknownJob):
        await away.wait("no such id", 1)


async def test_a_job_that_another_process_of_this_host_spooled_is_seen(sf, own_server):
    assert own_server
    await sf.enqueue("mail", 1)
    [job] = sf._acceptor.jobs("mail", (2,))  # noqa: SLF001 - as another process would have it
    spool = spool_of(sf)
    Spool(spool.path, spool.target).put([job], sf._store.moment(), "the database was away")  # noqa: SLF001
    assert spool.waiting is False
    found = await sf.status(job.id)
    assert found is not None
    assert found.payload == 2


async def test_a_duplicate_and_a_folded_job_answer_with_their_owners_and_a_conflict_is_a_letter(sf, own_server):
    owner = await sf.enqueue("mail", 1, idempotency_key="k")
    carrier = await sf.enqueue("mail", 1, thread_key="t", coalesce="latest")
    own_server.stop("fast")
    same = await sf.enqueue("mail", 1, idempotency_key="k")
    folded = await sf.enqueue("mail", 2, thread_key="t", coalesce="latest")
    other = await sf.enqueue("mail", 2, idempotency_key="k")
    own_server.start()
    await emptied(sf)
    found = [await sf.status(receipt.id) for receipt in (same, folded, other)]
    assert [view and (view.id, view.state, view.payload) for view in found] == [
        (owner.id, "queued", 1),
        (carrier.id, "queued", 2),
        (other.id, "dead", 2),
    ]
    [letter] = await sf.dead_letters.list()
    assert (letter.id, letter.reason) == (other.id, "idempotency_conflict")


@pytest.mark.long
async def test_what_waits_shows_in_stats_and_health_and_to_the_doctor(sf, own_server, monkeypatch):
    async def refuse(_store: object, _script: object, _entries: object) -> None:
        raise StoreUnavailable("not today", definite=True)

    await sf.open()
    assert (await sf.stats())["spool"]["depth"] == 0
    monkeypatch.setattr(relay, "hand_over", refuse)
    own_server.stop("fast")
    receipt = await sf.enqueue("mail")
    found = {check["name"]: check for check in (await sf.doctor())["checks"]}
    assert found["spool"]["value"] == str(spool_of(sf).path)
    assert "1 job waits on this host" in found["spool"]["problem"]
    judged = await sf.health()  # also now: this is when it matters
    assert (judged["status"], judged["total_pending"]) == ("degraded", None), "what nobody can count has no number"
    assert [issue.partition(":")[0] for issue in judged["issues"]] == ["store", "spool"]
    own_server.start()
    await seen(lambda: str(sf._reception._current_refusal) == "not today")  # noqa: SLF001
    held = (await sf.stats())["spool"]
    assert (held["depth"], held["reason"]) == (1, "not today")
    assert held["oldest_seconds"] > 0
    assert [(entry["id"], entry["queue"], entry["reason"]) for entry in held["entries"]] == [
        (receipt.id, "mail", "not today")
    ]
    judged = await sf.health()
    assert judged["status"] == "degraded"
    assert [issue for issue in judged["issues"] if issue.startswith("spool: 1 job waits on this host")]
    monkeypatch.undo()
    await emptied(sf)
    assert not [issue for issue in (await sf.health())["issues"] if issue.startswith("spool")]


async def test_a_job_the_server_can_never_take_holds_up_no_other(away, own_server, own_url):
    receipts = [await away.enqueue("mail", number) for number in range(3)]
    spool = spool_of(away)
    bad = spool.find(str(receipts[1].id))
    assert bad is not None
    broken = msgspec.json.encode(msgspec.structs.replace(bad.job, priority=2**40)).decode()
    spool._use(lambda held: held.execute("UPDATE entry SET job = ? WHERE seq = ?", (broken, bad.seq)))  # noqa: SLF001
    own_server.start()
    await seen(lambda: spool.depth() == 1 and spool.waiting is False)
    assert stored(own_url) == [receipts[0].id, receipts[2].id]
    assert (await away.enqueue("mail")).outcome == "accepted"
    left = (await away.stats())["spool"]
    assert (left["depth"], left["entries"][0]["id"]) == (1, receipts[1].id)
    assert "out of range" in left["reason"]
    waiting = await away.status(receipts[1].id)
    assert waiting is not None
    assert waiting.view == "spooled"


@pytest.mark.long
async def test_the_next_process_brings_what_the_last_one_left(away, own_server, own_url):
    receipt = await away.enqueue("mail")
    await away.close()
    own_server.start()
    async with Standfast(own_url) as other:
        await seen(lambda: stored_if_any(own_url) == [receipt.id])
        await emptied(other)


def stored_if_any(url: str) -> list[Any]:
    with connect(url) as connection:
        known = connection.execute("SELECT to_regclass('body')").fetchone()
    return stored(url) if known and known[0] else []


async def test_closing_brings_what_can_be_brought_at_once(sf, own_url):
    await sf.open()
    first = await sf.enqueue("mail")
    job = NewJob(id="left", queue="mail", handler="mail", payload="1")
    spool_of(sf).put([job], sf._store.moment(), "away")  # noqa: SLF001
    await sf.close()
    assert stored(own_url) == [first.id, "left"]


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed_under_load(sf, own_server, own_url, tmp_path):
    """Callers' receipts are kept in a file of the test's own; each caller has a queue, so that its order shows."""
    await sf.open()
    told = os.open(tmp_path / "told", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    over = asyncio.Event()
    outcomes: Counter[str] = Counter()

    async def caller(name: str) -> None:
        number = 0
        while not over.is_set():
            options = {"idempotency_key": f"{name}-{number}"} if number % 3 == 0 else {}
            receipt = await sf.enqueue(name, number, **options)
            os.write(told, f"{name} {number} {receipt.id}\n".encode())
            outcomes[receipt.outcome] += 1
            number += 1

    callers = [asyncio.create_task(caller(f"queue-{number}")) for number in range(24)]

    async def more(outcome: str) -> None:
        before = outcomes[outcome]
        await seen(lambda: outcomes[outcome] > before + 100)

    for _ in range(2):
        await more("accepted")
        await asyncio.to_thread(own_server.stop, "immediate")
        await more("spooled")
        await asyncio.to_thread(own_server.start)
    await more("accepted")
    over.set()
    await asyncio.gather(*callers)
    await emptied(sf)
    os.close(told)
    lines = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    with connect(own_url) as connection:
        rows = connection.execute(
            "SELECT j.queue, b.payload::integer, b.id FROM job AS j JOIN body AS b USING (n) ORDER BY j.ready_at, j.n"
        ).fetchall()
    there = Counter(job_id for _, _, job_id in rows)
    assert [line for line in lines if there[line[2]] != 1] == []
    assert len(rows) == len(lines), "nothing is there that nobody was told of: every call was answered"
    for name in {line[0] for line in lines}:
        assert [number for queue, number, _ in rows if queue == name] == sorted(
            number for queue, number, _ in rows if queue == name
        )
