"""Which handlers this process can run: those whose probes say yes. A no disables a handler until a later yes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

from standfast.spine.registry import Handler, Registry
from standfast.wings.limits.probes import Probe

COOLDOWN = 30.0
"""Seconds in which a handler's probes are not asked twice."""

Key = tuple[str, str]
"""A handler's queue and name."""
Asking = dict[Key, "asyncio.Task[None]"]


class ProbeState:
    """The last answer of a handler's probes."""

    __slots__ = ("asked_at", "doubted", "why")

    def __init__(self, why: str | None, asked_at: float) -> None:
        self.why = why
        """Why a probe said no; None is a yes."""
        self.asked_at = asked_at
        self.doubted = False
        """Whether an attempt got no answer from a dependency since: the yes may no longer hold."""


class Readiness:
    """Asks the probes of handlers: before the first call, again after a no or a doubt, never twice within a cooldown.

    However many callers ask at once, each handler has one question under way.
    """

    def __init__(
        self, registry: Registry, ask: Callable[[Probe], Awaitable[str | None]], elapsed: Callable[[], float]
    ) -> None:
        self.registry = registry
        self._ask = ask
        self._elapsed = elapsed
        self._known: dict[Key, ProbeState] = {}
        self._recovered: set[Key] = set()
        self._asking: WeakKeyDictionary[asyncio.AbstractEventLoop, Asking] = WeakKeyDictionary()

    # --- one handler

    def why_not(self, handler: Handler) -> str | None:
        """Return why a handler is disabled here; None if it is not, as far as is known."""
        known = self._known.get(_key(handler))
        return None if known is None else known.why

    def doubt(self, queue: str, name: str) -> None:
        """Note that an attempt of a handler got no answer from a dependency."""
        known = self._known.get((queue, name))
        if known is not None:
            known.doubted = True

    def take_recovered(self, queue: str, name: str) -> bool:
        """Return, once, whether a disabled handler is back."""
        found = (queue, name) in self._recovered
        self._recovered.discard((queue, name))
        return found

    async def refresh(self, handler: Handler) -> None:
        """Ask a handler's probes, unless their last answer still holds; join a question that is under way."""
        if self._is_due(handler):
            await asyncio.shield(self._question(handler))

    def _is_due(self, handler: Handler) -> bool:
        known = self._known.get(_key(handler))
        if known is None:
            return bool(handler.requires)
        return (known.why is not None or known.doubted) and self._holds_for(known) <= 0

    def _holds_for(self, known: ProbeState) -> float:
        return known.asked_at + COOLDOWN - self._elapsed()

    def _question(self, handler: Handler) -> asyncio.Task[None]:
        asking = self._asking.setdefault(asyncio.get_running_loop(), {})
        key = _key(handler)
        if key not in asking:
            asking[key] = asyncio.create_task(self._ask_probes(handler))
            asking[key].add_done_callback(lambda _: asking.pop(key, None))
        return asking[key]

    async def _ask_probes(self, handler: Handler) -> None:
        """Ask every probe of a handler at once, and remember the first no."""
        answers = await asyncio.gather(*(self._ask(probe) for probe in handler.requires))
        key, why = _key(handler), next((answer for answer in answers if answer is not None), None)
        before = self._known.get(key)
        if why is None and before is not None and before.why is not None:
            self._recovered.add(key)
        elif why is not None:
            self._recovered.discard(key)
        self._known[key] = ProbeState(why, self._elapsed())

    # --- the handlers of a queue

    def words(self, queue: str) -> dict[str, str | None] | None:
        """Return what is known of a queue's handlers that have probes: why not, or None for a yes."""
        found = self.registry.requiring(queue)
        return {handler.name: self.why_not(handler) for handler in found} if found else None

    def must_wait(self, queue: str, then: Callable[[float], None]) -> bool:
        """Ask the probes that are due; return whether nothing is known yet of one of these handlers.

        `then` is called with the seconds after which to look at the queue again.
        """
        due = [handler for handler in self.registry.requiring(queue) if self._is_due(handler)]
        for handler in due:
            question = self._question(handler)
            question.add_done_callback(lambda done, handler=handler: self._tell(handler, done, then))  # type: ignore[misc]
        return any(_key(handler) not in self._known for handler in due)

    def _tell(self, handler: Handler, done: asyncio.Task[None], then: Callable[[float], None]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        then(0.0)
        known = self._known[_key(handler)]
        if known.why is not None:
            then(self._holds_for(known))

    async def refresh_queue(self, queue: str) -> None:
        """Ask the probes of a queue's handlers that are due, and wait for the answers."""
        for handler in self.registry.requiring(queue):
            await self.refresh(handler)


def _key(handler: Handler) -> Key:
    return handler.queue, handler.name
