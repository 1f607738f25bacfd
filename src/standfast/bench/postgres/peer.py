"""A peer as a contestant: measured by a program in the peers' environment that answers in lines of JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.bench.figure import Figure, Figures
from standfast.bench.postgres.bench_server import analyze
from standfast.bench.postgres.contestant import Failed
from standfast.bench.postgres.environment import DRIVERS, Installed, Package
from standfast.bench.postgres.peer_process import PeerProcess
from standfast.bench.sizes import BULK, CALLERS, PAYLOAD, Sizes
from standfast.bench.starting import UNCOUNTED, start_figures

HARNESS = DRIVERS / "harness.py"
NODE_HARNESS = DRIVERS / "graphile_harness.cjs"


class Counted(msgspec.Struct, frozen=True):
    """How many jobs, in how many seconds."""

    count: int
    seconds: float

    def rate(self, most: int) -> Figure:
        """Return the jobs per second."""
        return Figure(self.count / max(self.seconds, 1e-9), self.count, self.seconds, cut=self.count < most)


class Probed(msgspec.Struct, frozen=True):
    """When each call was made and when each job started, as far as this process saw it."""

    calls: list[float] = []
    starts: dict[int, float] = {}


class Peer:
    """Two processes: one works or enqueues, the other enqueues what the first one starts across processes."""

    def __init__(self, package: Package, installed: Installed) -> None:
        self.title = package.title
        command = [installed.python, str(HARNESS), f"{package.name}_driver"]
        if package.on_node:
            command = ["node", str(NODE_HARNESS), installed.node_place]
        self._process = PeerProcess(command)
        self._sender = PeerProcess(command)

    async def close(self) -> None:
        """End both processes."""
        await self._process.close()
        await self._sender.close()

    async def enqueues(self, url: str, sizes: Sizes) -> Figures:
        """Enqueue from one caller, from 64 and in bulk."""
        ask = await self._installed(url, sizes)
        one = await ask("enqueue", Counted, callers=1, count=sizes.one_at_a_time)
        many = await ask("enqueue", Counted, callers=CALLERS, count=sizes.by_callers)
        bulk = await ask("bulk", Counted, size=BULK, count=sizes.by_bulk)
        return {
            "enqueue_one": one.rate(sizes.one_at_a_time),
            "enqueue_64": many.rate(sizes.by_callers),
            "bulk": bulk.rate(sizes.by_bulk),
        }

    async def drains(self, url: str, sizes: Sizes) -> Figures:
        """Drain to empty. A peer that is too slow to fill in time drains what there is."""
        ask = await self._installed(url, sizes)
        filled = await ask("bulk", Counted, size=BULK, count=sizes.drained)
        analyze(url)
        drained = await ask("drain", Counted, count=filled.count)
        return {"drain": drained.rate(sizes.drained - 1)}

    async def starts(self, url: str, sizes: Sizes) -> Figures:
        """Time the starts of lone jobs."""
        ask = await self._installed(url, sizes)
        probing = {"count": sizes.probes + UNCOUNTED, "pause": sizes.longest_pause}
        inside = await ask("starts_inside", Probed, **probing)
        await ask("receive", str)
        sent = await self._sender.ask(_order("send", url, sizes, **probing), Probed)
        across = await self._process.next_answer(len(sent.calls), Probed)
        return _started("start_inside", inside.calls, inside.starts, sizes) | _started(
            "start_across", sent.calls, across.starts, sizes
        )

    async def _installed(self, url: str, sizes: Sizes) -> Any:
        """Create the tables, and return a function for further orders."""

        async def ask(program: str, kind: type[Any], **details: Any) -> Any:
            return await self._process.ask(_order(program, url, sizes, **details), kind)

        await ask("install", bool)
        return ask


def _started(name: str, calls: list[float], starts: dict[int, float], sizes: Sizes) -> Figures:
    if len(starts) < len(calls):
        raise Failed(f"{len(calls) - len(starts)} of {len(calls)} lone jobs never started")
    return start_figures(name, calls, starts, sizes)


def _order(program: str, url: str, sizes: Sizes, **details: Any) -> dict[str, Any]:
    return {"program": program, "url": url, "payload": PAYLOAD, "seconds": sizes.seconds, **details}
