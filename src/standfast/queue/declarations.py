"""What this process declares, and how it is put in force: before the first use of the store, and after every change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from standfast.aside import aside
from standfast.errors import StoreGone, StoreUnavailable
from standfast.handlers.registry import Registry
from standfast.locks import ForkableLock
from standfast.rules import QueueRules
from standfast.store.orders import Publication
from standfast.store.store import Store

log = logging.getLogger("standfast.queue")


class Declarations:
    """The rules and handlers of this process."""

    def __init__(self, store: Store, registry: Registry, rules: dict[str, QueueRules]) -> None:
        self.rules = rules
        self.registry = registry
        self._store = store
        self._publishing = ForkableLock()
        self._newest = object()
        self._published: object = None
        self._overruled: dict[str, str] = {}
        self._besides: list[Callable[[], None]] = []
        self._losses = 0

    def besides(self, publish: Callable[[], None]) -> None:
        """Have something else put in force each time declarations are."""
        self._besides.append(publish)

    def declare(self, queue: str, rules: QueueRules, overruled: Sequence[str]) -> None:
        """Take note of a queue's rules, and of those that the code gives and the settings file overrules."""
        self.rules[queue] = rules
        if overruled:
            self._overruled[queue] = ", ".join(overruled)
        self.changed()

    def changed(self) -> None:
        """Take note that something was declared."""
        self._newest = object()

    def forget(self) -> None:
        """Publish again at the next use: it may be another store by then."""
        self._published = None

    @property
    def unpublished(self) -> bool:
        """Whether something was declared that is not in force yet."""
        return self._published is not self._newest or self._losses != self._store.losses

    async def publish(self) -> None:
        """Put in force what is not yet."""
        if self.unpublished:
            await aside(self.publish_blocking)

    def publish_blocking(self) -> None:
        """Do the same for a caller without a loop."""
        if not self.unpublished:
            return
        with self._publishing:
            newest = self._newest  # first: what is declared from here on may miss this publication
            self._store.open()
            losses = self._store.losses
            handlers = self.registry.declarations()
            if self.rules or handlers:
                self._put_in_force(partial(self._store.publish_blocking, Publication(dict(self.rules), handlers)))
            for publish in self._besides:
                self._put_in_force(publish)
            self._published, self._losses = newest, losses
            self._tell_overruled()

    def _tell_overruled(self) -> None:
        """Say once what does not hold as the code has it: now logs are set up, unlike where it was declared."""
        while self._overruled:
            queue, rules = self._overruled.popitem()
            log.info("queue %s: the settings file overrules what the code says of %s", queue, rules)

    def _put_in_force(self, publish: Callable[[], None]) -> None:
        try:
            publish()
        except StoreGone:
            raise
        except StoreUnavailable as error:
            # Publishing comes before the work: whatever became of it, nothing of what was called for is written.
            raise StoreUnavailable(
                "the store took no declarations in time; nothing else was written, call again", definite=True
            ) from error
