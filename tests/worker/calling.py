"""A process that calls a handler of its own, which kills it or hangs: `python calling.py URL LOG MODE [hang]`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from standfast import Standfast, fixed

LEASE = 0.6


def tell(log: str, line: str) -> None:
    """Append one line, whole, whatever happens to this process afterwards."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def application(url: str, log: str, mode: str, do: str = "kill") -> Standfast:
    """Declare a handler whose first attempt does not end by itself; each start is logged before."""
    sf = Standfast(url)
    sf.queue("mail", lease=LEASE, backoff=fixed(0.01))

    @sf.handler("mail", replay=mode)  # type: ignore[call-overload, untyped-decorator]
    async def mail(job: Any) -> str:
        tell(log, f"start x {job.attempt} {os.getpid()}\n")
        if job.attempt == 1 and do == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if job.attempt == 1:
            await asyncio.sleep(600)
        return "sent"

    return sf


async def main(*given: str) -> None:
    """Call it."""
    await application(*given).run("mail", {}, idempotency_key="k")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
