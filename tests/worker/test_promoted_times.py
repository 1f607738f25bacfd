"""What a promoted store says of times is as true in its new place, also where it stands inside other values."""

from __future__ import annotations

import asyncio

import apsw
import httpx
import pytest

from standfast import Permanent, Standfast
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.scripts import Word
from standfast.wings.promote.verbs import promote as promote_here
from standfast.worker import upkeep
from standfast.worker.upkeep import SweepRequest
from tests.waiting import job_of

BEHIND = 100_000.0
SWEEP = SweepRequest(every=10.0, patience=10.0)


@pytest.fixture
async def old(in_file: Standfast, path: str) -> Standfast:
    """Give a store whose queue time is far behind wall time, as after a night in which the machine slept."""
    await in_file.open()
    await in_file.close()
    with apsw.Connection(path) as beside:
        beside.execute("UPDATE clock SET offset = offset - ?", (BEHIND,))
    beside.close()
    await in_file.open()
    return in_file


async def promote(old: Standfast, url: str) -> None:
    path = old.settings.url.value
    await old.close()
    assert "jobs" in await asyncio.to_thread(promote_here, path, url)


def refusing(sf: Standfast) -> list[int]:
    """Declare a queue whose receiver asks its callers to wait for an hour; give what it was called with."""
    runs: list[int] = []
    request = httpx.Request("POST", "https://crm.example/")
    response = httpx.Response(429, headers={"Retry-After": "3600"}, request=request)
    sf.queue("crm", breaker={"dependency": "crm"})

    @sf.handler("crm")
    async def handle(job):
        runs.append(job.payload)
        raise httpx.HTTPStatusError("refused", request=response.request, response=response)

    return runs


async def test_a_destination_that_asked_to_wait_is_still_left_alone(old, home, postgres_url):
    assert refusing(old) == []
    await old.enqueue_many("crm", [1, 2])
    await old.worker(concurrency=1).run_due()
    [hold] = [gate for gate in (await old.stats())["gates"] if gate["kind"] == "hold"]
    await promote(old, postgres_url)
    runs = refusing(home)
    late = await home.enqueue("crm", 3)
    await home.worker(concurrency=1).run_due()
    assert runs == []
    assert (await job_of(home, late.id)).parked_on == hold["key"]
    assert "crm asked to wait until" in await home.explain(late.id)


async def test_the_history_in_a_session_s_inbox_keeps_its_times(old, home, postgres_url):
    @old.handler("mail")
    async def mail(_job):
        raise Permanent("no")

    await old.enqueue("mail", 1, session="s")
    await old.worker().run_due()
    [before] = await old.inbox.list("s")
    await promote(old, postgres_url)
    [after] = await home.inbox.list("s")
    [was], [is_now] = before["history"], after["history"]
    assert abs((was["at"] - is_now["at"]).total_seconds()) < 0.5


async def test_a_store_with_a_surface_that_fails_can_be_promoted_and_still_tells_of_it(old, home, postgres_url):
    await old._store.write(alerts.note_sinks, Word("chat", "no answer"))  # noqa: SLF001
    [(_, since, _)] = await old._store.read(alerts.sinks())  # noqa: SLF001
    wall = since + old._store.skew()  # noqa: SLF001
    await promote(old, postgres_url)
    assert await home._store.read(alerts.sinks()) == [("chat", pytest.approx(wall, abs=0.5), "no answer")]  # noqa: SLF001


async def test_a_promotion_is_no_jump_of_the_clock(old, home, postgres_url):
    await old._store.write(upkeep.sweep, SWEEP)  # noqa: SLF001
    await promote(old, postgres_url)
    await home.open()
    await home._store.write(upkeep.sweep, SWEEP)  # noqa: SLF001
    assert "clock jumped" not in (await home.health())["issues"]
