"""The rounds: in each step, standfast and its peers take turns; every second round runs in reverse order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

import msgspec

from standfast.bench import draining
from standfast.bench.figure import Figures
from standfast.bench.postgres.bench_server import Server
from standfast.bench.postgres.contestant import Contestant, Failed, Step
from standfast.bench.postgres.environment import PACKAGES, Installed
from standfast.bench.postgres.peer import Peer
from standfast.bench.postgres.product import TITLE, Product
from standfast.bench.sizes import Sizes
from standfast.bench.stores import BenchStore, Say

T = TypeVar("T")
Round = dict[str, Figures]
"""The figures of one round, by contestant."""


class Found(msgspec.Struct, frozen=True):
    """Every round, and why a peer is missing: by its title, or by its title and the failed step."""

    rounds: list[Round]
    not_measured: dict[str, str]


class Bench(msgspec.Struct, frozen=True):
    """What every round works on."""

    server: Server
    sizes: Sizes
    contestants: Sequence[Contestant]
    middle: BenchStore
    large: BenchStore
    not_measured: dict[str, str]


STEPS: list[tuple[str, Step]] = [
    ("enqueue", lambda contestant, url, sizes: contestant.enqueues(url, sizes)),
    ("drain", lambda contestant, url, sizes: contestant.drains(url, sizes)),
    ("start", lambda contestant, url, sizes: contestant.starts(url, sizes)),
]


async def measure(server: Server, installed: Installed, sizes: Sizes, rounds: int, say: Say) -> Found:
    """Measure everything; in each step, the contestants take turns."""
    async with _prepared(server, installed, sizes, say) as bench:
        found = [await _round(bench, number, say) for number in range(rounds)]
    return Found(found, bench.not_measured)


@asynccontextmanager
async def _prepared(server: Server, installed: Installed, sizes: Sizes, say: Say) -> AsyncIterator[Bench]:
    """Fill the standing backlogs, and end the peers' processes afterwards."""
    product = Product(server)
    peers = [Peer(package, installed) for package in PACKAGES if package.title in installed.versions]
    async with AsyncExitStack() as stack:
        for peer in peers:
            stack.push_async_callback(peer.close)
        middle = await stack.enter_async_context(product.with_backlog(sizes.middle, sizes, say))
        large = await stack.enter_async_context(product.with_backlog(sizes.large, sizes, say))
        yield Bench(server, sizes, [product, *peers], middle, large, dict(installed.reasons))


async def _round(bench: Bench, number: int, say: Say) -> Round:
    found: Round = {contestant.title: {} for contestant in bench.contestants}
    for title, step in _turned(STEPS, number):
        for contestant in _turned(bench.contestants, number):
            say(f"round {number + 1}: {title}, {contestant.title}")
            found[contestant.title] |= await _attempt(bench, contestant, title, step)
    say(f"round {number + 1}: drain from standing backlogs")
    found[TITLE] |= await _from_backlogs(bench, number)
    return found


async def _attempt(bench: Bench, contestant: Contestant, title: str, step: Step) -> Figures:
    """Measure one step on an empty database; a peer that fails in it is reported, and that step is not repeated."""
    name = f"{contestant.title}, {title}"
    if name in bench.not_measured:
        return {}
    with bench.server.database() as url:
        try:
            return await step(contestant, url, bench.sizes)
        except Failed as failed:
            bench.not_measured[name] = str(failed)
            return {}


async def _from_backlogs(bench: Bench, number: int) -> Figures:
    """Take the same number of jobs out of the large backlog and out of the middle one."""
    found: Figures = {}
    for name, store in _turned([("drain_large", bench.large), ("drain_middle", bench.middle)], number):
        found[name] = await draining.from_backlog(store, bench.sizes.drained, bench.sizes.seconds)
    return found


def _turned(things: Sequence[T], number: int) -> list[T]:
    return list(reversed(things)) if number % 2 else list(things)
