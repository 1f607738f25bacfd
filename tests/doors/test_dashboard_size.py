"""The dashboard beside a million jobs and a hundred thousand dead letters: every page comes within its time."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

import httpx2
import pytest

from standfast import Permanent, Standfast
from standfast.dashboard.sitemap import PAGES
from standfast.server.app import Server
from standfast.testing import drain
from tests.waiting import seen

HERE = "http://127.0.0.1"
WITHIN = 0.2
JOBS, LETTERS = 1_000_000, 100_000
LOOKS = 3
AT_ONCE = 1000


async def furnish(sf: Standfast) -> None:
    """Fill the store by its own means: first the letters, then what waits."""
    for each in range(10):
        sf.handler(f"queue{each}")(lambda _: None)

    @sf.handler("refused")
    async def refused(job):
        raise Permanent(f"no: {'abcdefg'[job.payload % 7]}")

    for begin in range(0, LETTERS, AT_ONCE):
        await sf.enqueue_many("refused", list(range(begin, begin + AT_ONCE)))
    await drain(sf)
    for begin in range(0, JOBS, AT_ONCE):
        payloads = [{"n": n, "text": "x" * 100} for n in range(AT_ONCE)]
        await sf.enqueue_many(f"queue{begin // AT_ONCE % 10}", payloads)


async def look(client: httpx2.AsyncClient, address: str) -> float:
    """Give what a page takes, the first look included: as the clock has it, or the processor if others use it too."""
    began, spent = time.monotonic(), time.process_time()
    answer = await client.get(address)
    assert answer.status_code == 200, (address, answer.text)
    return min(time.monotonic() - began, time.process_time() - spent)


async def nothing_beside(before: int) -> None:
    """Wait until what is asked beside a page is answered: it is none of the next one's."""
    await seen(lambda: len(asyncio.all_tasks()) <= before, within=60)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_every_page_comes_within_its_time(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    slow = {}
    async with Standfast(path) as sf:
        await furnish(sf)
        gc.freeze()  # as `serve` does: pytest keeps what every letter logged, and that is no page's to walk through
        server = Server(sf)
        transport = httpx2.ASGITransport(app=server.app)
        token = await sf.tokens.create("ann", person="ann", role="admin")
        dead = (await sf.dead_letters.list(limit=1))[0]
        addresses = [each.path for each in PAGES if "{" not in each.path]
        filtered = ["/jobs?queue=queue3", "/jobs?state=dead", "/jobs?view=retry_pending", "/jobs?q=nothing"]
        filtered += ["/jobs?reason_code=handler_refused", "/jobs?label=none", "/jobs?queue=queue3&state=completed"]
        letters = ["/dead-letters?queue=refused", f"/dead-letters?fingerprint={dead.fingerprint}"]
        letters += ["/dead-letters?reason_code=nothing", "/dead-letters?replay_status=quarantined&landed=no"]
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            await client.post("/sign-in", data={"token": token["token"]})
            before = len(asyncio.all_tasks())
            for address in (*addresses, *filtered, *letters, f"/jobs/{dead.id}", "/queues/queue3", "/queues/refused"):
                slow[address] = max([await look(client, address) for _ in range(LOOKS)])
                await nothing_beside(before)
        await server.close()
    print("\n".join(f"{took * 1000:7.1f} ms  {address}" for address, took in sorted(slow.items())))  # noqa: T201
    assert {address: took for address, took in slow.items() if took > WITHIN} == {}
