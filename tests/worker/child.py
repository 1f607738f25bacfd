"""A worker process for tests: `python child.py DATABASE LOG [SETTINGS]`. Its handlers do what the payload says.

Every start is appended to the log before anything else happens: a record the product does not write.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import Any

import msgspec

from standfast import Standfast, Transient, fixed
from standfast.worker import worker as worker_module


class Settings(msgspec.Struct):
    """What a test may ask for."""

    rules: dict[str, dict[str, Any]] = {}
    replay: Any = "replay"
    concurrency: int = 8
    grace: float = 30.0
    poll: float = 2.0


def tell(log: str, *words: object) -> None:
    """Append one line, whole, whatever happens to this process afterwards."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())
    os.close(descriptor)


def application(path: str, log: str, settings: Settings) -> Standfast:
    """Declare the queues and a plain, an async and a configurable handler."""
    sf = Standfast(path)
    for name, rules in settings.rules.items():
        wait = rules.pop("wait", None)
        sf.queue(name, **rules, **({} if wait is None else {"backoff": fixed(wait)}))

    @sf.handler("mail", replay=settings.replay)
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
            case float(seconds):
                await asyncio.sleep(seconds)
        tell(log, "end", job.payload["name"], job.attempt, os.getpid())
        return "done"

    @sf.handler("print")
    def print_(job: Any) -> None:
        tell(log, "start", job.payload["name"], job.attempt, os.getpid())
        time.sleep(600)

    return sf


if __name__ == "__main__":
    path_, log_, *given = sys.argv[1:]
    settings_ = msgspec.json.decode(given[0] if given else "{}", type=Settings)
    worker_module.POLL_EVERY = settings_.poll
    application(path_, log_, settings_).run_worker(concurrency=settings_.concurrency, grace=settings_.grace)
