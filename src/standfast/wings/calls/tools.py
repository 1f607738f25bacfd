"""Tools that call a handler: run, submit."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal, NotRequired

from mcp.types import CallToolResult
from pydantic import Field
from typing_extensions import TypedDict

from standfast.lifecycle import State
from standfast.mcp.agent import Agent, patience
from standfast.mcp.tool import ACTS, AgentTool
from standfast.views import JobView
from standfast.wings.calls.replies import is_stalled, reply
from standfast.wings.calls.verbs import reply_of

GOES_ON = "It is still being done after {seconds:g} s and goes on without you. Call wait with its operation_id."

FAILED = frozenset({"failed", "timeout"})

Capability = Annotated[str, Field(description="The capability to call, by its handler's name.")]

Params = Annotated[dict[str, Any] | None, Field(description="Its payload, a JSON object.")]

Key = Annotated[str | None, Field(description="A call with the same key is made once; asked again, you get its reply.")]


class Reply(TypedDict):
    """What became of a call. `hint` says the next right action; `queued` is not done."""

    operation_id: str
    status: Literal["ok", "running", "queued", "failed", "timeout", "held", "cancelled"]
    hint: str
    result: NotRequired[Any]
    error: NotRequired[str]
    error_kind: NotRequired[str]
    reason_code: NotRequired[str]
    queued_for_retry: NotRequired[bool]
    queue_reason: NotRequired[str]
    retry_at: NotRequired[str | None]
    post_write_recovery: NotRequired[bool]
    warning: NotRequired[str]
    effects_verified: NotRequired[list[str]]
    registry_auto_recovered: NotRequired[bool]
    approval: NotRequired[str]
    probe: NotRequired[str]


async def run(
    agent: Agent,
    handler: Capability,
    params: Params = None,
    idempotency_key: Key = None,
) -> Annotated[CallToolResult, Reply]:
    """Call a capability now. It is recorded first; if it cannot be done now, the reply says what becomes of it."""
    call = await agent.sf.begin(
        await agent.handler_named(handler), params, idempotency_key=idempotency_key, **agent.as_caller
    )
    seconds = patience()
    try:
        answer = await call.reply_within(seconds)
    except asyncio.CancelledError:  # the client takes its question back, or is gone
        await asyncio.shield(agent.keep_reply(call.id))
        raise
    if answer is None:
        answer = await _unfinished(agent, await agent.find_job(call.id or ""), seconds)
    return agent.answer(answer, failed=answer["status"] in FAILED)


async def _unfinished(agent: Agent, job: JobView, seconds: float) -> dict[str, Any]:
    """Word a call that has no end yet: it runs on, or it was not started, which explain knows the reason of."""
    if job.state == State.RUNNING and not is_stalled(job):
        return reply(job, GOES_ON.format(seconds=seconds))
    return await reply_of(job, agent.sf.explain)


async def submit(
    agent: Agent,
    handler: Capability,
    params: Params = None,
    idempotency_key: Key = None,
) -> Annotated[CallToolResult, Reply]:
    """Have a capability run later, once. Answers `queued` at once, which is not done: the inbox tells the end."""
    resolved = await agent.handler_named(handler)
    return agent.answer(await agent.sf.submit(resolved, params, idempotency_key=idempotency_key, **agent.as_caller))


TOOLS = (AgentTool(run, ACTS), AgentTool(submit, ACTS))
