"""What triage adds to a dying attempt: deaths with it and without it, by turns, on this machine.

    python benchmarks/triage_cost.py [--jobs 500] [--rounds 9]

With it: a policy of ten rules of which the last one fits, the letter's fingerprint, and the write of both. Without it:
the same deaths, whose triage is a constant. Measured is the processor's time of the whole attempt, from its claim to its
commit: `one by one`, and `in bulk`, where all jobs of a worker die and share claims and commits. What a disk takes to
sync comes on top of both, and is the same with it and without it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from standfast import Permanent, Standfast
from standfast.decide import settle
from standfast.decide.classify import of_exception
from standfast.failure import Action
from standfast.lifecycle import Transition, Triage
from standfast.store.orders import Order, Want
from standfast.testing import drain

RULES = "\n".join(f'  - match: {{queue: "other{n}*", class: transient}}\n    action: manual_review' for n in range(9))
POLICY = f"version: v1\ndlq_rules:\n{RULES}\n  - match: {{reason_code: handler_refused}}\n    action: quarantine\n"
CONSTANT = Triage(action=Action.MANUAL_REVIEW, rule="none")
MESSAGE = "customer 4711 at https://shop.example/orders/99 refused '12.50 EUR' after 3 tries on 2026-11-16 04:12:00"


def constant(decided: Transition, *_: Any) -> Transition:
    """Stand for a triage that costs nothing."""
    return msgspec.structs.replace(decided, triage=CONSTANT)


async def one_by_one(sf: Standfast, jobs: int) -> float:
    """Let jobs die, each by itself, as a worker lets them."""
    await sf.enqueue_many("mail", list(range(jobs)))
    store, policy = sf._store, sf.policy.known  # noqa: SLF001 - what a worker has
    order = Order("bench", (Want("mail", ("mail",), 1),), policy.mark)
    begin = time.process_time()
    for _ in range(jobs):
        catch = await store.claim(order)
        [claim] = catch.claims
        outcome = of_exception(Permanent(f"{claim.id}: {MESSAGE}"))
        await store.apply([settle.settle(claim, outcome, catch.rules["mail"], 0.5, policy.present(store))])
    return time.process_time() - begin


async def in_bulk(sf: Standfast, jobs: int) -> float:
    """Let jobs die together."""
    await sf.enqueue_many("mail", list(range(jobs)))
    begin = time.process_time()
    await drain(sf)
    return time.process_time() - begin


async def deaths(way: Callable[[Standfast, int], Awaitable[float]], directory: Path, jobs: int) -> float:
    """Let so many jobs die, and give the seconds each took."""
    sf = Standfast(directory / "queue.db")
    sf.queue("mail", attempts=1)

    @sf.handler("mail")
    async def refuse(job: Any) -> None:
        raise Permanent(f"{job.id}: {MESSAGE}")

    sf.policy.load(POLICY)
    async with sf:
        return await way(sf, jobs) / jobs


def one_round(way: Callable[[Standfast, int], Awaitable[float]], jobs: int, judge: Any) -> float:
    """Measure one way, in a store of its own."""
    before, settle.judged = settle.judged, judge  # type: ignore[attr-defined]
    try:
        with tempfile.TemporaryDirectory() as directory:
            return asyncio.run(deaths(way, Path(directory), jobs))
    finally:
        settle.judged = before  # type: ignore[attr-defined]


def main() -> None:
    """Measure by turns, and print the least of each, which is what other programs disturbed least."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    logging.getLogger("standfast").setLevel(logging.CRITICAL)
    judged = settle.judged  # type: ignore[attr-defined]
    for way, jobs in ((one_by_one, given.jobs // 5), (in_bulk, given.jobs)):
        pairs = [(one_round(way, jobs, judged), one_round(way, jobs, constant)) for _ in range(given.rounds)]
        with_it, without = (min(times) * 1e6 for times in zip(*pairs, strict=True))
        name = way.__name__.replace("_", " ")
        print(f"{name}: {with_it:.0f} µs with triage, {without:.0f} µs without, {with_it / without - 1:+.1%}")


if __name__ == "__main__":
    main()
