"""Workflows: steps that wait for each other, started together, durable, read and cancelled as one."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeVar, Unpack, overload

import msgspec

from standfast.application.traced_accept import stamped
from standfast.errors import Backpressure, ConfigurationError, IdempotencyConflict, UnknownRequest
from standfast.job import Details, NewJob
from standfast.lifecycle import State, view
from standfast.spine.accept import OPTIONS, Acceptor, checked_name, user
from standfast.spine.claim_requests import Conflict
from standfast.spine.ids import IDS, id_of
from standfast.spine.registry import Handler, Registry
from standfast.store.store import Store
from standfast.telemetry import BATCH, WORKFLOW, Tracing
from standfast.typed.job_options import StepOptions
from standfast.wings.queues.checks import Admission
from standfast.wings.records.view import blocker, moments, one_of, whole_page
from standfast.wings.workflows import graphs
from standfast.wings.workflows.graphs import Cancellation, Start, Started, StepRow, WorkflowRow
from standfast.wings.workflows.rules import Link, Plan, Refusal, plan, reasons
from standfast.wings.workflows.words import Progress

MOST_STEPS = 100_000
NOT_FOR_STEPS = frozenset({"idempotency_key", "thread_key", "first_seen_at"})
"""Options of jobs that steps do not take: the key belongs to the workflow, and the graph says what runs after what."""

_numbers = msgspec.json.Decoder(list[int]).decode
_details = msgspec.json.Decoder(Details).decode
T = TypeVar("T")
TypedDictT = TypeVar("TypedDictT", bound=Mapping[str, object])
"""A payload that is a TypedDict: mypy takes a dict literal passed as an argument for a plain dict."""
Steps = list[StepRow]  # inside the class, `list` is the verb
Found = list[dict[str, Any]]


class Step:
    """One added step; pass it to `after=` of another."""

    __slots__ = ("after", "job", "name", "options", "workflow")

    def __init__(
        self, workflow: Workflow, name: str, job: NewJob, after: Sequence[str], options: dict[str, Any]
    ) -> None:
        self.workflow = workflow
        self.name = name
        self.job = job
        self.after = after
        self.options = options

    @property
    def names_requester(self) -> bool:
        """Whether the step's own options say for whom it runs."""
        return "session" in self.options or "requester" in self.options

    def __repr__(self) -> str:
        return f"Step({self.name!r})"


After = Step | str | Iterable[Step | str]
"""What a step waits for: one step or several, or their names."""


def _check_fit(options: Iterable[str]) -> None:
    unfit = sorted(NOT_FOR_STEPS & set(options))
    if unfit:
        known = [each for each in OPTIONS if each not in NOT_FOR_STEPS]
        raise ConfigurationError(f"a step takes no {unfit[0]}; it takes {', '.join(('after', 'queue', *known))}")


class Starts(Protocol):
    """What a Workflow needs in order to start."""

    def job(self, handler: Handler | str, payload: Any, queue: str | None, options: dict[str, Any]) -> NewJob:
        """Turn a step into a job."""

    async def start(self, workflow: Workflow, key: str | None, session: str | None) -> str:
        """Store a workflow."""


class Workflow:
    """A workflow under construction. Nothing is stored before `start`."""

    def __init__(self, name: str, door: Starts) -> None:
        self.name = checked_name("a workflow's name", name)
        self.steps: list[Step] = []
        self._door = door

    @overload
    def step(
        self,
        name: str,
        handler: Handler[None, Any],
        payload: None = None,
        *,
        after: After = (),
        queue: str | None = None,
        **options: Unpack[StepOptions],
    ) -> Step: ...
    @overload
    def step(
        self,
        name: str,
        handler: Handler[T, Any],
        payload: T,
        *,
        after: After = (),
        queue: str | None = None,
        **options: Unpack[StepOptions],
    ) -> Step: ...
    @overload
    def step(
        self,
        name: str,
        handler: Handler[TypedDictT, Any],
        payload: dict[str, Any],
        *,
        after: After = (),
        queue: str | None = None,
        **options: Unpack[StepOptions],
    ) -> Step: ...
    @overload
    def step(
        self,
        name: str,
        handler: str,
        payload: Any = None,
        *,
        after: After = (),
        queue: str | None = None,
        **options: Unpack[StepOptions],
    ) -> Step: ...
    def step(
        self,
        name: str,
        handler: Handler[Any, Any] | str,
        payload: Any = None,
        *,
        after: After = (),
        queue: str | None = None,
        **options: Unpack[StepOptions],
    ) -> Step:
        """Add a step: `handler`, an object or a name, runs once every step in `after` is completed.

        Their results are in `job.parents`. A handler given by name that is not registered here works for the queue of
        its name, or for `queue`. `delay` and `at` say how early the step may start; the other options are `enqueue`'s.
        """
        asked: dict[str, Any] = {**options}
        _check_fit(asked)
        job = self._door.job(handler, payload, queue, asked)
        added = Step(self, checked_name("a step's name", name), job, self._names(name, after), asked)
        self.steps.append(added)
        return added

    async def start(self, idempotency_key: str | None = None, session: str | None = None) -> str:
        """Store all steps, or none, and return the workflow's id. Steps that wait for nothing can run at once.

        The same key does not start the same workflow twice: the second call returns the id of the first.
        """
        key = None if idempotency_key is None else checked_name("idempotency_key", idempotency_key)
        return await self._door.start(self, key, None if session is None else checked_name("session", session))

    def _names(self, name: str, after: After) -> list[str]:
        given = [after] if isinstance(after, str) or isinstance(after, Step) else after  # noqa: SIM101 - quicker
        return [each if isinstance(each, str) else self._name(name, each) for each in given]

    def _name(self, name: str, before: Step) -> str:
        if not isinstance(before, Step):
            raise ConfigurationError(f"after= of step {name!r} takes steps or their names, not {before!r}")
        if before.workflow is not self:
            raise ConfigurationError(f"step {name!r} comes after {before.name!r}, a step of another workflow")
        return before.name


class Workflows:
    """Workflows in the store: `get`, `list`, `cancel`."""

    def __init__(
        self,
        store: Store,
        ready: Callable[[], Awaitable[None]],
        registry: Registry,
        acceptor: Acceptor,
        admission: Admission,
        *,
        tracing: Tracing | None = None,
    ) -> None:
        self._store = store
        self._ready = ready
        self._tracing = tracing
        self._registry = registry
        self._acceptor = acceptor
        self._admission = admission

    # --- starting

    def job(self, handler: Handler | str, payload: Any, queue: str | None, options: dict[str, Any]) -> NewJob:
        """Turn a step into a job."""
        if not isinstance(handler, Handler):
            name, queue = handler, queue or self._queue_of(checked_name("handler", handler))
        elif queue in (None, handler.queue):
            name, queue = handler.name, handler.queue
        else:
            raise ConfigurationError(f"handler {handler.name!r} works for queue {handler.queue!r}, not {queue!r}")
        [job] = self._acceptor.jobs(queue, (payload,), handler=name, **options)
        return job

    def _queue_of(self, handler: str) -> str:
        """Return the queue a handler works for: the one it is registered for here, else the one of its own name."""
        known = self._registry.queues_of(handler)
        if len(known) > 1:
            raise ConfigurationError(f"several queues have a handler {handler!r} ({', '.join(known)}); add queue=")
        return known[0] if known else handler

    async def start(self, workflow: Workflow, key: str | None, session: str | None) -> str:
        """Store a workflow with all its steps, or refuse it before anything is written."""
        steps, planned = workflow.steps, _planned(workflow)
        by_name = {step.name: step for step in steps}
        ordered = [by_name[name] for name in planned.order]
        jobs = [self._new_job(step, session) for step in ordered]
        await self._admit(jobs)
        await self._ready()
        start = Start(
            id=self._mint(),
            name=workflow.name,
            jobs=jobs,
            steps=planned.order,
            parents=planned.parents,
            fingerprint=_fingerprint(ordered),
            key=key,
        )
        started = _workflow_id(await self._write(start), workflow.name, key)
        self._admission.point_out(jobs)
        return started

    async def _write(self, start: Start) -> Any:
        if self._tracing is None:
            return await self._store.write(graphs.start, start)
        with self._tracing.enqueue_span(start.name, {WORKFLOW: start.id, BATCH: len(start.jobs)}) as span:
            carried = msgspec.structs.replace(start, jobs=[stamped(job, span) for job in start.jobs])
            return await self._store.write(graphs.start, carried)

    def _new_job(self, step: Step, session: str | None) -> NewJob:
        """Give a step's job its own id: a workflow can be started more than once."""
        details = _for_step(step.job.details, None if step.names_requester else session)
        return msgspec.structs.replace(step.job, id=self._mint(), details=details)

    def _mint(self) -> str:
        return IDS.mint(self._store.moment().wall)

    async def _admit(self, jobs: Sequence[NewJob]) -> None:
        alike: dict[tuple[str, str], list[NewJob]] = {}
        for job in jobs:
            alike.setdefault((job.queue, job.handler), []).append(job)
        for theirs in alike.values():
            await self._admission.admit(theirs)

    # --- looking

    async def get(self, id: str) -> dict[str, Any]:
        """Return a workflow with its steps, each with its state, and its result once it is completed."""
        await self._ready()
        found = await self._store.read(graphs.one(id_of(id)))
        if found is None:
            raise UnknownRequest.for_id("workflow", id)
        row, steps = found
        return {**self._summary(row), "steps": _display(steps, self._store.now())}

    async def list(self, state: str | None = None, *, limit: int = 50, cursor: str | None = None) -> Found:
        """List workflows, the newest first, without their steps; `cursor` is the last id of the page before."""
        await self._ready()
        wanted = one_of("state", state, Progress)
        rows = await self._store.read(graphs.list_workflows(wanted, whole_page(limit) - 1, cursor))
        return [self._summary(row) for row in rows]

    def _summary(self, row: WorkflowRow) -> dict[str, Any]:
        moment = moments(self._store.skew())
        counts = {"total": row.total, "completed": row.total - row.unfinished - row.dropped, "cancelled": row.dropped}
        return {
            "id": row.id,
            "name": row.name,
            "state": row.state,
            **counts,
            "stopped": row.stopped,
            "created_at": moment(row.created_at),
            "finished_at": moment(row.finished_at),
        }

    # --- cancelling

    async def cancel(self, id: str, *, by: str | None = None) -> dict[str, Any]:
        """End every step that is not final. A running step is asked to stop, and ends cancelled unless it succeeds."""
        await self._ready()
        if not await self._store.write(graphs.cancel, Cancellation(id_of(id), by or user())):
            raise UnknownRequest.for_id("workflow", id)
        return await self.get(id)


def _planned(workflow: Workflow) -> Plan:
    steps = workflow.steps
    if len(steps) > MOST_STEPS:
        raise ConfigurationError(
            f"workflow {workflow.name!r} has {len(steps)} steps, and may have {MOST_STEPS}; nothing was written: let a "
            "step start another workflow"
        )
    found = plan([(step.name, step.after) for step in steps])
    if isinstance(found, Refusal):
        raise ConfigurationError(f"workflow {workflow.name!r} cannot start: {found.why}; nothing was written")
    return found


@lru_cache(maxsize=1024)
def _for_step(details: str, session: str | None) -> str:
    """Mark a job as a step, and set its session if the workflow was started for one."""
    whose = {} if session is None else {"session": session, "requester": session}
    return msgspec.json.encode(
        msgspec.structs.replace(_details(details), queue_reason="workflow_step", **whose)
    ).decode()


def _fingerprint(steps: Iterable[Step]) -> str:
    """Hash what a workflow does: its steps, their payloads and order; not when, for whom or how urgently."""
    found = hashlib.sha256()
    for step in sorted(steps, key=lambda step: step.name):
        job = step.job
        found.update(msgspec.json.encode((step.name, job.queue, job.handler, job.payload, sorted(set(step.after)))))
    return found.hexdigest()


def _workflow_id(answer: Started, name: str, key: str | None) -> str:
    if isinstance(answer, str):
        return answer
    if isinstance(answer, Conflict):
        raise IdempotencyConflict(
            f"key {key!r} of workflow {name!r} belongs to workflow {answer.job_id} with other steps; nothing was "
            "written: use another key, or start the same steps",
            job_id=answer.job_id,
        )
    queue, full = answer
    raise Backpressure(
        f"queue {queue!r} has no room for the first steps of workflow {name!r}: max_depth allows {full.most} jobs due; "
        "nothing was written: call again later, start more workers, or raise max_depth"
    )


def _display(steps: Steps, now: float) -> dict[str, dict[str, Any]]:
    names = {step.n: step.name for step in steps}
    before = {step.n: _numbers(step.parents or "[]") for step in steps}
    whys = reasons(Link(each.n, before[each.n], blocker(each.name, each.state, each.failure)) for each in steps)
    return {step.name: _step(step, [names[n] for n in before[step.n]], whys.get(step.n), now) for step in steps}


def _step(step: StepRow, after: Sequence[str], why: str | None, now: float) -> dict[str, Any]:
    seen = view(step.state, attempts=step.attempts, due_later=step.due_at > now, parked=step.parked_on is not None)
    stopped = blocker(step.name, step.state, step.failure).failure
    shown = {
        "state": State(step.state),
        "view": seen,
        "job_id": step.id,
        "result": None if step.result is None else msgspec.json.decode(step.result),
        "after": after,
        "queue": step.queue,
        "handler": step.handler,
        "attempts": step.attempts,
        "reason": why or (stopped and stopped.reason_code) or step.warning,
    }
    # A result that is too big to be shown here can be read with `result(job_id)`.
    return {**shown, "result_truncated": True} if step.size is not None and step.result is None else shown
