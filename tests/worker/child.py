"""A worker process for tests: `python child.py DATABASE LOG [SETTINGS]`. Its handlers do what the payload says.

Every start is appended to the log before anything else happens: a record the product does not write.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

import msgspec

from standfast import Standfast, Transient, fixed
from standfast.worker import executor as executor_module
from standfast.worker import worker as worker_module


class Settings(msgspec.Struct):
    """What a test may ask for."""

    rules: dict[str, dict[str, Any]] = {}
    replay: Any = "replay"
    concurrency: int = 8
    grace: float = 30.0
    poll: float = 2.0
    last_word: float = 5.0
    consent: bool = False
    """Whether the handler of mail asks the grants of its session."""
    bare: bool = False
    """Work inside `asyncio.run`, as an application of its own does."""


def tell(log: str, *words: object) -> None:
    """Append one line, whole, whatever happens to this process afterwards."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, (" ".join(map(str, (*words, time.monotonic()))) + "\n").encode())
    os.close(descriptor)


def application(path: str, log: str, settings: Settings) -> Standfast:
    """Declare the queues and a plain, an async and a configurable handler."""
    sf = Standfast(path)
    for name, rules in settings.rules.items():
        wait = rules.pop("wait", None)
        sf.queue(name, **(rules if wait is None else {**rules, "backoff": fixed(wait)}))

    @sf.handler("mail", replay=settings.replay, consent=settings.consent)
    async def mail(job: Any) -> str:
        tell(log, "start", job.payload["name"], job.attempt, os.getpid())
        match job.payload.get("do"):
            case "hang":
                await asyncio.sleep(600)
            case "exit":
                os._exit(0)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "fail":
                raise Transient("asked to")
            case "interrupt":
                raise KeyboardInterrupt
            case "be interrupted" | "swallow" as how:
                await (be_interrupted() if how == "be interrupted" else swallow())
            case float(seconds):
                await asyncio.sleep(seconds)
        tell(log, "end", job.payload["name"], job.attempt, os.getpid())
        return "done"

    @sf.handler("gather")
    async def gather(job: Any) -> None:
        """Take a payload, or those that were collected; every fifth fails the first time."""
        names = [each["name"] for each in (job.payload if isinstance(job.payload, list) else [job.payload])]
        tell(log, "start", ",".join(names), job.attempt, os.getpid())
        await asyncio.sleep(0.002)
        tell(log, "end", ",".join(names), job.attempt, os.getpid())
        if job.attempt == 1 and names[0].endswith(("0", "5")):
            raise Transient("asked to")

    @sf.handler("print")
    def print_(job: Any) -> None:
        tell(log, "start", job.payload["name"], job.attempt, os.getpid())
        if job.payload.get("do") == "interrupt":
            raise KeyboardInterrupt
        time.sleep(600)

    return sf


async def be_interrupted() -> None:
    """Take two real interrupts: the first stops the loop, the second is thrown into whatever runs."""
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)


async def swallow() -> None:
    """Go on whoever cancels it."""
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(600)


async def work_bare(sf: Standfast) -> None:
    """Work until something stops the loop."""
    async with sf, sf.worker():
        await asyncio.Event().wait()


if __name__ == "__main__":
    path_, log_, *given = sys.argv[1:]
    settings_ = msgspec.json.decode(given[0] if given else "{}", type=Settings)
    worker_module.POLL_EVERY = settings_.poll
    executor_module.LAST_WORD = settings_.last_word
    sf_ = application(path_, log_, settings_)
    if settings_.bare:
        asyncio.run(work_bare(sf_))
    sf_.run_worker(concurrency=settings_.concurrency, grace=settings_.grace)
