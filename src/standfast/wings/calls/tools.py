"""Tools that call a handler: run, submit, and the one that each published handler has of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.types import CallToolResult

from standfast.lifecycle import State
from standfast.mcp.agent import Agent, patience
from standfast.mcp.progress_notifications import told_progress
from standfast.mcp.tool import ACTS, AgentTool
from standfast.views import JobView
from standfast.wings.access.words import Right
from standfast.wings.calls.replies import is_stalled, reply
from standfast.wings.calls.verbs import reply_of

GOES_ON = "It is still being done after {seconds:g} s and goes on without you. Call wait with its operation_id."

Params = dict[str, Any] | None


async def run(agent: Agent, handler: str, params: Params = None, idempotency_key: str | None = None) -> CallToolResult:
    """Call a handler now, by name."""
    return await call_handler(agent, await _checked(agent, handler, params), params, idempotency_key)


async def call_handler(agent: Agent, target: str, params: Any, key: str | None) -> CallToolResult:
    """Call a handler and answer with its Reply.

    Every call of a handler that an agent waits for is answered here. So this is where a client that can ask its user
    is to be asked for the consent or the approval that a `held` reply waits for.
    """
    beginning = asyncio.ensure_future(agent.sf.begin(target, params, idempotency_key=key, **agent.as_caller))
    seconds = patience()
    try:
        call = await asyncio.shield(beginning)  # it is stored and started even if the client is gone by then
        async with told_progress(call.id, agent.look):
            answer = await call.reply_within(seconds)
    except asyncio.CancelledError:  # the client cancels its request, or is gone
        agent.keep_reply_of(beginning)
        raise
    if answer is None:
        answer = await _unfinished(agent, await agent.find_job(call.id or ""), seconds)
    return agent.answer(answer)


async def _unfinished(agent: Agent, job: JobView, seconds: float) -> dict[str, Any]:
    """Word a call without an end yet: it still runs, or it was not started, and explain knows why."""
    if job.state == State.RUNNING and not is_stalled(job):
        await agent.keep_reply(job.id)  # the client may not live to ask: its session gets the end
        return reply(job, GOES_ON.format(seconds=seconds))
    return await reply_of(job, agent.sf.explain)


async def _checked(agent: Agent, handler: str, params: Params) -> str:
    """Find the handler that a name means, and refuse fields that it does not have, as its own tool does."""
    target = await agent.handler_named(handler)
    for tool in (await agent.handler_tools()).values():
        if tool.target == target:
            tool.check_payload(params)
    return target


async def submit(
    agent: Agent, handler: str, params: Params = None, idempotency_key: str | None = None
) -> CallToolResult:
    """Call a handler later, once."""
    resolved = await _checked(agent, handler, params)
    return agent.answer(await agent.sf.submit(resolved, params, idempotency_key=idempotency_key, **agent.as_caller))


TOOLS = (AgentTool(run, ACTS, (Right.ENQUEUE,)), AgentTool(submit, ACTS, (Right.ENQUEUE,)))
