"""What this process declares, and how it is put in force: before the first use of the store, and after every change."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from standfast.concurrency.flows import run_off_loop
from standfast.concurrency.locks import ForkableLock
from standfast.errors import StoreGone, StoreUnavailable
from standfast.rules import QueueRules
from standfast.settings import Settings
from standfast.spine.claim_requests import Publication
from standfast.spine.registry import Registry
from standfast.store.store import Store
from standfast.wings.queues import publishing, scripts
from standfast.wings.queues.scripts import Redeclaration

log = logging.getLogger("standfast.queue")


Publisher = tuple[Callable[[], None], Callable[[], None] | None]
"""What publishes, and what only looks, if anything."""


class Declarations:
    """The rules and handlers of this process."""

    def __init__(self, store: Store, registry: Registry, settings: Settings) -> None:
        self.rules = dict(settings.queues)
        """The settings file over the code, over the defaults: the store may know more of a queue without code here."""
        self.named = settings.named()
        """The rules of each queue that the settings file names."""
        self._file = os.path.abspath(settings.config.value)  # noqa: PTH100 - a name, whatever it leads to
        self._in_code: dict[str, QueueRules] = {}
        self._given: dict[str, Mapping[str, Any]] = {}
        """The rules that the code has named, by queue, as it wrote them."""
        self._publishes = True
        self.registry = registry
        self._store = store
        self._publishing = ForkableLock()
        self.newest = object()
        self.published: object = None
        self._overruled: dict[str, str] = {}
        self.further: Callable[[], dict[str, Any]] = dict
        """Gives what else this process declares, by name, to compare."""
        self._before: list[Publisher] = []
        self._besides: list[Publisher] = []

    def add_publisher(self, publish: Callable[[], None], look: Callable[[], None] | None = None) -> None:
        """Have something else put in force each time declarations are, or looked at where nothing is published."""
        self._besides.append((publish, look))

    def publish_before_handlers(self, publish: Callable[[], None], look: Callable[[], None]) -> None:
        """Have something put in force first, as handlers are declared by what it says."""
        self._before.append((publish, look))

    def publish_nothing(self) -> None:
        """Open the store and leave its rules as they are, from now on."""
        self._publishes = False

    def with_earlier(self, queue: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Put what the code names now over what it named before, so that a second call drops no rule of the first."""
        return {**self._given.get(queue, {}), **given}

    def declare(
        self,
        queue: str,
        in_code: QueueRules,
        rules: QueueRules,
        overruled: Sequence[str] = (),
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """Take note of a queue's rules in code, as they are under the settings file, and of those that it overrules."""
        self._given[queue] = given or {}
        self._in_code[queue] = in_code
        self.rules[queue] = rules
        if overruled:
            self._overruled[queue] = ", ".join(overruled)
        self.changed()

    def changed(self) -> None:
        """Take note that something was declared."""
        self.newest = object()

    def knows(self, queue: str, rule: str) -> bool:
        """Tell whether a rule of a queue is given here, in code or by the settings file; else only the store knows."""
        return queue in self._in_code or rule in self.named.get(queue, ())

    def statement(self) -> dict[str, Any]:
        """Give what this process declares, to compare: of a queue without code here, the rules that the file names."""
        queues = {queue: self.rules[queue] if queue in self._in_code else self.named[queue] for queue in self.rules}
        handlers = {f"{each.queue}/{each.name}": each for each in self.registry.declarations()}
        return {**queues, **handlers, **self.further()}

    def take_over(self, other: Declarations) -> None:
        """Have what was declared elsewhere too: for tests that move an application to another store."""
        self.rules |= other.rules
        self.named |= other.named
        self._in_code |= other._in_code
        self._given |= other._given
        self.changed()

    def forget(self) -> None:
        """Publish again at the next use: it may be another store by then."""
        self.published = None

    @property
    def unpublished(self) -> bool:
        """Whether something was declared that is not in force yet."""
        return self.published is not self.newest

    async def publish(self) -> None:
        """Put in force what is not yet."""
        if self.unpublished:
            await run_off_loop(self.publish_now)

    def publish_now(self) -> None:
        """Put it in force in this thread."""
        if not self.unpublished:
            return
        with self._publishing:
            newest = self.newest  # first: what is declared from here on may miss this publication
            self._store.open()
            for publish in self._publications():
                self._put_in_force(publish)
            self.published = newest
            self._tell_overruled()

    async def redeclare(self, changes: Sequence[Redeclaration]) -> None:
        """Put in force what changed of handlers that were declared before, and nothing else.

        This process may be the old version of an upgrade: what it declared of other things is not for it to say again.
        """
        await run_off_loop(self._redeclare_now, changes)

    def _redeclare_now(self, changes: Sequence[Redeclaration]) -> None:
        with self._publishing:  # a publication under way has the earlier declarations: it comes first
            if self._publishes:
                self._store.write(scripts.redeclare, changes).result()

    def _publications(self) -> Iterator[Callable[[], None]]:
        """Give what must be done to put everything in force, or only to know what is."""
        yield from self._of(self._before)
        handlers = self.registry.declarations()
        if self._publishes and (self.rules or handlers):
            publication = Publication(dict(self._in_code), handlers, self.named, self._file)
            yield partial(publishing.publish, self._store, publication)
        yield from self._of(self._besides)

    def _of(self, publishers: Sequence[Publisher]) -> Iterator[Callable[[], None]]:
        return filter(None, [publish if self._publishes else look for publish, look in publishers])

    def _tell_overruled(self) -> None:
        """Say once what does not hold as the code has it: now logs are set up, unlike where it was declared."""
        while self._publishes and self._overruled:
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
                "the store did not accept the queue declarations in time; nothing else was written: call again",
                definite=True,
            ) from error
