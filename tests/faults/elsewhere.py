"""What producers and workers do on hosts of their own, reporting to files the product does not write."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from standfast import Job, Standfast
from tests.faults.crowd import Reporting
from tests.faults.nursery import report

LIBC = ctypes.CDLL(None, use_errno=True)
TIMEOUT = 5.0
CALLERS = 2
SPOOL_PATIENCE = 30.0


def enter(namespace: int) -> None:
    """Have this thread, and those it starts, be in a network namespace."""
    if LIBC.setns(namespace, 0):
        raise OSError(ctypes.get_errno(), "setns")


def on_a_host(path: str, role: str, *arguments: Any) -> None:
    """Play a role in a namespace."""
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    enter(namespace)
    os.close(namespace)
    ROLES[role](*arguments)


def produce(url: str, directory: str, name: str, pause: float) -> None:
    """Hand in jobs until told to stop, and stay until the spool is empty."""
    place = Path(directory)
    os.environ["STANDFAST_SPOOL"] = str(place / f"spool-{name}")

    async def hand_in(sf: Standfast, caller: int) -> None:
        for n in itertools.count():
            key = f"{name}-{caller}-{n}"
            report(place / "offered", key=key)
            began = time.monotonic()
            receipt = await sf.enqueue("post", {"key": key}, idempotency_key=key)
            line: dict[str, Any] = {"key": key, "id": receipt.id, "outcome": receipt.outcome, "by": name}
            report(place / "accepted", at=time.time(), took=time.monotonic() - began, **line)
            if (place / "stop").exists():
                return
            await asyncio.sleep(pause)

    async def hand_all_in() -> None:
        async with Standfast(url) as sf:
            await asyncio.gather(*(hand_in(sf, caller) for caller in range(CALLERS)))
            spool = sf._reception._spool  # noqa: SLF001 - its depth in health is told every so often only
            give_up = time.monotonic() + SPOOL_PATIENCE
            while spool is not None and spool.depth():
                assert time.monotonic() < give_up, "the spool did not get empty"
                await asyncio.sleep(0.01)

    asyncio.run(hand_all_in())


def work(url: str, directory: str, name: str, receiver: str, lease: float) -> None:
    """Send a request for each job, and say under which token."""
    place = Path(directory)
    logging.getLogger("standfast").addHandler(Reporting(place / f"log-{name}"))
    sf = Standfast(url)
    sf.queue("post", lease=lease, attempts=50, backoff=lambda _: 0.2)
    client = httpx2.AsyncClient(timeout=TIMEOUT, trust_env=False)

    @sf.handler("post")
    async def post(job: Job) -> None:
        said = {"key": job.payload["key"], "token": job.token, "by": name}
        reply = await client.post(f"{receiver}/{job.payload['key']}?{job.payload.get('asks', '')}", json=said)
        reply.raise_for_status()

    report(place / "working", by=name)
    sf.run_worker(concurrency=4)


ROLES: dict[str, Callable[..., None]] = {"produce": produce, "work": work}
