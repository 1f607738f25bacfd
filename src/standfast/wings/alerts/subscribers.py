"""Subscribers: webhooks that get every notice they asked for, as CloudEvents, through a queue of their own.

Each has a cursor in the journal, which is kept in the store and moved in the transaction that stores its jobs. So any
worker may carry notices, and all may at once: the second finds the cursor moved, and a killed one has moved nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from standfast.clock import Clock
from standfast.errors import LowDisk, Permanent
from standfast.job import NewJob
from standfast.outcome import Failed
from standfast.spine.accept import Acceptor
from standfast.spine.registry import Declaration, Handler
from standfast.store.store import Store
from standfast.typed.door import Door
from standfast.wings.alerts.cursors import Cursors, of_subscriber
from standfast.wings.alerts.delivery import webhook
from standfast.wings.alerts.sinks import Sinks
from standfast.wings.alerts.surfaces import QUEUE as ALERTS
from standfast.wings.alerts.surfaces import SUBSCRIBER, Notify, Subscriber
from standfast.wings.effects.handler_job import Job
from standfast.wings.http.sender import Sender
from standfast.wings.http.verbs import judge
from standfast.wings.notices import scripts as notice_scripts
from standfast.wings.notices.journal import journal
from standfast.wings.notices.retries import retries_of
from standfast.wings.notices.scripts import CarryRequest, JournalRow
from standfast.wings.notices.words import Notice, RetryData, cloud_event, gap, notices_of

log = logging.getLogger("standfast.notify")

QUEUE = "standfast.subscribers"
"""The queue that carries notices. Alerts have another one: they must not wait behind undelivered notices."""
CARRIERS = frozenset({QUEUE, ALERTS})
EVERY = 0.5
ROWS_AT_ONCE = 200
NOTICES_AT_ONCE = 1000
"""After this many notices the jobs are stored; the notices of one transaction stay together."""
JOBS_AT_ONCE = 500
AHEAD = 1000
"""After this many rows without a wanted notice, the cursor is stored all the same."""
CLOUD_EVENT = "application/cloudevents+json"


class Subscriptions:
    """Turns notices into jobs that carry them to subscribers. Any worker can, and all may at once."""

    def __init__(self, store: Store, acceptor: Acceptor, notify: Notify, cursors: Cursors) -> None:
        self._store = store
        self._acceptor = acceptor
        self._notify = notify
        self._cursors = cursors

    async def carry(self) -> None:
        """Follow to the end of the journal, for each subscriber from its own cursor."""
        for name, subscriber in self._notify.subscribers.items():
            while await self._read_next(name, subscriber):
                pass

    async def _read_next(self, name: str, subscriber: Subscriber) -> bool:
        """Carry the next notices of one subscriber; return whether there may be more."""
        kept = of_subscriber(name)
        written, at = await self._cursors.place(kept)
        rows = await journal(self._store, at, ROWS_AT_ONCE)
        if not rows:
            return False
        retries = await retries_of(self._store, rows, self._store.skew())
        end, found = self._wanted_notices(subscriber, at, rows, retries)
        if found or end - written >= AHEAD:
            return await self._moved(CarryRequest(kept, written, end, await self._jobs(name, found)))
        self._cursors.read_to(kept, end)
        return len(rows) == ROWS_AT_ONCE

    async def _moved(self, carrying: CarryRequest) -> bool:
        """Store the jobs; return whether to go on at once, which is False while there is no room for more."""
        try:
            at = await self._store.write(notice_scripts.carry, carrying)
        except LowDisk:  # health reports it; the notices are still in the journal
            return False
        self._cursors.read_to(carrying.name, at)
        return at != carrying.since

    def _wanted_notices(
        self, subscriber: Subscriber, at: int, rows: Sequence[JournalRow], retries: Mapping[int, RetryData]
    ) -> tuple[int, list[Notice]]:
        """Return the notices that a subscriber wants, and how far the journal was searched."""
        found: list[Notice] = []
        for row in rows:
            if 0 < at < row.seq - 1:
                log.warning("%d transactions were pruned before a subscriber was told of them", row.seq - at - 1)
                found.append(gap(at, row.seq, datetime.fromtimestamp(row.at + self._store.skew(), UTC)))
            found += notices_of(row, self._store.skew(), partial(_wants, subscriber), retries.get(row.seq))
            at = row.seq
            if len(found) >= NOTICES_AT_ONCE:
                break
        return at, found

    async def _jobs(self, name: str, found: Sequence[Notice]) -> tuple[NewJob, ...]:
        """Build the jobs that carry notices, some at a time, so that other tasks of this process get their turn."""
        jobs: list[NewJob] = []
        for start in range(0, len(found), JOBS_AT_ONCE):
            some = found[start : start + JOBS_AT_ONCE]
            payloads = [{"subscriber": name, "event": cloud_event(each, self._notify.source)} for each in some]
            jobs += self._acceptor.internal(QUEUE, payloads)
            await asyncio.sleep(0)
        return tuple(jobs)


def _wants(subscriber: Subscriber, kind: str, queue: str) -> bool:
    """Leave out notices about the queues that carry: each would be about the one before, without end."""
    return queue not in CARRIERS and subscriber.wants(kind, queue)


def handler(door: Door, notify: Notify, sender: Sender, clock: Clock, sinks: Sinks) -> Handler:
    """Return the handler that carries one notice to one subscriber."""

    async def deliver(job: Job) -> dict[str, Any] | Failed:
        """Deliver a notice."""
        name = job.payload["subscriber"]
        subscriber = notify.subscribers.get(name)
        if subscriber is None:
            raise Permanent(f"[notify] has no subscriber named {name!r} where this worker runs; name it, then replay")
        outcome = await sinks.sent(f"{SUBSCRIBER}{name}", _sent(job, subscriber, sender, clock.wall()))
        return outcome if isinstance(outcome, Failed) else {"subscriber": name, "status": outcome["status"]}

    return Handler(deliver, Declaration(queue=QUEUE, name=QUEUE), door)


async def _sent(job: Job, subscriber: Subscriber, sender: Sender, wall: float) -> dict[str, Any] | Failed:
    """Send a job's notice. A missing secret counts as not sent, like a missing answer."""
    request = webhook(subscriber, job.payload["event"], job.id, wall)
    named = msgspec.structs.replace(request, headers={**request.headers, "content-type": CLOUD_EVENT})
    return judge(await sender.tell(named))
