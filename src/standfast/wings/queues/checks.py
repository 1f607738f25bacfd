"""Checks new jobs: is the queue known, does it have the handler, and may the request be sent to its destination?

This process's declarations answer first; the store is asked only what they leave open.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from math import inf

from standfast.concurrency.flows import run_off_loop
from standfast.concurrency.locks import ForkableLock
from standfast.concurrency.threads import run_in_thread, try_start
from standfast.errors import StandfastError, UnknownQueue
from standfast.job import HTTP, NewJob
from standfast.profiles import defaults_for
from standfast.rules import QueueRules
from standfast.store.store import Store
from standfast.wings.http import verbs as http
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.queues.declarations import Declarations

log = logging.getLogger("standfast.queue")

MOST_NAMED = 4096
"""How many looked-for handlers are remembered."""

PAUSE = 60.0
"""Seconds until a handler is looked for again if its queue had none yet."""

LOOKER = "standfast-handlers"
"""The name of the thread that looks for handlers."""

LIKE_AMONG_ITS_QUEUE = 0.6
"""How similar a name must be to be suggested if its queue has handlers, but not this one."""

LIKE_AMONG_ALL = 0.8
"""The same for a handler named like its queue if the queue has none: its workers may not have started yet.

Names of one program begin alike (`bench-work`, `bench-probe`). A typo in one is a letter or two.
"""


class Admission:
    """Refuses new jobs before they are written. `strict` refuses jobs of undeclared queues."""

    def __init__(self, store: Store, declared: Declarations, *, strict: bool) -> None:
        self._store = store
        self._declared = declared
        self.strict = strict
        self._published: set[str] = set()
        self._look_again: dict[tuple[str, str], float] = {}
        """When a handler of a queue may be looked for again."""
        self._noting = ForkableLock()

    async def published(self, queue: str) -> bool:
        """Return whether a process ever published a queue, by its rules or by a handler."""
        known = queue in self._published or queue in self._declared.rules or queue in self._declared.registry.lanes()
        if not known and await run_in_thread(self._rules_in_force, queue) is None:
            return False
        self._published.add(queue)  # a published queue stays published
        return True

    async def admit(self, jobs: Sequence[NewJob]) -> None:
        """Refuse jobs that their queue does not accept; all are of one queue."""
        if self._left_open(jobs):
            await run_off_loop(self._ask_the_store, jobs)

    def point_out(self, stored: Iterable[NewJob]) -> None:
        """Warn, once for each name, of a handler that no process ever published while its queue has others.

        Its jobs are stored and not refused: a producer may be deployed before its workers are. Nothing may delay or
        replace their receipts, so a thread looks; the end of the process waits for it.
        """
        now = time.monotonic()
        places = {(job.queue, job.handler) for job in stored}
        foreign = [each for each in places if self._declared.registry.find(*each) is None]
        with self._noting:  # of many simultaneous callers, one looks
            unsure = [each for each in foreign if self._look_again.get(each, 0.0) <= now]
            self._note(unsure, now + PAUSE)
        if unsure:
            try_start(threading.Thread(target=self._look_for, args=(unsure,), name=LOOKER))

    def _note(self, places: Iterable[tuple[str, str]], again: float) -> None:
        """Remember when to look for handlers again; if there are too many names, forget the oldest."""
        self._look_again |= dict.fromkeys(places, again)
        while len(self._look_again) > MOST_NAMED:
            del self._look_again[next(iter(self._look_again))]

    def _look_for(self, places: Iterable[tuple[str, str]]) -> None:
        try:
            known = self._store.read(queue_scripts.published_handlers()).result()
        except StandfastError:  # the store may be closed by now, or away: a later call looks again
            return
        settled = [each for each in places if _warn_of_unknown(*each, known)]
        with self._noting:
            self._note(settled, inf)

    def _left_open(self, jobs: Sequence[NewJob]) -> bool:
        """Refuse what this process knows to be wrong; return whether the store must be asked about the rest."""
        if not jobs or (jobs[0].handler != HTTP and not self.strict):  # jobs of one call share queue and handler
            return False
        queue = jobs[0].queue
        for job in jobs:
            http.check_key(job)
        inside = http.leading_inside(jobs)
        if self._declared.knows(queue, "destinations"):
            http.check_destinations(queue, inside, self._declared.rules[queue])
            return False
        here = queue in self._declared.rules or queue in self._declared.registry.lanes()
        return bool(inside) or (self.strict and not here)

    def _ask_the_store(self, jobs: Sequence[NewJob]) -> None:
        queue = jobs[0].queue
        rules = self._rules_in_force(queue)
        known = rules is not None or queue in self._declared.registry.lanes()
        if self.strict and not known:
            raise UnknownQueue(f"no queue is called {queue!r}, and [store] strict_queues is on; declare it first")
        http.check_destinations(queue, http.leading_inside(jobs), rules or defaults_for(queue))

    def _rules_in_force(self, queue: str) -> QueueRules | None:
        """Read what other processes declared: nothing if there is no store, because a refusal must not create one."""
        if not self._store.location.exists():
            return None
        self._declared.publish_now()
        return self._store.read(queue_scripts.published_rules(queue)).result()


def _warn_of_unknown(queue: str, handler: str, known: Collection[tuple[str, str]]) -> bool:
    """Warn if a handler is unknown that should be known; return whether that is settled.

    A queue without handlers may be new, unless its name looks like a typo.
    """
    theirs = {name for of, name in known if of == queue}
    if handler in theirs:
        return True
    near = _nearest(handler, theirs, known, queue)
    if theirs or near:
        meant = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
        log.warning("queue %r has no handler %r%s; its jobs wait until a process has one", queue, handler, meant)
    return bool(theirs or near)


def _nearest(handler: str, theirs: Collection[str], known: Collection[tuple[str, str]], queue: str) -> list[str]:
    from difflib import get_close_matches  # noqa: PLC0415 - few callers name an unknown handler

    if theirs:
        return get_close_matches(handler, theirs, cutoff=LIKE_AMONG_ITS_QUEUE)
    if handler != queue:
        return []
    return get_close_matches(handler, {name for _, name in known}, cutoff=LIKE_AMONG_ALL)
