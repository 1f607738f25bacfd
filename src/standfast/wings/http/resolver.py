"""Looks names up for one queue, on its own threads: a name that hangs costs that queue a thread, and no other queue.

A lookup cannot be stopped. Giving up leaves its thread behind, so a name that is being looked up is never looked up
a second time meanwhile: all callers wait for the one answer.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Future
from threading import Thread

from standfast.wings.http.destinations import Address, as_address, literal

MOST_LOOKUPS = 16
"""How many names one queue looks up at a time; the next caller waits for one of them to end."""

Answer = Future[list[Address]]


class Resolver:
    """The lookups of one queue, on one event loop."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MOST_LOOKUPS)
        self._asked: dict[str, asyncio.Future[list[Address]]] = {}

    async def look_up(self, host: str) -> list[Address]:
        """Return every address of a host."""
        address = literal(host)
        if address is not None:
            return [address]
        if host not in self._asked:
            await self._free.acquire()
            self._ask(host)
        answer = self._asked[host]
        await asyncio.wait([answer])  # unlike awaiting it, giving up does not cancel it for other callers
        return answer.result()

    def _ask(self, host: str) -> None:
        """Start a lookup in the slot that was acquired, unless another caller has started it meanwhile."""
        if host in self._asked:
            self._free.release()
            return
        answer: Answer = Future()
        self._asked[host] = asyncio.wrap_future(answer)
        self._asked[host].add_done_callback(lambda done: self._forget(host, done))
        # A daemon thread: the end of the process does not wait for it.
        Thread(target=_look_up, args=(host, answer), name="standfast-lookup", daemon=True).start()

    def _forget(self, host: str, answer: asyncio.Future[list[Address]]) -> None:
        answer.exception()  # the caller may be gone, which is no error
        del self._asked[host]
        self._free.release()


def _look_up(host: str, answer: Answer) -> None:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        answer.set_result([as_address(str(place[0])) for *_, place in found])
    except (OSError, ValueError) as error:  # a name that no resolver accepts is a UnicodeError
        answer.set_exception(error)
