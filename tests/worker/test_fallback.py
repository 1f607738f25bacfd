"""`otherwise=`: called only when for certain nothing was written, counted, and seen in health. Never silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from standfast import ConfigurationError, IdempotencyConflict, PayloadRejected, Receipt, Standfast, StoreUnavailable
from standfast.spine import intake
from standfast.store import store as store_module
from standfast.store.sqlite import handle, sqlite_engine
from standfast.store.sqlite.disk import Disk
from standfast.testing import memory
from standfast.wings.queues import publishing
from tests.between import between
from tests.waiting import seen
from tests.worker.outage import Outage

FALLBACK = Receipt(None, "fallback", None)


@pytest.fixture
def url(path):
    """Name a file: this is about SQLite."""
    return path


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(store_module, "PATIENCE", 0.2)
    monkeypatch.setattr(handle, "BUSY_SECONDS", 0.1)


@pytest.fixture
async def outage(disk: Standfast, path: str) -> AsyncIterator[Outage]:
    await disk.open()
    begun = Outage(path)
    yield begun
    begun.end()


class Direct:
    """What the caller would have done without the queue."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1

    async def later(self) -> None:
        await asyncio.sleep(0)
        self.calls += 1


@pytest.mark.usefixtures("outage")
async def test_a_locked_store_sends_the_call_to_its_fallback(disk):
    direct = Direct()
    assert await disk.enqueue("feedback", 1, otherwise=direct) == FALLBACK
    assert await disk.enqueue("feedback", 2, otherwise=direct.later) == FALLBACK
    assert await disk.enqueue_http("feedback", "POST", "https://a.example/", otherwise=direct.later) == FALLBACK
    assert direct.calls == 3


@pytest.mark.usefixtures("outage")
async def test_code_without_a_loop_has_its_fallback_too(disk):
    direct = Direct()
    for otherwise in (direct, direct.later):
        given = await asyncio.to_thread(disk.enqueue_sync, "feedback", otherwise=otherwise)
        assert given == FALLBACK
    assert direct.calls == 2


async def test_a_store_that_cannot_be_opened_sends_the_call_to_its_fallback(disk, path, monkeypatch):
    monkeypatch.setattr(sqlite_engine, "LONGEST_OPENING", 0.5)
    async with Standfast(path):
        pass
    outage, direct = Outage(path), Direct()
    disk.queue("feedback", attempts=3)  # something to publish first
    assert await disk.enqueue("feedback", otherwise=direct) == FALLBACK
    outage.end()
    assert await disk.jobs() == []
    assert direct.calls == 1


async def test_an_http_job_whose_rules_cannot_be_read_goes_to_its_fallback(path, monkeypatch):
    monkeypatch.setattr(sqlite_engine, "LONGEST_OPENING", 0.5)
    sf, direct = Standfast(path), Direct()
    async with Standfast(path):
        pass
    outage = Outage(path)
    assert await sf.enqueue_http("feedback", "POST", "http://127.0.0.1/", otherwise=direct) == FALLBACK
    outage.end()
    await sf.close()


async def test_fallbacks_are_counted_once_the_store_is_back(disk, path):
    await disk.open()
    outage = Outage(path)
    for _ in range(3):
        await disk.enqueue("feedback", otherwise=Direct())
    outage.end()
    await seen(lambda: _stored(disk))
    async with Standfast(path) as other:  # any process says the same
        assert "feedback: 3 calls went to their fallback" in (await other.health())["issues"]
        assert (await other.stats())["counters"]["fallback"] == 3
    await disk.enqueue("mail")
    assert (await disk.stats())["counters"]["fallback"] == 3


async def _stored(sf: Standfast) -> bool:
    try:
        await sf.enqueue("mail")
    except StoreUnavailable:
        return False
    return True


async def test_asking_for_health_or_closing_counts_them_too(disk, path):
    await disk.open()
    for tell in (disk.health, disk.close):
        outage = Outage(path)
        await disk.enqueue("feedback", otherwise=Direct())
        outage.end()
        await tell()
    async with Standfast(path) as other:
        assert (await other.stats())["counters"]["fallback"] == 2


async def test_what_the_store_could_not_count_yet_is_not_forgotten(disk, path):
    await disk.open()
    outage = Outage(path)
    await disk.enqueue("feedback", otherwise=Direct())
    assert not any("fallback" in issue for issue in (await disk.health())["issues"])
    outage.end()
    assert "feedback: 1 call went to its fallback" in (await disk.health())["issues"]


async def test_declarations_that_may_have_been_published_are_no_doubt_about_the_job(in_file, monkeypatch):
    def doubtful(_store: object, _publication: object) -> None:
        raise StoreUnavailable("it may have been written", definite=False)

    monkeypatch.setattr(publishing, "publish", doubtful)
    in_file.queue("feedback", attempts=3)
    assert await in_file.enqueue("feedback", otherwise=Direct()) == FALLBACK


async def test_the_fallbacks_own_error_is_the_callers_and_is_counted(disk, path):
    def broken() -> None:
        raise LookupError("no receiver either")

    await disk.open()
    outage = Outage(path)
    with pytest.raises(LookupError, match="no receiver either"):
        await disk.enqueue("feedback", otherwise=broken)
    outage.end()
    assert "feedback: 1 call went to its fallback" in (await disk.health())["issues"]


async def test_a_low_disk_sends_the_call_to_its_fallback(disk, monkeypatch):
    await disk.open()
    monkeypatch.setattr(Disk, "free_bytes", lambda _disk: 1)
    direct = Direct()
    assert await disk.enqueue("feedback", otherwise=direct) == FALLBACK
    assert direct.calls == 1


async def test_what_is_the_callers_mistake_never_goes_to_the_fallback(sf):
    direct = Direct()
    await sf.enqueue("mail", 1, idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        await sf.enqueue("mail", 2, idempotency_key="k", otherwise=direct)
    with pytest.raises(PayloadRejected):
        await sf.enqueue("mail", object(), otherwise=direct)
    with pytest.raises(PayloadRejected):
        await sf.enqueue_http("mail", "POST", "http://127.0.0.1/", otherwise=direct)
    assert direct.calls == 0
    assert "fallback" not in (await sf.stats())["counters"]


async def test_what_may_have_been_written_never_goes_to_the_fallback(in_file, monkeypatch):
    """Else it could happen twice: once now, and once from the queue."""
    doubt = StoreUnavailable("it may have been written", definite=False)

    async def doubtful(_jobs: object, _answer: object) -> None:
        raise doubt

    between(store_module.Store, intake.enqueue, doubtful, monkeypatch.setattr)
    direct = Direct()
    with pytest.raises(StoreUnavailable) as raised:
        await in_file.enqueue("mail", otherwise=direct)
    assert raised.value is doubt
    assert direct.calls == 0


async def test_a_stored_job_leaves_the_fallback_alone(sf):
    direct = Direct()
    assert (await sf.enqueue("mail", otherwise=direct)).outcome == "accepted"
    assert direct.calls == 0


async def test_a_day_later_health_is_done_with_it(monkeypatch):
    sf = memory()
    monkeypatch.setattr(Disk, "free_bytes", lambda _disk: 1)
    await sf.enqueue("feedback", otherwise=Direct())
    monkeypatch.undo()
    assert "feedback: 1 call went to its fallback" in (await sf.health())["issues"]
    sf.clock.advance("25h")
    assert not any("fallback" in issue for issue in (await sf.health())["issues"])


@pytest.mark.parametrize(
    ("otherwise", "words"),
    [
        (5, "otherwise must be a function without arguments, not 5"),
        ("later", "otherwise must be a function"),
        (lambda payload: payload, r"called without arguments, .*missing a required argument: 'payload'.*wrap it in a"),
    ],
)
async def test_what_could_not_be_called_is_refused_while_the_store_is_there(disk, otherwise, words):
    with pytest.raises(ConfigurationError, match=words):
        await disk.enqueue("feedback", otherwise=otherwise)
    with pytest.raises(ConfigurationError, match=words):
        disk.enqueue_sync("feedback", otherwise=otherwise)
    assert await disk.jobs() == []
    takes_all = (print, dict, lambda payload=1, *_more, **_others: payload)
    assert [(await disk.enqueue("feedback", otherwise=each)).outcome for each in takes_all] == ["accepted"] * 3
