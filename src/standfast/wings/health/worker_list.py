"""The live workers, and what each one runs."""

from __future__ import annotations

from typing import Any

from standfast.store.store import Store
from standfast.wings.health import scripts as health_scripts
from standfast.wings.health.scripts import WorkerRow, WorkersAtWork
from standfast.wings.health.verbs import SILENT_AFTER, worker_facts
from standfast.wings.records.effects_view import Moment
from standfast.wings.records.view import moments

JOBS_SHOWN = 100
"""The most jobs that are named for a worker: those that it has run longest."""


async def workers(store: Store) -> list[dict[str, Any]]:
    """Return every live worker, the oldest first: where it is, what it serves, and what it runs."""
    found = await store.read(health_scripts.workers_at_work(store.now(), store.boot(), silent_after=SILENT_AFTER))
    oldest_first = sorted(found.workers, key=lambda each: (each.started_at, each.id))
    return [_at_work(each, found, store.now(), moments(store.skew())) for each in oldest_first]


def _at_work(worker: WorkerRow, found: WorkersAtWork, now: float, moment: Moment) -> dict[str, Any]:
    jobs = [each for each in found.longest if each.worker == worker.id][:JOBS_SHOWN]
    return {
        **worker_facts(worker, now),
        "host": worker.host,
        "started_at": moment(worker.started_at),
        "running": {queue: number for of, queue, number in found.counts if of == worker.id},
        "jobs": [
            {
                "id": each.id,
                "queue": each.queue,
                "handler": each.handler,
                "attempt": each.attempts,
                "since": moment(each.claimed_at),
            }
            for each in jobs
        ],
    }
