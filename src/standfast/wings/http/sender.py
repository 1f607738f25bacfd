"""Sends the requests of HTTP jobs, with the headers by which a receiver recognises repeats."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from standfast.concurrency.threads import run_in_thread
from standfast.errors import Permanent
from standfast.spine.claimed_job import ClaimedJob
from standfast.telemetry import current
from standfast.wings.http.destinations import Refused, refusal
from standfast.wings.http.words import HttpRequest, Reply, Route, host_of

if TYPE_CHECKING:
    from standfast.wings.http.client import Wire

TIMEOUT = 30.0
"""Seconds a request may take, unless it says otherwise."""


class Sender:
    """Sends requests over connections that all jobs of one event loop share."""

    def __init__(self) -> None:
        self._wires: WeakKeyDictionary[asyncio.AbstractEventLoop, Wire] = WeakKeyDictionary()

    async def send(self, job: ClaimedJob) -> Reply:
        """Send the request of a job; return the reply, or raise what happened instead."""
        request: HttpRequest = job.input
        route = Route(job.queue, job.rules.destinations, reuse=job.repeatable)
        timeout = request.timeout or TIMEOUT
        within = timeout if job.timeout is None else min(timeout, job.timeout)
        try:
            return await (await self._wire()).send(request, headers(job, request), route, within)
        except Refused as refused:
            raise Permanent(refusal(job.queue, route.destinations, refused), reason_code="denied") from refused

    async def look(self, job: ClaimedJob, request: HttpRequest) -> Reply:
        """Send a request that only looks; return the reply, or raise what happened instead."""
        route = Route(job.queue, job.rules.destinations, reuse=True)
        given = {"Accept-Encoding": "identity", "User-Agent": user_agent()} | request.headers
        sent = [(name.encode(), value.encode()) for name, value in given.items()]
        try:
            return await (await self._wire()).send(request, sent, route, request.timeout or TIMEOUT)
        except Refused as refused:
            raise Permanent(refusal(job.queue, route.destinations, refused), reason_code="denied") from refused

    async def ask(self, url: str, within: float) -> Reply:
        """Send a GET to a URL of the application or its operator; that one host may be private."""
        route = Route("", (host_of(url),), reuse=False)
        return await (await self._wire()).send(HttpRequest("GET", url), _asking(), route, within)

    async def tell(self, request: HttpRequest) -> Reply:
        """Send a request to a URL of the operator; that one host may be private."""
        route = Route("", (host_of(request.url),), reuse=False)
        sent = [*_asking(), *((name.encode(), value.encode()) for name, value in request.headers.items())]
        return await (await self._wire()).send(request, sent, route, request.timeout or TIMEOUT)

    async def close(self) -> None:
        """Close the connections of this event loop."""
        wire = self._wires.pop(asyncio.get_running_loop(), None)
        if wire is not None:
            await wire.close()

    async def _wire(self) -> Wire:
        loop = asyncio.get_running_loop()
        if loop not in self._wires:
            opened = await run_in_thread(_open)  # a third of a second, in a thread
            self._wires.setdefault(loop, opened)
        return self._wires[loop]


def headers(job: ClaimedJob, request: HttpRequest) -> list[tuple[bytes, bytes]]:
    """Return every header of a request: ours, then the caller's. The key is the same on every attempt and replay."""
    given = {name.lower() for name in request.headers}
    ours = {
        "Idempotency-Key": job.idempotency_key.strip(),
        "X-Standfast-Fence": str(job.token),
        "X-Standfast-Attempt": str(job.attempt),
        "Accept-Encoding": "identity",
        "User-Agent": user_agent(),
    }
    if request.content is not None:
        ours["Content-Type"] = "application/json"
    if (traceparent := current()) is not None:
        ours["traceparent"] = traceparent
    sent = {name: value for name, value in ours.items() if name.lower() not in given} | request.headers
    return [(name.encode(), value.encode()) for name, value in sent.items()]


def _asking() -> list[tuple[bytes, bytes]]:
    return [(b"Accept-Encoding", b"identity"), (b"User-Agent", user_agent().encode())]


@cache
def user_agent() -> str:
    """Name this program and its version; the version is 0 if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - only requests pay, not every start

    try:
        return f"standfast/{version('standfast')}"
    except PackageNotFoundError:
        return "standfast/0"


def _open() -> Wire:
    from standfast.wings.http.client import Wire  # noqa: PLC0415 - TLS and h11 are imported when first used

    return Wire()
