"""Many jobs at once, each with a key of its own: the same call can be made again, and stores nothing twice."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from standfast import ConfigurationError, IdempotencyConflict, PayloadRejected, Receipt
from standfast.errors import Backpressure
from standfast.testing import drain
from tests.store.suite import claim_one
from tests.waiting import job_of
from tests.worker.inside import store_of

ORDERS = [{"order": n} for n in range(5)]


def by_order(payload: dict[str, Any]) -> str:
    return f"order-{payload['order']}"


def outcomes(receipts: list[Receipt]) -> list[str]:
    return [receipt.outcome for receipt in receipts]


@pytest.mark.parametrize("keys", [by_order, [by_order(each) for each in ORDERS]], ids=["a function", "a list"])
async def test_a_call_that_is_made_twice_stores_each_payload_once(sf, keys):
    first = await sf.enqueue_many("mail", ORDERS, keys=keys)
    assert outcomes(first) == ["accepted"] * 5
    again = await sf.enqueue_many("mail", ORDERS, keys=keys)
    assert again == [receipt._replace(outcome="duplicate") for receipt in first], "in order, and the same jobs"
    assert [(await job_of(sf, each.id)).idempotency_key for each in first] == [by_order(each) for each in ORDERS]
    assert len(await sf.jobs()) == 5


async def test_only_what_is_new_is_stored_and_receipts_come_in_order(sf):
    [known] = await sf.enqueue_many("mail", [{"order": 2}], keys=by_order)
    receipts = await sf.enqueue_many("mail", ORDERS, keys=by_order)
    assert outcomes(receipts) == ["accepted", "accepted", "duplicate", "accepted", "accepted"]
    assert receipts[2].id == known.id
    assert [(await job_of(sf, each.id)).payload for each in receipts] == ORDERS


async def test_a_key_that_two_payloads_of_one_call_share_is_a_duplicate_if_they_are_the_same(sf):
    receipts = await sf.enqueue_many("mail", [1, 1, 2], keys=["a", "a", None])
    assert outcomes(receipts) == ["accepted", "duplicate", "accepted"]
    assert receipts[1].id == receipts[0].id
    with pytest.raises(ConfigurationError, match="'b' names one job, and payloads of this call that differ have it"):
        await sf.enqueue_many("mail", [3, 4], keys=["b", "b"])
    assert len(await sf.jobs()) == 2


async def test_payloads_without_a_key_are_stored_each_time(sf):
    assert outcomes(await sf.enqueue_many("mail", [1, 1], keys=[None, None])) == ["accepted"] * 2
    assert outcomes(await sf.enqueue_many("mail", [1, 1], keys=lambda _: None)) == ["accepted"] * 2


async def test_a_key_of_another_payload_refuses_the_whole_call_and_nothing_is_written(sf):
    taken = await sf.enqueue("mail", "other", idempotency_key="order-3")
    with pytest.raises(IdempotencyConflict, match=r"'order-3'.*nothing was written") as refused:
        await sf.enqueue_many("mail", ORDERS, keys=by_order)
    assert refused.value.job_id == taken.id
    assert [job.id for job in await sf.jobs()] == [taken.id]
    mended = [each for each in ORDERS if each["order"] != 3]
    assert outcomes(await sf.enqueue_many("mail", mended, keys=by_order)) == ["accepted"] * 4, "their keys are free"
    assert await drain(sf) == {}


async def test_a_queue_without_room_takes_no_key_either(sf):
    sf.queue("mail", max_depth=3)
    with pytest.raises(Backpressure):
        await sf.enqueue_many("mail", ORDERS, keys=by_order)
    assert outcomes(await sf.enqueue_many("mail", ORDERS[:3], keys=by_order)) == ["accepted"] * 3
    assert outcomes(await sf.enqueue_many("mail", ORDERS[:3], keys=by_order)) == ["duplicate"] * 3


async def test_keys_are_checked_before_anything_is_written(sf):
    for keys, why in (
        (["a"], "has 1 entries for 5 payloads"),
        ("abcde", "not one of type str"),
        ({"a", "b", "c", "d", "e"}, "not one of type set"),
        (7, "not one of type int"),
        (lambda payload: payload["order"], r"keys\[0\] must be printable text"),
        (["a", "b", "c", "d", ""], r"keys\[4\] must be printable text"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            await sf.enqueue_many("mail", ORDERS, keys=keys)
    with pytest.raises(ConfigurationError, match="both give keys"):
        await sf.enqueue_many("mail", ORDERS, keys=by_order, idempotency_key="all")
    with pytest.raises(KeyError):
        await sf.enqueue_many("mail", ORDERS, keys=lambda payload: payload["number"])
    assert await sf.jobs() == []


async def test_a_handler_and_a_generator_of_payloads_take_keys(sf):
    @sf.handler("mail")
    async def mail(_job): ...

    first = await mail.enqueue_many((each for each in ORDERS), keys=by_order)
    assert await mail.enqueue_many(iter(ORDERS), keys=by_order) == [
        each._replace(outcome="duplicate") for each in first
    ]
    await drain(sf)
    again = await mail.enqueue_many(ORDERS, keys=by_order)
    assert {(each.outcome, each.state) for each in again} == {("duplicate", "completed")}


async def test_a_key_of_an_http_request_must_fit_into_a_header_wherever_it_stands(sf):
    requests = [{"method": "POST", "url": "https://a.example/"}] * 2
    with pytest.raises(PayloadRejected, match="is sent as a header"):
        await sf.enqueue_many("mail", requests, handler="http", keys=["fits", "für"])
    assert await sf.jobs() == []


async def test_keys_in_a_transaction_of_the_callers_own_sqlite_database_are_all_or_none(disk, tmp_path):
    theirs = sqlite3.connect(tmp_path / "app.db")
    taken = await disk.enqueue_many("mail", ["other"], keys=["order-3"], tx=theirs)
    assert outcomes(taken) == ["deferred"]
    with pytest.raises(IdempotencyConflict):
        await disk.enqueue_many("mail", ORDERS, keys=by_order, tx=theirs)
    receipts = await disk.enqueue_many("mail", [*ORDERS[:2], ORDERS[1]], keys=by_order, tx=theirs)
    assert outcomes(receipts) == ["deferred", "deferred", "duplicate"]
    theirs.commit()
    async with disk.outbox(lambda: sqlite3.connect(tmp_path / "app.db")) as outbox:
        await outbox.relay()
        await outbox.relay()
    assert sorted(job.idempotency_key or "" for job in await disk.jobs()) == ["order-0", "order-1", "order-3"]
    assert outcomes(await disk.enqueue_many("mail", ORDERS[:2], keys=by_order)) == ["duplicate"] * 2
    theirs.close()


async def test_a_fallback_is_called_once_for_all_of_them(disk):
    disk.queue("mail", max_depth=2)
    calls: list[int] = []
    given = await disk.enqueue_many("mail", ORDERS, keys=by_order, otherwise=lambda: calls.append(1))
    assert (outcomes(given), calls, await disk.jobs()) == (["fallback"] * 5, [1], [])
    stored = await disk.enqueue_many("mail", ORDERS[:2], keys=by_order, otherwise=lambda: calls.append(2))
    assert (outcomes(stored), calls) == (["accepted"] * 2, [1])


# --- the age of what waited elsewhere


async def test_work_keeps_its_age_and_gets_no_place_in_the_line_for_it(sf):
    day = datetime.fromtimestamp(sf.clock.wall(), UTC) - timedelta(days=3)
    waiting = await sf.enqueue("mail", "waits here")
    sf.clock.advance(1)
    [moved] = await sf.enqueue_many("mail", ["moved"], first_seen_at=lambda _: day)
    single = await sf.enqueue("mail", "single", first_seen_at=day.timestamp())
    shared = await sf.enqueue_many("mail", ["a", "b"], first_seen_at=day)
    for receipt in (moved, single, *shared):
        job = await job_of(sf, receipt.id)
        assert (job.first_seen_at, job.created_at > day + timedelta(days=2)) == (day, True)
    assert (await claim_one(store_of(sf), queue="mail")).id == waiting.id


async def test_an_age_survives_coalescing_and_is_never_in_the_future(sf):
    sf.queue("mail", coalesce="latest")
    now = datetime.fromtimestamp(sf.clock.wall(), UTC)
    first = await sf.enqueue("mail", 1, thread_key="t", first_seen_at=now - timedelta(hours=1))
    assert (await job_of(sf, first.id)).first_seen_at == now - timedelta(hours=1)
    await sf.enqueue("mail", 2, thread_key="t", first_seen_at=now - timedelta(hours=2))
    await sf.enqueue("mail", 3, thread_key="t")
    assert (await job_of(sf, first.id)).first_seen_at == now - timedelta(hours=2)
    ahead = await sf.enqueue("mail", 4, first_seen_at=now + timedelta(days=1))
    assert (await job_of(sf, ahead.id)).first_seen_at == now
    with pytest.raises(ConfigurationError, match="has no time zone"):
        await sf.enqueue_many("mail", [1], first_seen_at=[datetime(2026, 1, 1)])  # noqa: DTZ001


# --- calls that failed elsewhere


async def test_a_failed_call_that_is_handed_over_twice_is_one_job(sf):
    @sf.handler("mail")
    async def mail(_job):
        return "sent"

    first = await sf.hand_over(mail, {"to": "ann"}, TimeoutError("no answer"), idempotency_key="call-1")
    again = await sf.hand_over(mail, {"to": "ann"}, TimeoutError("no answer"), idempotency_key="call-1")
    assert (first["status"], again["operation_id"]) == ("queued", first["operation_id"])
    [job] = await sf.jobs()
    assert (job.attempts, job.idempotency_key, len(job.history)) == (1, "call-1", 1)
    sf.clock.advance(3600)
    await drain(sf)
    done = await sf.hand_over(mail, {"to": "ann"}, TimeoutError("no answer"), idempotency_key="call-1")
    assert (done["status"], done["result"], len(await sf.jobs())) == ("ok", "sent", 1)
    with pytest.raises(IdempotencyConflict):
        await sf.hand_over(mail, {"to": "bob"}, TimeoutError("no answer"), idempotency_key="call-1")
