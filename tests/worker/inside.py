"""What tests look at inside a worker, or reach into: each private name stands here once."""
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from standfast import Standfast, StoreUnavailable
from standfast.application.registering import declare
from standfast.concurrency.flows import Answer
from standfast.job import Claim
from standfast.lifecycle import Transition
from standfast.rules import QueueRules
from standfast.spine.apply import apply
from standfast.spine.claim_requests import ClaimRequest, ClaimResult, Publication
from standfast.store.store import Store
from standfast.wings.health import scripts as health_scripts
from standfast.wings.health.scripts import WorkerRow
from standfast.wings.notices.scripts import JournalEnd
from standfast.wings.queues import scripts as queue_scripts
from standfast.worker.upkeep import Beat
from standfast.worker.worker import Worker
from tests.between import Passed, between


def store_of(sf: Standfast) -> Store:
    return sf._store


async def publish_elsewhere(sf: Standfast, queue: str, handler: str | None = None) -> None:
    """Have the store know a handler that only another process has."""
    await sf.stats()  # opens the store
    declared = declare(queue, handler, replay="replay", risk=None, timeout=None)
    await sf._store.write(queue_scripts.publish, Publication({}, [declared]))


def held(worker: Worker) -> dict[tuple[int, int], Any]:
    """Every job in the worker's hands whose end is not on disk."""
    return worker._executor.held


def fenced(worker: Worker) -> int:
    """Count the ends that landed nowhere."""
    return worker._executor.fenced


def fire_timer_early(worker: Worker) -> None:
    """Have the one timer that watches the deadlines fire now."""
    timer = worker._executor._timer
    assert timer is not None
    timer.cancel()
    worker._executor._check_deadlines()


def watches_deadlines(worker: Worker) -> bool:
    return worker._executor._timer is not None


def hand_in_to(worker: Worker, take: Callable[[Transition], None]) -> None:
    """Have the test take what the worker would hand to the store."""
    worker._executor.hand_in = take  # type: ignore[method-assign, assignment]


def beating(worker: Worker) -> bool:
    """Whether the worker's heartbeat goes on."""
    return worker._heartbeat._thread.is_alive()


def beat_soon(worker: Worker) -> None:
    """Have the heart beat now rather than when its time has come."""
    worker._heartbeat.hurry()


def covers(worker: Worker, lease: float) -> bool:
    """Whether the worker would start something under this lease, by its last heartbeat."""
    return worker._heartbeat.covers(lease)


def known_queues(worker: Worker) -> set[str]:
    """Every queue the worker looks into."""
    return set(worker._claimer._lanes)


def is_open(sf: Standfast) -> bool:
    return sf._store._opened is not None


def start(worker: Worker, claim: Claim) -> None:
    """Have a worker begin an attempt, in the next turn of the loop, that it was not asked to claim."""
    worker._executor.start(claim, QueueRules())


async def begin(worker: Worker, claim: Claim) -> asyncio.Task[Any]:
    """Have a worker begin an attempt it was not asked to claim; give the task that runs it."""
    start(worker, claim)
    await asyncio.sleep(0)
    task = worker._executor.held[claim.n, claim.token].task
    assert task is not None
    return task


def idle(worker: Worker) -> bool:
    """Whether the worker has claimed at least once and is not claiming now."""
    return worker._claimer.answers > 0 and not worker._claimer._claiming.running


def claim_task(worker: Worker) -> asyncio.Task[None] | None:
    """Give the task of the claim that is under way."""
    return next(iter(worker._claimer._claiming.running), None)


def look_everywhere(worker: Worker) -> None:
    """Have the worker claim, unless it is claiming already."""
    worker._claimer.look_everywhere()


def has_planned_a_look_at(worker: Worker, queue: str) -> bool:
    """Return whether the worker has heard that a queue will have work."""
    return queue in worker._claimer._looks._timers


def looked(worker: Worker) -> JournalEnd | None:
    """Return how far the journal went when the poll looked last."""
    return None if worker._seen is None else worker._seen[0]


def compare(worker: Worker, beat: Beat) -> None:
    """Have the worker judge a heartbeat's answer."""
    worker._compare(beat)


def listen_to_beats(worker: Worker, heard: Callable[[Beat], None]) -> None:
    """Be told of every heartbeat after the worker has judged it."""
    judge = worker._compare

    def judge_and_tell(beat: Beat) -> None:
        judge(beat)
        heard(beat)

    worker._compare = judge_and_tell  # type: ignore[method-assign]


def listen_to_failed_beats(worker: Worker, heard: Callable[[], None]) -> None:
    """Be told of every heartbeat that did not reach the store, on its thread."""
    beat = worker._heartbeat.beat

    def beat_and_tell() -> None:
        try:
            beat()
        except StoreUnavailable:
            heard()
            raise

    worker._heartbeat.beat = beat_and_tell  # type: ignore[method-assign]


def fail_next_beat(worker: Worker, error: Exception) -> threading.Event:
    """Have the next heartbeat meet a fault; tell when it has."""
    beat, failed = worker._heartbeat.beat, threading.Event()

    def fail() -> None:
        worker._heartbeat.beat = beat  # type: ignore[method-assign]
        failed.set()
        raise error

    worker._heartbeat.beat = fail  # type: ignore[method-assign]
    return failed


def failed_beats(worker: Worker) -> int:
    """Count the heartbeats that failed."""
    return worker._heartbeat.failures


def refuse_the_end_of(sf: Standfast, job_id: str | None) -> None:
    """Have every write that holds the end of this job meet a fault, as an unexpected value would."""

    async def refuse(transitions: Sequence[Transition], landed: Answer[Any]) -> Any:
        if any(transition.id == job_id and transition.move == "complete" for transition in transitions):
            raise ValueError(job_id)
        return await landed

    between(sf._store, apply, refuse)


def keep_first_end_waiting(sf: Standfast) -> threading.Event:
    """Have the first write of an end wait until it is cancelled, as a busy store would; tell when it does."""
    waiting = threading.Event()

    async def wait(_: Sequence[Transition], landed: Answer[Any]) -> Any:
        if not waiting.is_set():
            waiting.set()
            await asyncio.Event().wait()
        return await landed

    between(sf._store, apply, wait)
    return waiting


def claim_through(
    sf: Standfast,
    claim: Callable[[ClaimRequest, Callable[[ClaimRequest], Awaitable[ClaimResult]]], Coroutine[Any, Any, ClaimResult]],
) -> None:
    """Put the test between a worker and the store's claims."""
    store = sf._store
    real = store.claim

    def claimed(order: ClaimRequest) -> Passed:
        return Passed(claim(order, real))

    store.claim = claimed  # type: ignore[method-assign, assignment]


@contextmanager
def deaf(sf: Standfast, worker: Worker) -> Iterator[None]:
    """Let no hint reach the worker."""
    sf._store.unlisten(worker._hinted)
    try:
        yield
    finally:
        sf._store.listen(worker._hinted)


async def live_workers(sf: Standfast, *, at_least: int = 0) -> list[WorkerRow]:
    """Give the workers whose heartbeat is fresh, or nothing if they are too few."""
    facts = await sf._store.read(health_scripts.facts(sf._store.now(), sf._store.boot(), silent_after=60.0))
    return facts.workers if len(facts.workers) >= at_least else []


async def live_callers(sf: Standfast, *, at_least: int = 0) -> tuple[WorkerRow, ...]:
    """Give the processes whose calls may run, or nothing if they are too few."""
    facts = await sf._store.read(health_scripts.facts(sf._store.now(), sf._store.boot(), silent_after=60.0))
    return facts.callers if len(facts.callers) >= at_least else ()


def listeners(sf: Standfast) -> int:
    """Count who is told which queues get work."""
    return len(sf._store._engine._listeners)
