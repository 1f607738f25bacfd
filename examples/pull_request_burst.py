"""A burst of comments on one pull request is one job, and a broken master goes first.

Run it: python examples/pull_request_burst.py [DATABASE]
"""

from __future__ import annotations

import asyncio
import sys

from standfast import Job, Receipt, Standfast
from standfast.rules import TRIGGER_PRIORITIES

sf = Standfast(sys.argv[1] if len(sys.argv) > 1 else ":memory:")
sf.queue("review", coalesce="latest")  # in a burst on one pull request, the newest event counts

PRIORITIES = TRIGGER_PRIORITIES | {"mention": 55}
"""The defaults, except for one trigger that this team wants sooner."""


@sf.handler("review")
async def review(job: Job) -> str:
    """Review a pull request as it is now; events before the last one do not matter."""
    folded = job.coalesced["count"] if job.coalesced else 0
    print(f"{job.payload['thread']}: {job.payload['text']} ({folded} folded into it)")
    return "reviewed"


async def event(trigger: str, thread: str, text: str, delivery: str) -> Receipt:
    """Accept an event. A second delivery of it is answered as a duplicate."""
    return await review.enqueue(
        {"thread": thread, "text": text},
        thread_key=thread,
        idempotency_key=delivery,
        priority=PRIORITIES[trigger],
        labels={"trigger": trigger},
    )


async def main() -> None:
    """Accept a burst, a redelivery and a broken build; then work, one thread at a time."""
    async with sf:
        receipts = [await event("pr_update_general", "pr-7", f"comment {n}", f"delivery-{n}") for n in range(1, 6)]
        receipts.append(await event("mention", "pr-9", "what do you think?", "delivery-6"))
        receipts.append(await event("pr_update_general", "pr-7", "comment 2", "delivery-2"))
        receipts.append(await event("ci_failure_master", "master", "the build is broken", "delivery-7"))
        print(*(receipt.outcome for receipt in receipts))
        async with sf.worker(concurrency=1):
            for receipt in receipts:
                await sf.wait(receipt.id, timeout=10)


if __name__ == "__main__":
    asyncio.run(main())
