"""A program that enqueues while its interpreter ends: `python ending.py DATABASE WHEN OPENED`."""

from __future__ import annotations

import asyncio
import atexit
import sys
import threading

from standfast import Standfast


def say(word: object) -> None:
    print(word, flush=True)  # noqa: T201 - the test reads it


def use(sf: Standfast) -> None:
    """Use the queue from code without a loop, then in a loop, then close it."""
    say(sf.enqueue_sync("mail", 1).outcome)
    asyncio.run(use_in_loop(sf))


async def use_in_loop(sf: Standfast) -> None:
    receipt = await sf.enqueue("mail", 2)
    say(receipt.outcome)
    job = await sf.status(receipt.id)
    say(job and job.state)
    await sf.close()
    say("closed")


def use_later(sf: Standfast) -> None:
    threading.main_thread().join()
    use(sf)


if __name__ == "__main__":
    url, when, opened = sys.argv[1:]
    sf_ = Standfast(url)
    sf_.queue("mail", attempts=3)
    if opened == "opened before":
        sf_.enqueue_sync("mail", 0)
    if when == "an exit handler":
        atexit.register(use, sf_)
    else:
        threading.Thread(target=use_later, args=(sf_,)).start()
