"""MCP's Tasks extension, backed by the store: a task is a job, so a long call outlives its client and its server.

A task's id is its job's id. Nothing is kept here: every server on this store reads the same job.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolRequestParams, CallToolResult, EmptyResult, RequestParams, Result
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from standfast.lifecycle import LETTERS, State
from standfast.mcp.agent import PATIENCE, Agent, impatient
from standfast.mcp.outside import answer, reworded
from standfast.views import JobView
from standfast.wings.calls.replies import NOT_YOURS, reply

IDENTIFIER = "io.modelcontextprotocol/tasks"
QUICK = 2.0
"""Seconds that a call may take before its client gets a task instead of a result."""
POLL_EVERY = 1000
"""Milliseconds after which polling again makes sense."""
UNFINISHED = frozenset({"running", "queued"})
"""The reply statuses of a call that goes on by itself."""


class Task(Result):
    """A call, under way or ended, as `tasks/get` reports it."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    task_id: str
    status: Literal["working", "completed", "cancelled"]
    status_message: str
    created_at: datetime
    last_updated_at: datetime
    ttl_ms: int | None = None
    poll_interval_ms: int = POLL_EVERY
    result_type: str = "complete"
    result: dict[str, Any] | None = None


class TaskParams(RequestParams):
    """The parameters of every method here: the id of the task."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")
    task_id: str


class Tasks(Extension):
    """Turns a long call into a task, and answers for it later."""

    identifier = IDENTIFIER

    def __init__(self, agent: Agent, looks: Collection[str]) -> None:
        self._agent = agent
        self._looks = looks
        """The tools that call no handler; any other name is a handler's tool, or unknown."""

    def methods(self) -> Sequence[MethodBinding]:
        """Return the methods for following a task."""
        bound = {"tasks/get": self._get, "tasks/update": self._update, "tasks/cancel": self._cancel}
        return [MethodBinding(method, TaskParams, handler) for method, handler in bound.items()]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Answer a long call with a task if the client knows tasks; all others wait for the reply."""
        calls = params.name == "run" or params.name not in self._looks
        takes_long = calls and _knows_tasks(ctx)
        with impatient(QUICK if takes_long else PATIENCE):
            answered = await call_next(ctx)
        if not isinstance(answered, CallToolResult):
            return answered
        answered = reworded(answered)
        said = answered.structured_content
        if said is None or "operation_id" not in said:
            return answered
        if calls and await _went_away(ctx):
            await self._agent.keep_reply(said["operation_id"])
        if not takes_long or said["status"] not in UNFINISHED or said.get("reason_code") == NOT_YOURS:
            return answered
        job = await self._agent.look(said["operation_id"])
        return answered if job is None else _task(job, self._agent.left_out, created=True)

    async def _get(self, _: ServerRequestContext[Any, Any], wanted: TaskParams) -> HandlerResult:
        return _task(await self._job(wanted), self._agent.left_out)

    async def _update(self, _: ServerRequestContext[Any, Any], wanted: TaskParams) -> HandlerResult:
        """Ignore answers to questions that were never asked: only a person can give what a job waits for."""
        await self._job(wanted)
        return EmptyResult(result_type="complete")

    async def _cancel(self, _: ServerRequestContext[Any, Any], wanted: TaskParams) -> HandlerResult:
        job = await self._job(wanted)
        if not self._agent.who.owns(job):
            raise MCPError(code=INVALID_PARAMS, message="the task is another session's; nothing was cancelled")
        if job.state not in LETTERS:  # a person decides about a letter, as its result says
            await self._agent.cancel(job)
        return EmptyResult(result_type="complete")

    async def _job(self, wanted: TaskParams) -> JobView:
        job = await self._agent.look(wanted.task_id)
        if job is None:
            raise MCPError(code=INVALID_PARAMS, message="there is no such task; it may have been pruned")
        return job


async def _went_away(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the caller hung up: over HTTP, a connection is one call."""
    return ctx.request is not None and await ctx.request.is_disconnected()


def _knows_tasks(ctx: ServerRequestContext[Any, Any]) -> bool:
    capabilities = ctx.session.client_capabilities
    return IDENTIFIER in ((capabilities and capabilities.extensions) or {})


def _task(job: JobView, without: frozenset[str], *, created: bool = False) -> Task:
    """Describe a job as a task. A job that stopped for a person is a result, too: the reply says so, and what to do."""
    worded = reply(job)
    settled = job.settled and not created
    cancelled = settled and job.state == State.CANCELLED
    answered = answer(worded, without=without)
    ended = answered.model_dump(by_alias=True, mode="json")
    return Task(
        task_id=job.id,
        status="cancelled" if cancelled else "completed" if settled else "working",
        status_message=worded["hint"],
        created_at=job.created_at,
        last_updated_at=job.finished_at or job.claimed_at or job.created_at,
        result_type="task" if created else "complete",
        result=ended if settled and not cancelled else None,
    )
