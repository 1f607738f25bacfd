"""Work in an outbox is seen while no worker runs: counted where the outbox is declared, and known to the store."""

from __future__ import annotations

import re
import sqlite3
from contextlib import AsyncExitStack
from typing import Any

import pytest

from standfast import Standfast
from standfast.errors import UnknownJob
from standfast.testing import FrozenClock
from standfast.wings.alerts.lookout import Lookout
from standfast.wings.health.outbox_status import UNRELAYED_AFTER
from standfast.wings.health.verbs import wrong_now
from tests.waiting import seen
from tests.worker.inside import store_of

LONG = UNRELAYED_AFTER + 5
NEXT = "start a worker of the application that declares it (sf.outbox)"


class Scene:
    """An application with a database of its own, and a look at its store from outside, as `standfast health` has it."""

    def __init__(self, application: Standfast, outside: Standfast, clock: FrozenClock, database: str) -> None:
        self.application, self.outside, self.clock, self.database = application, outside, clock, database
        self.outbox = application.outbox(self.connect, with_workers=True)

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.database)

    async def put(self, number: int = 1, *, commit: bool = True) -> str:
        """Enqueue as the application does, and wait until the store knows of it."""
        shop = self.connect()
        receipts = [await self.application.enqueue("mail", each, tx=shop) for each in range(number)]
        assert {each.outcome for each in receipts} == {"deferred"}
        shop.commit() if commit else shop.rollback()
        shop.close()
        await seen(lambda: self.known(lambda found: found["oldest_seconds"] is not None))
        assert receipts[0].id is not None
        return receipts[0].id

    async def relay(self) -> None:
        """Relay once, and wait until the store knows of it."""
        self.clock.advance(20)
        await self.outbox.relay()
        await seen(lambda: self.known(lambda found: (found["relayed_seconds_ago"] or LONG) < 20))

    async def known(self, fact: Any) -> bool:
        return any(fact(each) for each in (await self.outside.stats())["outboxes"])


async def issues(sf: Standfast) -> str:
    """Give what health says of outboxes."""
    return "\n".join(each for each in (await sf.health())["issues"] if each.startswith("outbox: "))


@pytest.fixture(params=["file", "postgres"])
async def scene(request, path, tmp_path):
    url = path if request.param == "file" else request.getfixturevalue("used_postgres_url")
    clock = FrozenClock()
    async with AsyncExitStack() as stack:
        application = await stack.enter_async_context(Standfast(url, clock=clock))
        outside = await stack.enter_async_context(Standfast(url, clock=clock))
        outside.publish_nothing()
        yield Scene(application, outside, clock, str(tmp_path / "shop.db"))


async def test_the_process_that_declares_an_outbox_counts_and_dates_what_waits_there(scene):
    await scene.put(2)
    scene.clock.advance(LONG)
    [shown] = (await scene.application.stats())["outboxes"]
    assert (shown["database"], shown["jobs"], shown["relayed_seconds_ago"]) == (scene.database, 2, None)
    assert shown["oldest_seconds"] == pytest.approx(LONG, abs=0.1)
    assert (await scene.application.health())["status"] == "degraded"
    assert await issues(scene.application) == (
        f"outbox: 2 jobs wait in {scene.database}, the oldest for 35 s, and it has never been relayed: {NEXT}"
    )


async def test_a_process_without_the_application_says_that_nothing_relays(scene):
    await scene.put()
    await scene.relay()
    scene.clock.advance(3600)
    assert not await issues(scene.outside)  # nothing was put there since
    await scene.put()
    assert not await issues(scene.outside)  # a worker may be starting
    scene.clock.advance(LONG)
    told = re.sub(r"3\d s", "35 s", await issues(scene.outside))  # the store is told within about a second
    assert told == f"outbox: a job was put into {scene.database} 35 s ago, and it has not been relayed for 1 h: {NEXT}"
    [shown] = (await scene.outside.health())["outboxes"]
    assert (shown["database"], shown["jobs"]) == (scene.database, None)
    await scene.relay()
    assert not await issues(scene.outside)


async def test_a_job_that_was_rolled_back_is_no_issue_once_a_relay_has_looked(scene):
    await scene.put(commit=False)
    await scene.relay()
    scene.clock.advance(LONG)
    assert not await issues(scene.outside)
    assert (await scene.application.stats())["outboxes"][0]["jobs"] == 0


async def test_an_unknown_id_may_be_in_an_outbox_once_the_store_has_ever_had_one(scene):
    with pytest.raises(UnknownJob, match=r"or it was pruned$"):
        await scene.outside.wait("no-such-job", 0)
    waiting = await scene.put()
    for ask in (scene.outside.explain, scene.outside.result, lambda job_id: scene.outside.wait(job_id, 0)):
        with pytest.raises(UnknownJob, match=r"or it is still in an outbox of the application$"):
            await ask(waiting)


async def test_an_outbox_that_nothing_relays_is_an_alert(scene):
    look = Lookout(store_of(scene.outside), scene.clock, wrong_now).look
    await look()
    await scene.put()
    for _ in range(4):
        scene.clock.advance(10)
        await look()
    [alert] = (await scene.outside.health())["alerts"]
    assert (alert["kind"], alert["subject"]) == ("outbox_not_relayed", scene.database)


async def test_a_worker_that_relays_says_so_also_when_there_is_nothing_to_relay(scene):
    await scene.put(commit=False)
    async with scene.application.worker():
        await seen(lambda: scene.known(lambda found: found["relayed_seconds_ago"] is not None))


async def test_a_database_that_cannot_be_read_is_an_issue_and_hides_no_other(scene, tmp_path):
    unreadable = scene.application.outbox(lambda: sqlite3.connect(str(tmp_path / "no" / "such.db")))
    await scene.put()
    problem = "outbox: a database of this process cannot be read: unable to open database file"
    assert await issues(scene.application) == problem
    assert [each["jobs"] for each in (await scene.application.stats())["outboxes"] if each["problem"] is None] == [1]
    await unreadable.close()
