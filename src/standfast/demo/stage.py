"""The course of the demo: enqueue, work, kill, restart, wait, and compare the books."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from standfast.application import Standfast
from standfast.demo import books
from standfast.demo.account import Account, Ending, ending, settle
from standfast.demo.children import Crew, receiver
from standfast.errors import ConfigurationError
from standfast.job import Receipt
from standfast.lifecycle import NoticeKind

QUEUE = "deliveries"
RULES = f"""\
[queues.{QUEUE}]
attempts = 12
backoff = {{base = 0.2, cap = 1.0}}
lease = 2.0
timeout = 10.0
destinations = ["127.0.0.1"]
"""
REQUEST_TIMEOUT = 0.75
KILL_AFTER = 0.4
"""The fraction of requests that have arrived when the worker is killed."""
AT_ONCE = 100
MOST_SLOTS = 32
LOOK_EVERY = 0.1
QUIET = 3.0
PATIENCE = (45.0, 0.03)
"""Seconds that the whole demo may take, plus seconds for each job."""


class Audience(Protocol):
    """Shows the demo's progress."""

    def announce(self, words: str) -> None:
        """Show a message."""

    def update(self, accepted: int, settled: int) -> None:
        """Show the progress."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How the demo went."""

    balances: bool
    account: Account
    killed_with_running: int
    """Jobs that were running on the worker when it was killed."""
    seconds: float


class Show:
    """One performance: its own store, and what was accepted so far."""

    def __init__(self, sf: Standfast, place: Path, jobs: int, audience: Audience) -> None:
        self._sf = sf
        self._books = place / "books.jsonl"
        self._crew = Crew(QUEUE, place / "worker.log", max(1, min(MOST_SLOTS, jobs // 8)))
        self._jobs = jobs
        self._audience = audience
        self._accepted: list[str] = []
        self._give_up = time.monotonic() + PATIENCE[0] + PATIENCE[1] * jobs
        self._began = time.monotonic()
        self._quiet_since = self._began

    async def run(self) -> Report:
        """Run the demo; every process is ended, whatever happens."""
        async with receiver(self._books) as port, _ending(self._crew):
            self._audience.announce(f"a flaky receiver listens on port {port}")
            self._audience.announce(f"worker {await self._crew.start()} starts")
            async with _meanwhile(self._enqueue(f"http://127.0.0.1:{port}")) as accepting:
                running = await self._kill_in_the_middle(accepting)
                await accepting
            await self._until_settled()
        endings = await self._endings()
        account = settle(self._accepted, endings, books.read(self._books))
        seconds = round(time.monotonic() - self._began, 1)
        return Report(balances=account.balances, account=account, killed_with_running=running, seconds=seconds)

    async def _enqueue(self, address: str) -> None:
        for start in range(0, self._jobs, AT_ONCE):
            keys = [f"demo-{number:06}" for number in range(start, min(start + AT_ONCE, self._jobs))]
            await asyncio.gather(*(self._enqueue_one(address, key) for key in keys))
            self._accepted += keys

    async def _enqueue_one(self, address: str, key: str) -> Receipt:
        kind = "again" if int(key[-1]) % 2 else "once"
        url = f"{address}/{kind}/{key}"
        body = {"delivery": key}
        return await self._sf.enqueue_http(QUEUE, "POST", url, body=body, idempotency_key=key, timeout=REQUEST_TIMEOUT)

    async def _kill_in_the_middle(self, accepting: asyncio.Task[None]) -> int:
        while books.count(self._books) < self._jobs * KILL_AFTER and self._has_time():
            await self._look()
            if accepting.done():
                accepting.result()  # an error in it ends the demo here
        await self._crew.kill()
        running: int = (await self._sf.stats())["total_processing"]
        self._audience.announce(f"the worker is killed with SIGKILL, {running} jobs in its hands")
        self._audience.announce(f"worker {await self._crew.start()} starts")
        return running

    async def _until_settled(self) -> None:
        """Wait until every job has ended, or until it is clear that no more will."""
        self._quiet_since = time.monotonic()
        while await self._look() < self._jobs and self._has_time() and not self._is_quiet():
            pass

    async def _look(self) -> int:
        """Show the progress; return how many jobs have ended."""
        await asyncio.sleep(LOOK_EVERY)
        self._crew.check()
        queue = (await self._sf.stats())["queues"].get(QUEUE) or _nothing()
        ended: int = queue["counters"].get(NoticeKind.COMPLETED, 0) + queue["counters"].get(NoticeKind.DEAD_LETTER, 0)
        self._audience.update(len(self._accepted), ended)
        if any(queue[what] for what in ("due", "running", "scheduled", "parked")):
            self._quiet_since = time.monotonic()
        return ended

    def _is_quiet(self) -> bool:
        """Return whether nothing has been under way for so long that unfinished jobs must be lost."""
        return time.monotonic() - self._quiet_since > QUIET

    def _has_time(self) -> bool:
        return time.monotonic() < self._give_up

    async def _endings(self) -> dict[str, Ending]:
        found: dict[str, Ending] = {}
        cursor = None
        while True:
            page = await self._sf.jobs(queue=QUEUE, limit=1000, cursor=cursor)
            found |= {job.idempotency_key or job.id: ending(job) for job in page}
            if page.next_cursor is None:
                return found
            cursor = page.next_cursor


def perform(jobs: int, directory: Path | None, audience: Audience) -> Report:
    """Run the demo in a temporary directory, by default in the usual place for those."""
    with _temporary_directory(directory) as name, _surroundings(Path(name)):
        return asyncio.run(_perform(Path(name), jobs, audience))


def _temporary_directory(directory: Path | None) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="standfast-demo-", dir=directory)
    except OSError as error:
        where = directory or "the place for temporary files"
        raise ConfigurationError(
            f"demo cannot make a directory in {where}: {error.strerror}; give another --url"
        ) from error


async def _perform(place: Path, jobs: int, audience: Audience) -> Report:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with Standfast() as sf:
        return await Show(sf, place, jobs, audience).run()


@asynccontextmanager
async def _meanwhile(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run a coroutine during the block, and cancel it at the end."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def _ending(crew: Crew) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await crew.kill()


@contextmanager
def _surroundings(place: Path) -> Iterator[None]:
    """Let this process and its children find the demo's store and rules, and none of the user's own."""
    before = {name: value for name, value in os.environ.items() if name.startswith("STANDFAST_")}
    (place / "standfast.toml").write_text(RULES, encoding="utf-8")
    ours = {"STANDFAST_CONFIG": str(place / "standfast.toml"), "STANDFAST_URL": f"sqlite:///{place / 'demo.db'}"}
    _replace(ours)
    try:
        yield
    finally:
        _replace(before)


def _replace(ours: dict[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("STANDFAST_")]:
        del os.environ[name]
    os.environ.update(ours)


def _nothing() -> dict[str, Any]:
    return {"counters": {}, "due": 0, "running": 0, "scheduled": 0, "parked": 0}
