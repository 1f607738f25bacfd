"""What producers and workers do while their server is taken away, reporting to files the product does not write."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from pathlib import Path
from typing import Any

from standfast import Job, Standfast, StoreUnavailable
from tests.faults.crowd import Reporting
from tests.faults.nursery import report

LEASE = 6.0


def produce(url: str, directory: str, name: str) -> None:
    """Hand in jobs until told to stop, each again and again until it is accepted; report how long each call took."""
    place = Path(directory)

    async def hand_in(sf: Standfast, caller: int) -> None:
        for n in itertools.count():
            key = f"{name}-{caller}-{n}"
            report(place / "offered", key=key)
            while True:
                began = time.monotonic()
                try:
                    receipt = await sf.enqueue("post", {"key": key}, idempotency_key=key)
                except StoreUnavailable as error:
                    report(place / "refused", key=key, took=time.monotonic() - began, definite=error.definite)
                else:
                    report(place / "accepted", key=key, id=receipt.id, at=time.time(), outcome=receipt.outcome)
                    break
            if (place / "stop").exists():
                return
            await asyncio.sleep(0.01)

    async def hand_all_in() -> None:
        async with Standfast(url) as sf:
            await asyncio.gather(*(hand_in(sf, caller) for caller in range(3)))

    asyncio.run(hand_all_in())


def work(url: str, directory: str, name: str, lease: float = LEASE) -> None:
    """Run jobs; those that say so wait until they are let go."""
    place = Path(directory)
    logging.getLogger("standfast").addHandler(Reporting(place / f"log-{name}"))
    sf = Standfast(url)
    sf.queue("post", lease=lease, backoff="none")

    @sf.handler("post")
    async def post(job: Job) -> dict[str, Any]:
        line = {"id": job.id, "token": job.token, "key": job.payload["key"], "by": name}
        report(place / "ran", step="start", at=time.time(), **line)
        if job.payload.get("waits"):
            while not (place / "go").exists():  # noqa: ASYNC110 - another process tells by this file
                await asyncio.sleep(0.01)
        else:
            await asyncio.sleep(0.002)
        report(place / "ran", step="end", at=time.time(), **line)
        return {"by": name}

    report(place / "working", by=name)
    sf.run_worker(concurrency=4)
