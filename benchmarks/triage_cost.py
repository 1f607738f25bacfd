"""What triage adds to a dying attempt: deaths with it and without it, in turn, on this machine.

    python benchmarks/triage_cost.py [--rounds 400]

With it: a policy of ten rules of which the last one fits, the letter's fingerprint, and writing both. Without it: the
same deaths, whose triage is a constant. The measure is the processor time of the whole attempt, from claim to commit:
`one by one`, and `in bulk`, where all jobs of a worker die and share claims and commits. Their messages differ by a
number, as most do, and in the last row by an id with letters, whose words are analysed anew for every death. The time
that a disk takes to sync comes on top, and is the same with and without triage.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from standfast import Permanent, Standfast
from standfast.failure import Action
from standfast.failure.classify import of_exception
from standfast.job import Claim
from standfast.lifecycle import Transition, Triage
from standfast.spine import settle
from standfast.spine.claim_requests import Order, Want
from standfast.testing import drain

RULES = "\n".join(f'  - match: {{queue: "other{n}*", class: transient}}\n    action: manual_review' for n in range(9))
POLICY = f"version: v1\ndlq_rules:\n{RULES}\n  - match: {{reason_code: handler_refused}}\n    action: quarantine\n"
CONSTANT = Triage(action=Action.MANUAL_REVIEW, rule="none")
MESSAGE = "customer 4711 at https://shop.example/orders/99 refused '12.50 EUR' after 3 tries on 2026-11-16 04:12:00"


JUDGED = settle._judged  # noqa: SLF001 - replaced for comparison, with the gathering of facts
Way = Callable[[Standfast], Awaitable[None]]


def constant(_: Claim, decided: Transition, *__: Any) -> Transition:
    """Replace triage by one that costs nothing."""
    return msgspec.structs.replace(decided, triage=CONSTANT)


async def one_by_one(sf: Standfast) -> None:
    """Let a job die on its own, as in a worker."""
    store, policy = sf._store, sf.policy.known  # noqa: SLF001 - the same as in a worker
    catch = await store.claim(Order("bench", (Want("mail", ("mail",), 1),), policy.mark))
    [claim] = catch.claims
    outcome = of_exception(Permanent(f"{claim.id}: {MESSAGE}"))
    await store.apply([settle.settle(claim, outcome, catch.rules["mail"], 0.5, policy.present(store))])


async def in_bulk(sf: Standfast) -> None:
    """Let jobs die together, with messages that differ by a number."""
    await drain(sf)


async def in_bulk_with_ids(sf: Standfast) -> None:
    """Let jobs die together, with messages that differ by an id."""
    await drain(sf)


async def measured(sf: Standfast, way: Way, jobs: int, rounds: int) -> tuple[float, float]:
    """Let jobs die, again and again, in turn with triage and without; return the median seconds of each."""
    took: dict[Any, list[float]] = {JUDGED: [], constant: []}
    for _ in range(rounds):
        for judge, times in took.items():
            await sf.enqueue_many("mail", list(range(jobs)))
            settle._judged = judge  # noqa: SLF001
            begin = time.process_time()
            await way(sf)
            times.append((time.process_time() - begin) / jobs)
    return statistics.median(took[JUDGED]), statistics.median(took[constant])


async def compare(way: Way, jobs: int, rounds: int) -> tuple[float, float]:
    """Measure one way, in its own store."""
    with tempfile.TemporaryDirectory() as directory:
        sf = Standfast(Path(directory) / "queue.db")
        sf.queue("mail", attempts=1)

        @sf.handler("mail")
        async def refuse(job: Any) -> None:
            which = job.id if way is in_bulk_with_ids else 1_000_000 + job.payload
            raise Permanent(f"{which}: {MESSAGE}")

        sf.policy.load(POLICY)
        async with sf:
            return await measured(sf, way, jobs, rounds)


def main() -> None:
    """Measure every way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400, help="deaths of each kind, one by one")
    given = parser.parse_args()
    logging.getLogger("standfast").setLevel(logging.CRITICAL)
    many = max(1, given.rounds // 20)
    for way, jobs, rounds in ((one_by_one, 1, given.rounds), (in_bulk, 300, many), (in_bulk_with_ids, 300, many)):
        with_it, without = (seconds * 1e6 for seconds in asyncio.run(compare(way, jobs, rounds)))
        name = way.__name__.replace("_", " ")
        print(f"{name}: {with_it:.0f} µs with triage, {without:.0f} µs without, {with_it / without - 1:+.1%}")


if __name__ == "__main__":
    main()
