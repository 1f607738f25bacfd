# ruff: noqa: T201 - what it prints is what the tests read
"""A producer and a worker for the tests: `work.py URL enqueue|work COUNT`."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

from standfast import Standfast

url, what, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
sf = Standfast(url)
seen: list[int] = []
enough = threading.Event()


@sf.handler("mail")
def send(job: Any) -> str:
    seen.append(job.payload)
    if len(seen) == count:
        enough.set()
    return str(job.requester)


async def enqueue() -> None:
    async with sf:
        for number in range(count):
            print((await sf.enqueue("mail", number)).outcome, flush=True)


async def work() -> None:
    async with sf, sf.worker():
        print("ready", flush=True)
        await asyncio.to_thread(enough.wait, 30)
    print(sorted(seen), flush=True)


asyncio.run({"enqueue": enqueue, "work": work}[what]())
