"""HTTP stories in a few words: run what is due, look at how it went."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from standfast import JobView, Receipt
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.views import Attempt
from tests.waiting import job_of

WAIT = 10.0
"""Seconds before a repeat; jitter shortens them by up to a tenth."""


async def tried(sf: InMemory, receipt: Receipt) -> JobView:
    """Run what is due once, and give the job."""
    await drain(sf)
    return await job_of(sf, receipt.id)


async def run_out(sf: InMemory, receipt: Receipt) -> JobView:
    """Let time pass and run until the job waits for nothing any more."""
    while not (job := await tried(sf, receipt)).settled:
        sf.clock.advance(WAIT)
    return job


def last(job: JobView) -> Attempt:
    """Give the last line of a job's history."""
    assert job.history, f"no attempt of {job.id} failed: it is {job.view}"
    return job.history[-1]


@contextmanager
def full_backlog() -> Iterator[str]:
    """Give the address of a socket that listens, accepts nobody, and has no room left to wait in."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening, ExitStack() as waiting:
        where = listening.getsockname()
        for _ in range(2):
            one = waiting.enter_context(socket.socket())
            one.settimeout(0.0)
            one.connect_ex(where)
        yield f"127.0.0.1:{where[1]}"
