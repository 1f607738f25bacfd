"""Names of queues that are undeclared: no producer makes them up, empty ones are forgotten, metrics stay bounded."""

from __future__ import annotations

import httpx2
import msgspec
import pytest

from standfast import Standfast
from standfast.rules import DEFAULTS
from standfast.server.app import Server
from standfast.testing import drain
from standfast.wings.health import exposition
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.waiting import seen

HERE = "http://127.0.0.1"


@pytest.fixture
def sf(furnished: Standfast) -> Standfast:
    return furnished


async def client(sf: Standfast, role: str, **scope: object) -> httpx2.AsyncClient:
    token = (await sf.tokens.create(role, person=role, role=role, **scope))["token"]  # type: ignore[arg-type]
    transport = httpx2.ASGITransport(app=Server(sf).app)
    return httpx2.AsyncClient(transport=transport, base_url=HERE, headers={"Authorization": f"Bearer {token}"})


async def test_a_producer_cannot_make_up_queues(sf: Standfast) -> None:
    """Only a token that was made for some may name them; every other brings work to queues that a process published."""
    async with await client(sf, "producer") as producer, await client(sf, "operator", queues=["own"]) as scoped:
        refused = await producer.post("/api/v1/jobs", json={"queue": "made-up"})
        assert (refused.status_code, "published" in refused.json()["detail"]) == (403, True)
        assert "made-up" not in await sf.queues.list()
        assert (await producer.post("/api/v1/jobs", json={"queue": "echo"})).status_code == 201
        assert [(await scoped.post("/api/v1/jobs", json={"queue": q})).status_code for q in ("own", "made-up")] == [
            201,
            403,
        ]


async def test_empty_queues_that_nobody_declared_are_forgotten(sf: Standfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever has a job, a handler, rules, a schedule or a pause stays; and a forgotten one can be used again."""
    monkeypatch.setattr(upkeep, "IDLE", -1.0)
    sf.queue("declared")
    for queue in ("ended", "scheduled", "waiting", "paused"):
        await sf.enqueue(queue, 1, delay="1h" if queue == "scheduled" else 0)
    await sf.queues.pause("paused")
    await sf.schedules.add("nightly", "timetable", every=3600)
    await sf.enqueue("echo", 1)
    await drain(sf)
    for job in [await sf.enqueue("gone", 1), *await sf.jobs(queue="paused")]:
        await sf.cancel(str(job.id), by="ann")
    before = {*await sf.queues.list()}
    assert "gone" in before
    stay = {"declared", "ended", "scheduled", "waiting", "paused", "timetable", "echo", "refused"} & before
    monkeypatch.setattr(upkeep, "DEFAULTS", msgspec.structs.replace(DEFAULTS, keep_completed=0.001))

    async def forgotten() -> bool:
        await sf._store.write(upkeep.prune, PruneRequest())  # noqa: SLF001
        return "gone" not in await sf.queues.list()

    await seen(forgotten)
    assert stay <= {*await sf.queues.list()}
    again = await sf.enqueue("gone", 2)
    assert "gone" in await sf.queues.list()
    sf.handler("gone")(lambda job: job.payload)
    await drain(sf)
    done = await sf.status(str(again.id))
    assert done is not None
    assert done.state == "completed"


async def test_metrics_show_so_many_queues(sf: Standfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are served and those with most to do; how many are left out is told."""
    monkeypatch.setattr(exposition, "MOST_QUEUES", 3)
    for n in range(5):
        for _ in range(n + 1):
            await sf.enqueue(f"q{n}", 1)
    found = exposition.text(await sf.measures(), None).decode()
    shown = {name for name in await sf.queues.list() if f'queue="{name}"' in found}
    assert len(shown) == 3
    assert {"q4", "q3"} <= shown
    left = next(line for line in found.splitlines() if line.startswith("standfast_queues_left_out "))
    assert float(left.split()[1]) == len(await sf.queues.list()) - 3
