"""What this process declares, and how it is put in force: before the first use of the store, and after each change."""

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
"""A function that publishes, and one that only reads, if there is one."""


class Declarations:
    """The rules and handlers of this process."""

    def __init__(self, store: Store, registry: Registry, settings: Settings) -> None:
        self.rules = dict(settings.queues)
        """The settings file over the code, over the defaults. The store may know more of a queue without code here."""
        self.named = settings.named()
        """The rules of each queue that the settings file names."""
        self._file = os.path.abspath(settings.config.value)  # noqa: PTH100 - only a name: symlinks are not resolved
        self._in_code: dict[str, QueueRules] = {}
        self._given: dict[str, Mapping[str, Any]] = {}
        """The rules that the code has named, by queue, as written there."""
        self._publishes = True
        self.registry = registry
        self._store = store
        self._publishing = ForkableLock()
        self.newest = object()
        self.published: object = None
        self._overruled: dict[str, str] = {}
        self.further: Callable[[], dict[str, Any]] = dict
        """Returns what else this process declares, by name, to compare."""
        self._before: list[Publisher] = []
        self._besides: list[Publisher] = []

    def add_publisher(self, publish: Callable[[], None], look: Callable[[], None] | None = None) -> None:
        """Also call `publish` each time declarations are put in force, or `look` if this process publishes nothing."""
        self._besides.append((publish, look))

    def publish_before_handlers(self, publish: Callable[[], None], look: Callable[[], None]) -> None:
        """Call `publish` or `look` before handlers are published, because their declarations depend on it."""
        self._before.append((publish, look))

    def publish_nothing(self) -> None:
        """From now on, open the store without changing its rules."""
        self._publishes = False

    def with_earlier(self, queue: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the rules the code names now over those it named before: a second call drops no rule of the first."""
        return {**self._given.get(queue, {}), **given}

    def declare(
        self,
        queue: str,
        in_code: QueueRules,
        rules: QueueRules,
        overruled: Sequence[str] = (),
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """Note a queue's rules in code, the rules under the settings file, and which ones the file overrules."""
        self._given[queue] = given or {}
        self._in_code[queue] = in_code
        self.rules[queue] = rules
        if overruled:
            self._overruled[queue] = ", ".join(overruled)
        self.changed()

    def changed(self) -> None:
        """Note that something was declared."""
        self.newest = object()

    def knows(self, queue: str, rule: str) -> bool:
        """Return whether code or settings file here set a rule of a queue; otherwise only the store knows it."""
        return queue in self._in_code or rule in self.named.get(queue, ())

    def statement(self) -> dict[str, Any]:
        """Return what this process declares, to compare; of a queue without code here, the rules in the file."""
        queues = {queue: self.rules[queue] if queue in self._in_code else self.named[queue] for queue in self.rules}
        handlers = {f"{each.queue}/{each.name}": each for each in self.registry.declarations()}
        return {**queues, **handlers, **self.further()}

    def take_over(self, other: Declarations) -> None:
        """Add the declarations of another instance: for tests that move an application to another store."""
        self.rules |= other.rules
        self.named |= other.named
        self._in_code |= other._in_code
        self._given |= other._given
        self.changed()

    def forget(self) -> None:
        """Publish again at the next use: the store may be another one by then."""
        self.published = None

    @property
    def unpublished(self) -> bool:
        """Whether something was declared that is not in force yet."""
        return self.published is not self.newest

    async def publish(self) -> None:
        """Put in force the declarations that are not yet."""
        if self.unpublished:
            await run_off_loop(self.publish_now)

    def publish_now(self) -> None:
        """Put the declarations in force, in this thread."""
        if not self.unpublished:
            return
        with self._publishing:
            newest = self.newest  # first: later declarations may miss this publication
            self._store.open()
            for publish in self._publications():
                self._put_in_force(publish)
            self.published = newest
            self._tell_overruled()

    async def redeclare(self, changes: Sequence[Redeclaration]) -> None:
        """Put in force changes of handlers that were declared before, and nothing else.

        This process may be the old version during an upgrade: it must not repeat its other declarations.
        """
        await run_off_loop(self._redeclare_now, changes)

    def _redeclare_now(self, changes: Sequence[Redeclaration]) -> None:
        with self._publishing:  # a publication under way has the earlier declarations, and must come first
            if self._publishes:
                self._store.write(scripts.redeclare, changes).result()

    def _publications(self) -> Iterator[Callable[[], None]]:
        """Yield the steps that put everything in force, or that only read what is in force."""
        yield from self._of(self._before)
        handlers = self.registry.declarations()
        if self._publishes and (self.rules or handlers):
            publication = Publication(dict(self._in_code), handlers, self.named, self._file)
            yield partial(publishing.publish, self._store, publication)
        yield from self._of(self._besides)

    def _of(self, publishers: Sequence[Publisher]) -> Iterator[Callable[[], None]]:
        return filter(None, [publish if self._publishes else look for publish, look in publishers])

    def _tell_overruled(self) -> None:
        """Log once which rules in code are overruled: by now logging is set up, unlike when they were declared."""
        while self._publishes and self._overruled:
            queue, rules = self._overruled.popitem()
            log.info("queue %s: the settings file overrules what the code says of %s", queue, rules)

    def _put_in_force(self, publish: Callable[[], None]) -> None:
        try:
            publish()
        except StoreGone:
            raise
        except StoreUnavailable as error:
            # Publishing comes before the work: whatever became of it, nothing that the caller asked for is written.
            raise StoreUnavailable(
                "the store did not accept the queue declarations in time; nothing else was written: call again",
                definite=True,
            ) from error
