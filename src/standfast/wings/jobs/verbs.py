"""What people do with single jobs and queues: retry, cancel, explain, pause."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from standfast.errors import ConfigurationError, NotALetter, UnknownJob, UnknownQueue
from standfast.job import HTTP
from standfast.lifecycle import LETTERS, State
from standfast.printable import printable
from standfast.profiles import stored_rules
from standfast.rules import Seconds, exponential
from standfast.spine.accept import user
from standfast.spine.apply import apply
from standfast.spine.backoff import delay
from standfast.spine.ids import JobId, id_of
from standfast.store.store import Store
from standfast.views import JobView
from standfast.wings.audit.words import Decision
from standfast.wings.calls.refused_retries import NOT_REPLAYED, not_replayed, still_down
from standfast.wings.calls.replies import not_retried, parked, retried
from standfast.wings.health import scripts as health_scripts
from standfast.wings.health import verbs as overview
from standfast.wings.health.marks import blocked_workers
from standfast.wings.health.scripts import Facts, WorkerRow
from standfast.wings.health.verbs import SILENT_AFTER
from standfast.wings.http.sender import Sender
from standfast.wings.isolation.rules import not_started_because
from standfast.wings.jobs import scripts as operations
from standfast.wings.jobs.explain import Circumstances, explain, postponed
from standfast.wings.jobs.rules import cancel
from standfast.wings.letters.verbs import DeadLetters
from standfast.wings.limits import holds, outages
from standfast.wings.limits import probe_scripts as probes
from standfast.wings.limits.probes import LONGEST_ANSWER, Probe, check_probe, says_no
from standfast.wings.limits.scripts import read_gates
from standfast.wings.limits.words import Row, of_key, of_queue
from standfast.wings.queues import card_scripts
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.queues.card_scripts import PublishedHandler
from standfast.wings.queues.checks import Admission
from standfast.wings.queues.pauses import PauseRequest, by_whom
from standfast.wings.records import reads
from standfast.wings.records.duplicates import duplicate_sentence
from standfast.wings.records.effects_view import found_effects
from standfast.wings.records.reads import Holder, JobRecord, JobRow
from standfast.wings.records.view import cancelled_by, job_view, moments, waits
from standfast.wings.replays.returning import standing
from standfast.wings.replays.rules import Refusal

PROBE_FOR = 60.0
"""Seconds a retry waits for its probe to say yes."""
PAUSES = exponential(base=0.5, cap=15)
"""The waits between questions to the probe."""
LEAST_ANSWER = 5.0
"""The least seconds that a probe gets: it is asked once, however short the wait."""
RETRIED = LETTERS | {State.QUEUED}
"""The states from which a job can be retried."""


class Snapshot(NamedTuple):
    """A job at one moment."""

    job: JobView
    explain: Callable[[], Awaitable[str]]
    """Says why it was where it was."""


class Operations:
    """Verbs about one job. Each reads first, and what it decides is written only if nothing changed meanwhile."""

    def __init__(self, store: Store, letters: DeadLetters, sender: Sender) -> None:
        self._store = store
        self._letters = letters
        self._sender = sender

    async def retry(
        self,
        id: JobId,
        *,
        by: str,
        session: str | None = None,
        probe: Probe | None = None,
        timeout: Seconds = PROBE_FOR,
    ) -> dict[str, Any]:
        """Run a job again as soon as possible: a waiting job now, a letter by replay; a running one is left alone.

        With a probe, the job does not run before the probe says yes, nor at all if that takes longer than `timeout`.
        A session means that an agent asks.
        """
        record = await self._record(id)
        asked_in = State(record.row.state)
        if probe is not None:
            check_probe(probe)
            record, why_not = await self._awaited(record, probe, time.monotonic() + timeout)
            if why_not is not None:
                return still_down(await self.view(id), why_not)
        if State(record.row.state) in LETTERS:
            with suppress(NotALetter):  # another replay was first, which serves as well
                answer = await self._letters.replay(record.row.id, by=by, reason="retry", session=session)
                if answer["outcome"] in NOT_REPLAYED:
                    return not_replayed(await self.view(id), answer)
        elif record.row.state == State.QUEUED:
            await self._store.write(operations.hurry, record.row.id)
        job = await self._insisted(await self.view(id))
        if job.state == State.QUEUED and (hold := await self._hold(id)) is not None:
            now, skew = self._store.now(), self._store.skew()
            return parked(job, postponed(hold, now, skew), until=moments(skew)(holds.read(hold).until))
        if job.view == "parked":
            return parked(job, await self.explain(id))
        # A job that was running when asked is refused; one that a worker has taken up since was retried.
        was_retried = asked_in in RETRIED and job.state != State.CANCELLED
        return retried(job) if was_retried else not_retried(job)

    async def _hold(self, id: JobId) -> Row | None:
        """Return the gate of a job's destination if it still makes its callers wait: a retry does not pass it."""
        gate = _hold_gate((await self._record(id)).row)
        found = await self._store.read(read_gates([gate])) if gate is not None else {}
        return next((row for row in found.values() if holds.is_shut(row, self._store.now())), None)

    async def _insisted(self, job: JobView) -> JobView:
        """Let a job be called although its handler is disabled: its caller wants the handler's own error to decide."""
        if job.state != State.QUEUED:
            return job
        disabled = await self._store.read(read_gates([of_key("probe", job.queue, job.handler)]))
        insisted = bool(disabled) and await self._store.write(probes.override_disabled, job.id)
        return await self.view(job.id) if insisted else job

    async def _awaited(self, record: JobRecord, probe: Probe, give_up: float) -> tuple[JobRecord, str | None]:
        """Wait until the probe says yes, while the job can be retried; return the job as it is then, and a last no."""
        tries = 0
        while State(record.row.state) in RETRIED:
            within = max(LEAST_ANSWER, min(LONGEST_ANSWER, give_up - time.monotonic()))
            why_not = await says_no(probe, self._sender, within)
            if why_not is None:
                return await self._record(record.row.id), None
            tries += 1
            pause = delay(PAUSES, tries, random.random())  # noqa: S311 - jitter
            if time.monotonic() + pause > give_up:
                return record, why_not
            await asyncio.sleep(pause)
            record = await self._record(record.row.id)
        return record, None

    async def cancel(self, id: JobId, *, by: str) -> JobView:
        """End a job that is no longer wanted; a running one is asked to stop."""
        while not await self._cancelled(await self._record(id), by):
            pass  # it moved meanwhile: a worker claimed it, or its attempt ended
        return await self.view(id)

    async def _cancelled(self, record: JobRecord, by: str) -> bool:
        """Cancel a job in its present state; False if that has changed meanwhile."""
        if record.row.state == State.RUNNING:
            return await self._store.write(operations.ask_to_stop, (record.row.id, printable(by)))
        decided = cancel(standing(record.row), by=by)
        if isinstance(decided, Refusal):
            return True
        if decided.source in LETTERS:  # this discards it, which goes on the audit chain
            decision = Decision(kind="discard", by=by, outcome="cancelled")
            decided = decided.carrying(decision)
        return await self._store.write(apply, decided)

    async def explain(self, id: JobId) -> str:
        """Say in one sentence why a job is where it is."""
        return await self._explain(await self._record(id))

    async def snapshot(self, id: JobId) -> Snapshot:
        """Return a job, and what explains it as it was then, however far it gets meanwhile."""
        record = await self._record(id)
        job = job_view(record, now=self._store.now(), skew=self._store.skew())
        return Snapshot(job, partial(self._explain, record))

    async def _explain(self, record: JobRecord) -> str:
        facts = await self._store.read(
            health_scripts.facts(self._store.now(), self._store.boot(), silent_after=SILENT_AFTER)
        )
        names = _before(record.row) if record.row.state == State.QUEUED else []
        gates = await self._store.read(read_gates(names)) if names else {}
        before = [gates[name] for name in names if name in gates]
        found = _circumstances(record, facts, before, now=self._store.now(), skew=self._store.skew())
        return explain(found if record.holder is None else _with_holder(found, record.holder, self._store))

    async def view(self, id: JobId) -> JobView:
        """Return a job that must exist."""
        return job_view(await self._record(id), now=self._store.now(), skew=self._store.skew())

    async def _record(self, id: JobId) -> JobRecord:
        record = await self._store.read(reads.job(id_of(id), self._store.boot()))
        if record is None:
            raise UnknownJob.for_id(id_of(id))
        return record


class Queues:
    """Verbs about queues: `list`, `pause`, `resume`, `try_now`. A pause holds in every process and costs no attempt."""

    def __init__(self, store: Store, ready: Callable[[], Awaitable[None]], admission: Admission) -> None:
        self._store = store
        self._ready = ready
        self._admission = admission

    async def published(self, name: str) -> bool:
        """Return whether a process ever published a queue; a queue that was only used is not published."""
        return await self._admission.published(name)

    async def handlers(self) -> Sequence[PublishedHandler]:
        """Return every handler that a process ever published, with what agents are told about it."""
        await self._ready()
        return await self._store.read(card_scripts.published())

    async def list(self) -> list[str]:
        """Return the names of every queue that was declared or used."""
        await self._ready()
        return sorted(await self._store.read(queue_scripts.queue_names()))

    async def describe(self) -> dict[str, dict[str, Any]]:
        """Return every queue with its rules in force, what it holds, and how many live workers serve it."""
        await self._ready()
        return await overview.queues(self._store)

    async def pause(self, name: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Claim nothing more from a queue; running jobs continue. `by` defaults to the user of this process."""
        await self._set(PauseRequest(name, paused=True, by=by or user(), reason=reason))

    async def resume(self, name: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Resume a paused queue."""
        await self._set(PauseRequest(name, paused=False, by=by or user(), reason=reason))

    async def try_now(self, dependency: str) -> bool:
        """Let one job try a dependency that has not answered, before its breaker would; return whether any waited."""
        if not dependency.isprintable():  # not every store can even be asked for such a text
            raise ConfigurationError(f"a dependency's name is printable, and {dependency!r} is not; nothing was done")
        await self._ready()
        return await self._store.write(outages.try_now, dependency)

    async def _set(self, request: PauseRequest) -> None:
        await self._ready()
        if not await self._store.write(operations.pause, request):
            raise UnknownQueue(f"no queue is called {request.queue!r}: it was never declared or used")


def _with_holder(job: Circumstances, holder: Holder, store: Store) -> Circumstances:
    """Add the facts about the worker that holds a running job, if it may be gone."""
    silent_for = store.now() - holder.heard_at
    if silent_for <= min(holder.lease, SILENT_AFTER) and holder.of_this_boot:
        return job
    lapses_in = holder.lease - silent_for if holder.of_this_boot else 0.0
    return msgspec.structs.replace(job, silent_for=silent_for, lapses_in=lapses_in)


def _before(row: JobRow) -> list[str]:
    """Name the gates that may hold a waiting job: its queue's, the one it is parked at, and its destination's."""
    whole = [of_queue(kind, row.queue) for kind in ("gate", "limit", "rate")]
    own = [gate for gate in (row.parked_on, _hold_gate(row)) if gate is not None]
    return list(dict.fromkeys([*whole, *own]))


def _blocked_by(row: JobRow, facts: Facts, now: float) -> tuple[str, ...]:
    """Name the handlers that lately blocked the worker that runs this job, or one that serves its queue."""
    if row.state == State.RUNNING:
        concerned = {row.worker}
    else:
        concerned = {each.id for each in facts.workers if row.queue in msgspec.json.decode(each.queues)}
    return tuple(handler for worker, handler in blocked_workers(facts, now) if worker in concerned)


def _hold_gate(row: JobRow) -> str | None:
    """Name the gate at which jobs for the same destination wait, if the queue says what the destination is."""
    rules, payload = stored_rules(row.queue, row.rules), msgspec.json.decode(row.payload)
    return holds.gate_of(row.queue, rules, payload, request=row.handler == HTTP)


def _refused_by(row: JobRow) -> str:
    """Name the destination of a job."""
    gate = _hold_gate(row)
    return "Its receiver" if gate is None else holds.destination_of(gate)


def _circumstances(record: JobRecord, facts: Facts, before: Sequence[Row], *, now: float, skew: float) -> Circumstances:
    row, view = record.row, job_view(record, now=now, skew=0.0)
    queue = next(queue for queue in facts.queues if queue.name == row.queue)
    serving = [worker for worker in facts.workers if row.queue in msgspec.json.decode(worker.queues)]
    return Circumstances(
        state=view.state,
        queue=row.queue,
        handler=row.handler,
        attempts=row.attempts,
        max_attempts=view.max_attempts,
        due_in=row.due_at - now,
        waited=now - (row.ready_at or row.due_at),
        age=now - (row.finished_at or row.claimed_at or row.created_at),
        worker=row.worker,
        overdue_for=_overdue_for(record, now),
        parked_on=row.parked_on,
        failure=view.failure,
        warning=row.warning,
        found=tuple(found_effects(view.effects)),
        may_repeat=duplicate_sentence(view.history, view.state),
        called=tuple(Counter(each["name"] for each in view.effects if "arguments" in each).items()),
        superseded_by=row.superseded_by,
        cancelled_by=cancelled_by(view),
        waits_for=waits(record),
        triage=view.triage,
        paused=bool(queue.paused),
        paused_by=queue.pause and by_whom(queue.pause.by, now - queue.pause.at, queue.pause.reason),
        handler_known=(row.queue, row.handler) not in facts.unknown_handlers,
        any_worker=bool(facts.workers),
        blocked_by=_blocked_by(row, facts, now),
        live_workers=len(serving),
        without_handler=bool(serving) and row.handler != HTTP and not any(_has(each, row) for each in serving),
        ahead=queue.counts.due,
        running=queue.counts.running,
        deferrals=row.deferrals,
        not_started=not_started_because(view.history),
        refused_by=_refused_by(row) if view.history and view.history[-1].refused else None,
        gates=tuple(before),
        now=now,
        skew=skew,
    )


def _overdue_for(record: JobRecord, now: float) -> float | None:
    """Return how many seconds ago its worker noted that the present attempt is past its timeout, if it did."""
    lines = map(msgspec.json.decode, record.history)
    noted = [each["at"] for each in lines if each.get("reason_code") == operations.OVERDUE]
    return now - noted[-1] if noted and noted[-1] >= (record.row.claimed_at or now) else None


def _has(worker: WorkerRow, row: JobRow) -> bool:
    """Return whether a live worker has the handler of a job; a worker that declares nothing may have it."""
    declared = msgspec.json.decode(worker.declares)
    return not declared or f"{row.queue}/{row.handler}" in declared
