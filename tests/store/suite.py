"""The store's behaviour in a few words: make a job, claim it, end it, look at what is left."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from standfast.failure import Class, Failure, Landed
from standfast.job import Claim, NewJob, Receipt
from standfast.lifecycle import Transition
from standfast.outcome import Failed, Outcome
from standfast.rules import DEFAULTS, QueueRules
from standfast.spine import claim as claiming
from standfast.spine import intake
from standfast.spine.apply import apply
from standfast.spine.claim_requests import ClaimRequest, ClaimResult, Publication, QueueDemand
from standfast.spine.payload import fingerprint
from standfast.spine.registry import Declaration
from standfast.store.store import Store
from standfast.views import JobView
from standfast.wings.jobs.rules import cancel
from standfast.wings.queues import publishing
from standfast.wings.records import reads
from standfast.wings.records.view import job_view
from standfast.wings.replays.returning import standing
from standfast.wings.replays.rules import replay
from standfast.worker import upkeep
from standfast.worker.settling import settle
from standfast.worker.sweeper import Sweeper
from standfast.worker.upkeep import Beat, SweepRequest, SweepResult, WorkerCard

Look = Callable[[str], list[tuple[Any, ...]]]
"""Looks behind the verbs: rows of a plain SELECT."""

EVERY = 10.0
"""Seconds between two sweeps, and between two heartbeats."""

_numbers = itertools.count(1)


def new_job(queue: str = "mail", payload: str = "{}", *, handler: str | None = None, **given: Any) -> NewJob:
    """Make a job nobody else has; a key brings its fingerprint."""
    handler = handler or queue
    if "idempotency_key" in given:
        given.setdefault("fingerprint", fingerprint(handler, payload))
    return NewJob(id=f"job-{next(_numbers)}", queue=queue, handler=handler, payload=payload, **given)


async def enqueued(store: Store, *jobs: NewJob) -> list[str]:
    """Store jobs that must be accepted; give their ids."""
    answers = await store.write_all(intake.enqueue, jobs)
    assert [answer for answer in answers if getattr(answer, "outcome", None) != "accepted"] == []
    return [job.id for job in jobs]


async def one(store: Store, queue: str = "mail", **given: Any) -> str:
    """Store one job; give its id."""
    [job_id] = await enqueued(store, new_job(queue, **given))
    return job_id


def put(store: Store, **given: Any) -> str:
    """Store one job from code without a loop; give the outcome."""
    [answer] = store.write_all(intake.enqueue, [new_job(**given)]).result()
    return answer.outcome if isinstance(answer, Receipt) else "conflict"


async def catch(
    store: Store, queue: str = "mail", *, slots: int = 1, handlers: Sequence[str] = (), worker: str = "worker-1"
) -> ClaimResult:
    """Claim from one queue as a worker does, suspects alone; without `handlers`, the one that is named like it."""
    want = QueueDemand(queue, tuple(handlers) or (queue,), slots)
    found = await store.write(claiming.claim, ClaimRequest(worker, (want,)))
    if found.claims or not found.suspects:
        return found
    return await store.write(claiming.claim, ClaimRequest(worker, (replace(want, alone=True),)))


async def claimed(store: Store, queue: str = "mail", **how: Any) -> list[Claim]:
    """Claim from one queue; give the claims."""
    return (await catch(store, queue, **how)).claims


async def claim_one(store: Store, queue: str = "mail", **how: Any) -> Claim:
    """Claim the one job that must be there."""
    [claim] = await claimed(store, queue, **how)
    return claim


async def ended(store: Store, claim: Claim, outcome: Outcome, rules: QueueRules = DEFAULTS) -> bool:
    """End an attempt; tell whether that landed."""
    [landed] = await store.write_all(apply, [settle(claim, outcome, rules, roll=0.0)])
    return landed


def failed(cls: Class = Class.TRANSIENT, landed: Landed = Landed.NO, code: str = "timeout") -> Failed:
    """Make an attempt's failure."""
    return Failed(Failure(cls=cls, landed=landed, reason_code=code, message="it broke"))


async def replayed(store: Store, job_id: str) -> Transition:
    """Have a letter replayed; give the move, for somebody who decided the same and comes too late."""
    record = await store.read(reads.job(job_id, store.boot()))
    assert record is not None
    move = replay(standing(record.row))
    assert isinstance(move, Transition)
    assert await store.write_all(apply, [move]) == [True]
    return move


async def cancelled(store: Store, job_id: str) -> None:
    """Have a waiting job cancelled."""
    record = await store.read(reads.job(job_id, store.boot()))
    assert record is not None
    move = cancel(standing(record.row))
    assert isinstance(move, Transition)
    assert await store.write_all(apply, [move]) == [True]


async def seen(store: Store, job_id: str) -> JobView:
    """Look at a job that must be there, as a person does."""
    record = await store.read(reads.job(job_id, store.boot()))
    assert record is not None
    return job_view(record, now=store.now(), skew=store.skew())


async def states(store: Store, *ids: str) -> list[str]:
    """Give the state of each job."""
    return [(await seen(store, job_id)).state for job_id in ids]


def publish(store: Store, *handlers: Declaration, **queues: QueueRules) -> None:
    """Put rules and handlers in force."""
    publishing.publish(store, Publication(queues, handlers))


def beat(store: Store, worker: str = "worker-1") -> Beat:
    """Renew a worker's leases."""
    return store.write(upkeep.beat, WorkerCard(worker, "host", 1, '["mail"]', "{}")).result()


async def sweep(store: Store) -> SweepResult:
    """Look once for what lapsed or grew too old."""
    return await store.write(upkeep.sweep, SweepRequest(every=EVERY, patience=EVERY))


async def swept(store: Store) -> None:
    """Sweep as a worker does, deciding what was found."""
    await Sweeper(store, SweepRequest(every=EVERY, patience=EVERY), roll=lambda: 0.0).sweep()


def everything(look: Look, *tables: str) -> list[list[tuple[Any, ...]]]:
    """Read whole tables: those a job's end may change, unless others are named."""
    names = tables or ("job", "ending", "history", "journal", "counter", "idempotency")
    return [look(f"SELECT * FROM {table}") for table in names]  # noqa: S608 - the names are written in the tests


def journal(rows: list[tuple[Any, ...]]) -> list[list[tuple[str, str, list[str]]]]:
    """Read journal rows: for each transaction what happened, in which queue, to which jobs."""
    return [[(kind, queue, ids) for kind, queue, ids in json.loads(entries)] for (entries,) in rows]


@contextmanager
def begins_no_round(store: Store) -> Iterator[None]:
    """Have whatever is asked of the store meanwhile share the one transaction that begins after."""
    with store._engine._round:  # noqa: SLF001 - there is no other way to be sure of it
        yield
