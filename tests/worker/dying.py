"""A worker that is killed in its first second: `python dying.py DATABASE WHEN`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from standfast import Permanent, Standfast
from standfast.concurrency.flows import Answer
from standfast.spine.apply import apply
from standfast.spine.claim_requests import ClaimRequest, ClaimResult
from standfast.store.store import Store
from tests.between import between


def kill_oneself() -> None:
    """Kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


def no_claim(_store: Store, _order: ClaimRequest) -> ClaimResult:
    """Die where the first claim would be."""
    kill_oneself()
    raise AssertionError


async def one_death(_: Sequence[Any], landed: Answer[Any]) -> None:
    """Die when the first death is on disk."""
    if await landed:
        kill_oneself()


async def work(url: str, when: str) -> None:
    """Enqueue what dies at once, and work."""
    sf = Standfast(url)

    @sf.handler("mail")
    async def mail(_job: Any) -> None:
        raise Permanent("no such address")

    if when == "before the first claim":
        Store.claim = no_claim  # type: ignore[method-assign, assignment]
    else:
        between(Store, apply, one_death)
    async with sf:
        await sf.enqueue("mail", {"why": "no such address"})
        async with sf.worker():
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
