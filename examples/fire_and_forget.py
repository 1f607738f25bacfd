"""Replace fire-and-forget in async code: one line changes, and nothing is lost when the service is down.

Run it: python examples/fire_and_forget.py [DATABASE]
"""

from __future__ import annotations

import asyncio
import sys

from standfast import Job, Standfast, Transient, exponential

sf = Standfast(sys.argv[1] if len(sys.argv) > 1 else ":memory:")
sf.queue("artifact_delivery", attempts=5, backoff=exponential(base=0.05))

service_is_down = True


@sf.handler("artifact_delivery")
async def deliver_artifacts(job: Job) -> dict[str, int]:
    """Deliver; whatever fails here is tried again."""
    if service_is_down:
        raise Transient("the delivery service is down")
    print(f"delivered {job.payload['turns']} on attempt {job.attempt}")
    return {"delivered": len(job.payload["turns"])}


async def answer(message: str) -> str:
    """Answer a user. The artifacts follow, whatever happens to the service or to this process."""
    turns = [f"picture of {message}"]
    # This line was asyncio.create_task(...): if the service was down, the artifacts were gone.
    await deliver_artifacts.enqueue({"turns": turns, "prompt": message})
    return "here you are"


async def main() -> None:
    """Answer while the service is down, bring it back, and see everything arrive."""
    global service_is_down  # noqa: PLW0603 - the example's whole world
    async with sf, sf.worker():
        print(await answer("a cat"))
        [job] = await sf.jobs(queue="artifact_delivery")
        while job.view != "retry_pending":
            await asyncio.sleep(0.01)
            [job] = await sf.jobs(queue="artifact_delivery")
        service_is_down = False
        done = await sf.wait(job.id, timeout=10)
        print(f"{done.state} after {done.attempts} attempts: {done.result}")


if __name__ == "__main__":
    asyncio.run(main())
