"""A worker process: works until it is signalled, drains, and exits."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any

from standfast.worker.worker import Worker

log = logging.getLogger("standfast.worker")


async def work_until_signalled(
    store: AbstractAsyncContextManager[Any], make: Callable[[], Worker], grace: float, where: str
) -> None:
    """Work until SIGTERM or SIGINT, then drain; a second one exits at once. `where` names the store in the log."""
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if signalled.is_set():
            os._exit(128 + number)
        signalled.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    async with store, make() as worker:
        queues = ", ".join(worker.queues) or "no queue of its own"
        log.info("worker %s on %s is ready for: %s", worker.id, where, queues)
        await signalled.wait()
        log.info("worker %s drains: what runs may finish for %g s", worker.id, grace)
    log.info("worker %s has stopped", worker.id)
    _exit_if_left_behind(worker)


async def run_suspects_until_none(
    store: AbstractAsyncContextManager[Any], make: Callable[[], Worker], parent: int, tell: int | None
) -> None:
    """Run suspects one at a time until there are none, the process that started this one is gone, or SIGTERM.

    `tell` is the pipe to that process.
    """
    loop = asyncio.get_running_loop()
    async with store, make() as worker:
        running = loop.create_task(worker.run_suspects(parent, partial(_write, tell)))
        loop.add_signal_handler(signal.SIGTERM, running.cancel)
        await asyncio.wait([running])
    if not running.cancelled():
        running.result()
    _exit_if_left_behind(worker)


def _write(pipe: int | None, word: bytes) -> None:
    with suppress(BrokenPipeError):  # the reader is gone
        if pipe is not None:
            os.write(pipe, word)


def _exit_if_left_behind(worker: Worker) -> None:
    if worker.left_behind:
        logging.shutdown()
        os._exit(0)  # ending the loop would wait for a handler that does not end
