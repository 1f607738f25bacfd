"""Warnings of a starting worker about queues whose jobs would wait forever if it were the only worker."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress

from standfast.errors import StandfastError
from standfast.printable import count_of
from standfast.spine.registry import Registry
from standfast.store.store import Store
from standfast.wings.health.scripts import queues_with_due_jobs

log = logging.getLogger("standfast.worker")

NO_HANDLERS = "this worker has no handlers, and jobs are due in %s; start one that has them: standfast worker app:sf"
MOST_NAMED = 5
"""The most queues that the log line names."""


async def warn_of_unserved(store: Store, registry: Registry, asked: Sequence[str] | None, worker: str) -> None:
    """Log the queues that a worker was asked to serve and cannot; without any handlers, log those with due jobs."""
    for queue in registry.unserved(asked or ()):
        what = "no handler here serves queue %s: its jobs wait, but for HTTP requests; is it misspelt?"
        log.warning(what, queue, extra={"queue": queue, "worker": worker})
    if registry.lanes(asked):
        return
    with suppress(StandfastError):  # a worker that cannot look now still starts
        if found := await store.read(queues_with_due_jobs(registry.built_in)):
            log.warning(NO_HANDLERS, _named(found), extra={"queues": found, "worker": worker})


def _named(queues: Sequence[str]) -> str:
    more = len(queues) - MOST_NAMED
    shown = ", ".join(queues[:MOST_NAMED])
    return f"{shown} and {count_of(more, 'more queue')}" if more > 0 else shown
