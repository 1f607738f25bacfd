"""What is said about newcomers: is the queue known, has it the handler, and may its request be sent where it leads?

What this process declared answers first; only what that leaves open is asked of the store.
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
"""How many handlers are remembered to have been looked for."""

PAUSE = 60.0
"""Seconds until a handler is looked for again whose queue had none yet."""

LOOKER = "standfast-handlers"
"""The name of the thread that looks."""

LIKE_AMONG_ITS_QUEUE = 0.6
"""How alike a name must be to be suggested where its queue has handlers, and lacks this one."""

LIKE_AMONG_ALL = 0.8
"""The same for a handler named as its queue, which has none: its workers may not have started yet.

Names of one program begin alike (`bench-work`, `bench-probe`). A slip in one is a letter or two.
"""


class Admission:
    """Refuses newcomers before they are written. `strict` refuses those of undeclared queues."""

    def __init__(self, store: Store, declared: Declarations, *, strict: bool) -> None:
        self._store = store
        self._declared = declared
        self.strict = strict
        self._published: set[str] = set()
        self._look_again: dict[tuple[str, str], float] = {}
        """When a handler of a queue may be looked for again."""
        self._noting = ForkableLock()

    async def published(self, queue: str) -> bool:
        """Tell whether a process ever published a queue, by its rules or by a handler."""
        known = queue in self._published or queue in self._declared.rules or queue in self._declared.registry.lanes()
        if not known and await run_in_thread(self._rules_in_force, queue) is None:
            return False
        self._published.add(queue)  # what was published stays so
        return True

    async def admit(self, jobs: Sequence[NewJob]) -> None:
        """Refuse jobs of one queue that it does not take."""
        if self._left_open(jobs):
            await run_off_loop(self._ask_the_store, jobs)

    def point_out(self, stored: Iterable[NewJob]) -> None:
        """Warn, once for each name, of a handler that no process ever published while its queue has others.

        Its jobs are stored and not refused: a producer may be deployed before its workers are. Nothing may delay their
        receipts, or take their place, so a thread looks: the end of the process waits for it.
        """
        now = time.monotonic()
        places = {(job.queue, job.handler) for job in stored}
        foreign = [each for each in places if self._declared.registry.find(*each) is None]
        with self._noting:  # of many callers at once, one looks
            unsure = [each for each in foreign if self._look_again.get(each, 0.0) <= now]
            self._note(unsure, now + PAUSE)
        if unsure:
            try_start(threading.Thread(target=self._look_for, args=(unsure,), name=LOOKER))

    def _note(self, places: Iterable[tuple[str, str]], again: float) -> None:
        """Remember when to look for handlers again; of many names, the oldest are forgotten."""
        self._look_again |= dict.fromkeys(places, again)
        while len(self._look_again) > MOST_NAMED:
            del self._look_again[next(iter(self._look_again))]

    def _look_for(self, places: Iterable[tuple[str, str]]) -> None:
        try:
            known = self._store.read(queue_scripts.published_handlers()).result()
        except StandfastError:  # it may be closed by now, or away: a later call looks again
            return
        settled = [each for each in places if _warn_of_unknown(*each, known)]
        with self._noting:
            self._note(settled, inf)

    def _left_open(self, jobs: Sequence[NewJob]) -> bool:
        """Refuse what this process knows to be wrong; tell whether only the store knows the rest."""
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
        """Read what other processes declared. Without a store, nothing is; a refusal must not create one."""
        if not self._store.location.exists():
            return None
        self._declared.publish_now()
        return self._store.read(queue_scripts.published_rules(queue)).result()


def _warn_of_unknown(queue: str, handler: str, known: Collection[tuple[str, str]]) -> bool:
    """Warn if a handler is not known that should be; tell whether that is settled.

    A queue that has none may be new, unless its name is a slip.
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
    from difflib import get_close_matches  # noqa: PLC0415 - few callers name what nobody has

    if theirs:
        return get_close_matches(handler, theirs, cutoff=LIKE_AMONG_ITS_QUEUE)
    if handler != queue:
        return []
    return get_close_matches(handler, {name for _, name in known}, cutoff=LIKE_AMONG_ALL)
