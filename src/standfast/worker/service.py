"""A worker process: it works until it gets a signal or has done its part, then drains and exits."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import Any, Literal

import msgspec

from standfast.concurrency.threads import short_turns
from standfast.errors import ConfigurationError
from standfast.portable import on_signal
from standfast.worker.alive_file import LONGEST_CLAIM, kept_alive
from standfast.worker.recycling import EVERY as LOOK_EVERY
from standfast.worker.recycling import Recycling
from standfast.worker.worker import Worker

log = logging.getLogger("standfast.worker")

STOPPING = (signal.SIGTERM, signal.SIGINT)
READY = b"r"
"""What a worker process writes to the process that started it, once it can claim."""
Ending = Literal["stopped", "recycle", "deaths", "moved"]
"""Why a worker process ends: it was told to or is done; it starts anew; some of its jobs died; its store has moved."""


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker process runs."""

    once: bool = False
    """Whether the process ends when no job is due."""
    recycling: Recycling = Recycling()
    alive: str | None = None
    """The file that the process touches while it is alive."""
    supervisor: int | None = None
    """Its end of a socket to its supervisor: one byte says it is ready; end of file, that the supervisor is gone."""


class Signals:
    """Listens for SIGTERM, SIGINT or the end of the supervising process. A second signal exits at once."""

    def __init__(self, supervisor: int | None) -> None:
        self._loop = asyncio.get_running_loop()
        self.came = asyncio.Event()
        for number in STOPPING:
            on_signal(number, self._stop, number)
        if supervisor is not None:
            self._loop.add_reader(supervisor, self._supervisor_is_gone, supervisor)

    def _stop(self, number: int) -> None:
        if self.came.is_set():
            os._exit(128 + number)
        self.came.set()

    def _supervisor_is_gone(self, supervisor: int) -> None:
        """Drain: another supervisor may already have started a process in this one's place."""
        self._loop.remove_reader(supervisor)
        log.warning("the process that started this worker is gone; it drains and ends")
        self.came.set()

    async def came_so_far(self) -> bool:
        """Return whether a signal has come; from here on, one ends this process at once. None is lost in between."""
        for number in STOPPING:
            signal.signal(number, signal.SIG_DFL)
        for _ in range(3):  # the loop first reads the signals that came, then calls their handlers
            await asyncio.sleep(0)
        return self.came.is_set()

    async def unless_they_come(self, work: Awaitable[Any]) -> bool:
        """Await `work`, but cancel it if a signal comes first; return whether it was done."""
        doing, coming = asyncio.ensure_future(work), asyncio.ensure_future(self.came.wait())
        try:
            await asyncio.wait([doing, coming], return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
                return True
            return False
        finally:
            coming.cancel()
            if not doing.done():
                doing.cancel()
                await asyncio.wait([doing])


async def work_until_signalled(
    store: AbstractAsyncContextManager[Any],
    make: Callable[[], Worker],
    grace: float,
    where: str,
    options: ProcessOptions | None = None,
) -> Ending:
    """Work until SIGTERM or SIGINT, then drain; a second signal exits at once. `where` names the store in the log."""
    options = options or ProcessOptions()
    signals = Signals(options.supervisor)
    async with AsyncExitStack() as stack:
        stack.enter_context(short_turns())
        await stack.enter_async_context(store)
        worker = make()
        if options.recycling.after is not None:
            worker.claims.end_after(options.recycling.after)
        about = {"worker": worker.id}
        await stack.enter_async_context(kept_alive(options.alive, lambda: worker.claim_takes < LONGEST_CLAIM))
        if not await signals.unless_they_come(stack.enter_async_context(worker)):
            log.info("worker %s was told to stop before it was ready; nothing was claimed", worker.id, extra=about)
            return "stopped"
        queues = ", ".join(worker.queues) or "no queue of its own"
        log.info("worker %s on %s is ready for: %s", worker.id, where, queues, extra=about)
        _write(options.supervisor, READY)
        ending = await _until_over(worker, options, signals)
        log.info("worker %s drains: what runs may finish for %g s", worker.id, grace, extra=about)
    log.info("worker %s has stopped", worker.id, extra=about)
    if ending == "recycle":
        return "stopped" if await signals.came_so_far() else "recycle"
    _exit_if_left_behind(worker)
    return ending


async def _until_over(worker: Worker, options: ProcessOptions, signals: Signals) -> Ending:
    """Wait until the worker is told to stop, has done its part, or its store has moved; return why it ends."""
    if not await signals.unless_they_come(_first_of(_own_part(worker, options), worker.moved.came())):
        return "stopped"
    if worker.moved.to is not None:
        return "moved"
    if options.once:
        return "deaths" if worker.ends.died else "stopped"
    return "recycle"


async def _own_part(worker: Worker, options: ProcessOptions) -> None:
    """Do what the process is there for; most processes go on for ever."""
    if options.once:
        await worker.finish_due()
    elif options.recycling:
        await _until_recycled(worker, options.recycling)
    else:
        await worker.moved.came()


async def _first_of(*work: Awaitable[Any]) -> None:
    """Wait for the first of these to be done, and cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks)
    for each in done:
        each.result()


async def _until_recycled(worker: Worker, recycling: Recycling) -> None:
    """Wait until it is time to start anew, and then until every claimed job has ended by itself."""
    recycling = recycling.checked_at_start()
    claims = worker.claims
    while (why := recycling.why_now(claims.claimed)) is None:  # noqa: ASYNC110 - there is no event for growing memory
        await asyncio.sleep(LOOK_EVERY)
    log.info("worker %s starts anew, because %s: it claims no more", worker.id, why, extra={"worker": worker.id})
    await worker.finish_claimed()


async def run_suspects_until_none(
    store: AbstractAsyncContextManager[Any], make: Callable[[], Worker], parent: int, tell: int | None
) -> None:
    """Run suspects one at a time until none is left, the process that started this one is gone, or a signal comes.

    `tell` is the pipe to that process.
    """
    signals = Signals(None)  # first: a signal during start-up must not skip the shut-down hooks
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(store)
        worker = make()
        if await signals.unless_they_come(stack.enter_async_context(worker)):
            await signals.unless_they_come(worker.run_suspects(parent, partial(_write, tell)))
    _exit_if_left_behind(worker)


def _write(pipe: int | None, word: bytes) -> None:
    with suppress(BrokenPipeError):  # the reader is gone
        if pipe is not None:
            os.write(pipe, word)


def _exit_if_left_behind(worker: Worker) -> None:
    if worker.left_behind:
        logging.shutdown()
        os._exit(0)  # the loop would wait forever for a handler that does not end


async def drain_all(workers: Iterable[Worker]) -> None:
    """Drain the workers of a store that is about to close: a worker that went on would open it again."""
    here = asyncio.get_running_loop()
    working = [worker for worker in list(workers) if worker.working_in is not None]
    if any(worker.working_in is not here for worker in working):
        raise ConfigurationError(
            "a worker of this store works in another event loop, and would open it again; nothing was closed: "
            "drain it there first, with `await worker.drain()`"
        )
    for worker in working:
        await worker.drain()
