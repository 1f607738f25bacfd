"""Enqueue from plain code without an event loop, and let a worker do the work later.

Run it: python examples/sync_app.py [DATABASE]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from standfast import Job, Receipt, Standfast

DATABASE = sys.argv[1] if len(sys.argv) > 1 else str(Path(tempfile.mkdtemp()) / "queue.db")

sf = Standfast(DATABASE)


@sf.handler("welcome_mail")
def send_welcome_mail(job: Job) -> str:
    """Send it; a plain function runs in a thread of the worker."""
    print(f"welcome, {job.payload['name']}")
    return "sent"


def register(name: str) -> Receipt:
    """Register a user. When this returns, the mail is on disk: a crash right after it loses nothing."""
    return sf.enqueue_sync("welcome_mail", {"name": name}, idempotency_key=f"welcome_{name}")


async def work(receipts: list[Receipt]) -> None:
    """Run jobs as the process `standfast worker sync_app:sf` would, until these are done."""
    async with sf, sf.worker():
        for receipt in receipts:
            assert receipt.id is not None  # noqa: S101 - None only where the store was bypassed
            job = await sf.wait(receipt.id, timeout=10)
            print(f"{job.payload['name']}: {job.result}")


def main() -> None:
    """Register two users, one of them twice, and send the mail."""
    receipts = [register(name) for name in ("ann", "bob", "ann")]
    print(*(receipt.outcome for receipt in receipts))
    asyncio.run(work(receipts[:2]))


if __name__ == "__main__":
    main()
