"""A worker process whose handlers act on the world: `python acting.py URL LOG [SETTINGS]`.

The world is a receiver: an act is a request that it writes down before it answers, and checks read it there. What
becomes of a job is in its payload; a queue is named like the replay mode of its handler. How far it came is in the log.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec

from standfast import Effect, Standfast, fixed
from standfast.worker import worker as worker_module
from tests.receiver import Receiver
from tests.worker.processes import Log

MODES = ("replay", "verify_first", "manual")


class Settings(msgspec.Struct):
    """What a test may ask for."""

    lease: float = 0.6
    receiver: str = ""
    """Where to send what is done, and the file that the receiver writes it to."""
    received: str = ""
    together: int = 1
    """How many jobs must be where they are to die before one kills the process."""


def application(url: str, world: Log, settings: Settings) -> Standfast:
    """Declare one queue for each mode; only what is verified first can be looked for."""
    sf = Standfast(url)
    for mode in MODES:
        verify = world_check(settings) if mode == "verify_first" else None
        sf.queue(mode, lease=settings.lease, backoff=fixed(0.01), attempts=5)
        sf.handler(mode, replay=mode, effects=[Effect("mark", verify)])(acting(world, settings))  # type: ignore[call-overload]
    return sf


def world_check(settings: Settings) -> Any:
    """Look into the world whether a job has acted."""
    written = Receiver(Path(settings.received))
    return lambda job: bool(written.requests(f"/{job.payload['name']}"))


def acting(world: Log, settings: Settings) -> Any:
    """Act once by the ledger, and die or wait where the payload says, in the first attempt."""

    def handler(job: Any) -> str:
        first = job.token == 1  # an attempt that was cut in company is not spent, and has its number again
        asked = job.payload if first else {"name": job.payload["name"]}
        write(world, "start", job)
        wait_for(asked.get("before"))

        def act() -> int:
            wait_for(asked.get("inside"))
            with urlopen(f"{settings.receiver}/{job.payload['name']}", data=b"act", timeout=30):  # noqa: S310 - the test's own
                pass
            if asked.get("die") == "inside":
                die(world, settings, job)
            return int(job.token)

        receipt = job.once_sync("mark", act)
        if asked.get("die") == "after":
            die(world, settings, job)
        return f"by attempt {receipt}"

    return handler


def write(world: Log, what: str, job: Any) -> None:
    """Append a line, on disk when this returns."""
    line = f"{what} {job.payload['name']} {job.attempt} {os.getpid()}\n"
    file = os.open(world.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(file, line.encode())
    os.fsync(file)
    os.close(file)


def wait_for(path: str | None) -> None:
    """Wait until a test lets it go on."""
    while path is not None and not Path(path).exists():
        time.sleep(0.005)


def die(world: Log, settings: Settings, job: Any) -> None:
    """Be killed once all that shall be together are as far."""
    write(world, "there", job)
    while len(world.lines("there")) < settings.together:
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    url_, log_, *given = sys.argv[1:]
    settings_ = msgspec.json.decode(given[0] if given else "{}", type=Settings)
    worker_module.POLL_EVERY = 0.2
    application(url_, Log(Path(log_)), settings_).run_worker()
