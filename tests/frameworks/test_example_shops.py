"""The example applications run for real: served, asked, worked, killed in the middle, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from standfast import Standfast
from tests.frameworks.shops import PATIENCE, SHOPS, Running, running

ORDERS = (1, 2, 3)


async def in_state(sf: Standfast, state: str, shop: Running) -> set[str]:
    """Wait until all jobs are in a state; give their ids."""
    async with asyncio.timeout(PATIENCE):
        while len(found := await sf.jobs(state=state)) < len(ORDERS):
            await asyncio.sleep(0.1)
            assert not shop.ended_badly(), shop.said()
    return {job.id for job in found}


def mails(name: str, shop: Running) -> dict[int, int]:
    """Count the mails of each order."""
    if name != "fastapi":
        return {int(number): mailed for number, mailed in shop.ask("GET", "/orders").items()}
    sent = shop.mail.read_text().split()
    return {number: sent.count(str(number)) for number in ORDERS}


@pytest.mark.timeout(150)
@pytest.mark.parametrize("name", SHOPS)
async def test_a_shop_loses_nothing_when_its_worker_is_killed(name: str, tmp_path: Path) -> None:
    with running(name, tmp_path) as shop:
        ids = {shop.ask("POST", f"/orders/{number}")["job"] for number in ORDERS}
        async with Standfast(shop.store) as sf:
            first = shop.work(seconds=60)
            assert await in_state(sf, "running", shop) == ids
            os.killpg(first.pid, signal.SIGKILL)
            first.wait()
            shop.work(seconds=0)
            assert await in_state(sf, "completed", shop) == ids
        assert mails(name, shop) == dict.fromkeys(ORDERS, 1)
        if name == "django":
            assert {shop.ask("GET", f"/jobs/{each}")["status"] for each in ids} == {"SUCCESSFUL"}
