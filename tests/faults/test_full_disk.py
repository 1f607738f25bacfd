"""A disk that fills up: new work is refused first, then nothing is started, while ends are still written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from itertools import count

import pytest

from standfast import Permanent, Standfast, StoreUnavailable
from standfast.application.wings import SCRIPTS
from standfast.clock import SystemClock
from standfast.job import NewJob
from standfast.spine import intake
from standfast.store import engine
from standfast.store.room import ROOM_TO_ACCEPT, ROOM_TO_CLAIM
from standfast.store.sqlite import handle
from standfast.store.sqlite.disk import Disk
from standfast.store.sqlite.files import Files
from standfast.store.sqlite.sqlite_engine import SqliteEngine
from standfast.worker import claimer
from tests.faults.verdict import look, read

PATIENCE = 20.0
PLENTY = 1 << 40
ONE_SMALL_ROUND = 1 << 20
"""What a round of small requests needs besides, with the checkpoint of a new file."""


class Free:
    """The free bytes that the store is told of."""

    def __init__(self) -> None:
        self.bytes = PLENTY

    def __call__(self) -> int:
        return self.bytes


@pytest.fixture
def free(monkeypatch) -> Free:
    free = Free()
    monkeypatch.setattr(Disk, "free_bytes", lambda _disk: free())
    return free


class Post:
    """A queue whose handlers end when they are let."""

    def __init__(self, sf: Standfast) -> None:
        self.sf = sf
        self.entered: list[str] = []
        self.let_go = asyncio.Event()
        sf.handler("post")(self._run)

    async def _run(self, job):
        self.entered.append(job.payload)
        await self.let_go.wait()
        if job.payload == "bad":
            raise Permanent("refused")
        return {"sent": True}


@pytest.fixture
async def post(place, free) -> AsyncIterator[Post]:  # noqa: ARG001 - the store asks for free bytes from the start
    async with Standfast(str(place / "queue.db")) as sf:
        yield Post(sf)


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(claimer, "PAUSE_AFTER_REFUSAL", 0.01)
    monkeypatch.setattr(engine, "PAUSE_AFTER_TROUBLE", 0.001)


async def until(fact: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not fact():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.005)


def refused_claims(caplog) -> int:
    return sum("nothing can be claimed now: the disk is low" in record.getMessage() for record in caplog.records)


async def test_low_disk_refuses_new_work_before_anything_is_written(post, free, place):
    free.bytes = ROOM_TO_ACCEPT - 1
    for call in (post.sf.enqueue("post"), asyncio.to_thread(post.sf.enqueue_sync, "post")):
        with pytest.raises(StoreUnavailable, match=r"disk is low .* nothing was written: free some space") as refusal:
            await call
        assert refusal.value.definite
    assert look(place / "queue.db") == ({}, [])
    health = await post.sf.health()
    assert any("disk" in issue for issue in health["issues"])
    free.bytes = ROOM_TO_ACCEPT + ONE_SMALL_ROUND
    assert (await post.sf.enqueue("post")).outcome == "accepted"


async def test_with_too_little_to_accept_what_waits_is_still_run(post, free):
    receipt = await post.sf.enqueue("post")
    free.bytes = ROOM_TO_CLAIM + ONE_SMALL_ROUND
    post.let_go.set()
    async with post.sf.worker():
        assert (await post.sf.wait(receipt.id, PATIENCE)).state == "completed"


async def test_with_still_less_nothing_is_started_and_what_runs_still_ends(post, free, caplog):
    good, bad, later = [await post.sf.enqueue("post", payload) for payload in ("good", "bad", "later")]
    async with post.sf.worker(concurrency=2):
        await until(lambda: sorted(post.entered) == ["bad", "good"])
        free.bytes = ROOM_TO_CLAIM - 1
        post.let_go.set()
        ended = [await post.sf.wait(receipt.id, PATIENCE) for receipt in (good, bad)]
        assert [(job.state, job.reason) for job in ended] == [("completed", None), ("dead", "handler_refused")]
        await until(lambda: refused_claims(caplog) > 2)
        assert sorted(post.entered) == ["bad", "good"], "no effect may start whose end could not be recorded"
        free.bytes = PLENTY
        assert (await post.sf.wait(later.id, PATIENCE)).state == "completed"


# --- a file that really cannot grow

MostPages = Callable[[int], None]


@pytest.fixture
def most_pages(monkeypatch) -> MostPages:
    """Bound the file's size, as a full disk does: SQLite itself then says that it is full."""

    def bound(pages: int) -> None:
        monkeypatch.setitem(handle.SETTINGS, "max_page_count", pages)

    return bound


def filled(store: SqliteEngine) -> set[str]:
    """Hand in letters until one is definitely refused; give what was accepted."""
    accepted: set[str] = set()
    for n in count():
        ids = [f"job-{n}", f"copy-{n}"]
        try:
            store.call(intake.enqueue, [letter(id_) for id_ in ids], seconds=1).result()
            accepted.update(ids)
        except StoreUnavailable as refusal:
            if "FullError" in (store.trouble or "") and refusal.definite:  # else the machine was only slow
                return accepted
    raise AssertionError("the file never fills up")


def letter(id_: str) -> NewJob:
    return NewJob(id=id_, queue="post", handler="post", payload=json.dumps("x" * 2000))


@pytest.mark.usefixtures("_quiet")
def test_a_full_file_takes_nothing_by_halves_and_goes_on_when_there_is_room(place, most_pages):
    most_pages(120)
    store = SqliteEngine(Files(str(place / "queue.db")), SystemClock(), SCRIPTS)
    store.open()
    accepted = filled(store)
    assert len(accepted) > 10
    assert set(look(place / "queue.db")[0]) == accepted
    most_pages(1_000)
    store.call(intake.enqueue, [letter("afterwards")], seconds=PATIENCE).result()
    store.close()
    jobs, flaws = read(place / "queue.db")
    assert (set(jobs), flaws) == (accepted | {"afterwards"}, [])


@pytest.mark.usefixtures("_quiet")
async def test_an_end_that_finds_the_file_full_is_written_when_there_is_room(place, most_pages):
    most_pages(120)
    ran: list[str] = []
    async with Standfast(str(place / "queue.db")) as sf:

        @sf.handler("post")
        async def post(job):
            ran.append(job.id)
            return {"much": "x" * 500_000}

        receipt = await sf.enqueue("post")
        async with sf.worker():
            await until(lambda: "FullError" in (sf._store.trouble or ""))  # noqa: SLF001 - health tells it, with more
            most_pages(10_000)
            job = await sf.wait(receipt.id, PATIENCE)
    assert (job.state, job.attempts, ran) == ("completed", 1, [receipt.id])
