"""A call that waits for consent: if the client can put a question to its user (elicitation), the user is asked.

Otherwise the reply says `held`, and a person answers in the dashboard, at the command line or over REST. An answer
given here counts for this one job only. A client of the protocol of 2026-07-28 gets the question as the call's result
and calls again with the answer; an older one is asked while its call waits.
"""

from __future__ import annotations

import json
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)

from standfast.errors import StandfastError
from standfast.mcp.agent import Agent, patience
from standfast.mcp.outside import refusal
from standfast.redact import redacted
from standfast.views import JobView
from standfast.wings.calls.replies import reply
from standfast.wings.consent.rules import awaits_consent

ASKS_IN_RESULTS = "2026-07-28"
"""The first protocol version in which a question is a call's result, and the call is repeated with the answer."""
QUESTION = "consent"
"""The name of this question among those of one call."""
LONGEST_SHOWN = 2000
NOT_HERE = frozenset({"high", "critical"})
"""Risks for which consent is never given through an agent's own connection: its client could answer by itself."""
SCHEMA = {
    "type": "object",
    "properties": {
        "allow": {
            "type": "boolean",
            "title": "Allow this once",
            "description": "Yes lets exactly this job run, with its repeats. No ends it.",
        }
    },
    "required": ["allow"],
}


class ConsentQuestions(Extension):
    """Asks the client's user when one of its calls waits for consent."""

    identifier = "standfast.dev/consent"

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Ask if a call turns out to wait for consent, and take the answer when the client calls again with it."""
        answer = (params.input_responses or {}).get(QUESTION)
        if params.request_state is not None and answer is not None:
            return await self._answered(params.request_state, answer, ctx)
        result = await call_next(ctx)
        job = await self._held_job(result) if self._agent.sf.settings.elicitation and _can_ask(ctx) else None
        if job is None:
            return result
        if _answers_later(ctx):
            return InputRequiredResult(
                input_requests={QUESTION: _question(self._agent, job)}, request_state=_shown(job)
            )
        asked = _question(self._agent, job).params
        said = await ctx.session.elicit_form(asked.message, SCHEMA, ctx.request_id)
        return await self._answered(_shown(job), said, ctx)

    async def _held_job(self, result: HandlerResult) -> JobView | None:
        """Find this connection's own job that a reply reports as held for consent."""
        said = result.structured_content if isinstance(result, CallToolResult) else None
        if not isinstance(said, dict) or said.get("reason_code") != "consent_required" or "operation_id" not in said:
            return None
        job = await self._agent.look(str(said["operation_id"]))
        if job is None or not self._agent.who.owns(job) or not awaits_consent(job):
            return None
        return None if job.risk in NOT_HERE else job

    async def _answered(self, shown: str, answer: object, ctx: ServerRequestContext[Any, Any]) -> CallToolResult:
        """Record the answer, and return the reply after it. Merely closing the question is no answer.

        The id and payload hash of the job shown come back sealed: a client cannot answer for another job.
        """
        job_id, payload_sha256 = shown.split()
        agent, mode = self._agent, _mode_of(answer)
        try:
            if mode is not None:
                said = {"by": f"the user of {_client(ctx)}", "reason": f"asked by MCP for session {agent.who.session}"}
                await agent.sf.consent.answer(job_id, mode=mode, payload_sha256=payload_sha256, **said)
        except StandfastError as error:
            return refusal(error)
        try:
            ended = await agent.sf.wait(job_id, patience()) if mode == "once" else await agent.find_job(job_id)
        except TimeoutError:
            ended = await agent.find_job(job_id)
        worded = reply(ended)
        return agent.answer(worded)


def _shown(job: JobView) -> str:
    return f"{job.id} {job.payload_sha256}"


def _mode_of(answer: object) -> Any:
    """Read an answer: `once`, `deny`, or None for no answer. An empty form is no answer."""
    if not isinstance(answer, ElicitResult) or answer.action == "cancel":
        return None
    if answer.action == "decline":
        return "deny"
    allowed = (answer.content or {}).get("allow")
    return ("once" if allowed else "deny") if isinstance(allowed, bool) else None


def _question(agent: Agent, job: JobView) -> ElicitRequest:
    """Describe what would be done: the handler, its effects and risk, for whom, and the payload without secrets."""
    known = agent.sf.consent.foreseen(job.queue, job.handler)
    effects = ", ".join(known["effects"]) or ("none declared" if known["known"] else "not known here")
    payload = json.dumps(redacted(job.payload), ensure_ascii=False)
    cut = payload if len(payload) <= LONGEST_SHOWN else f"{payload[:LONGEST_SHOWN]} … (cut)"
    lines = (
        f"Allow {known['handler']} to run once?",
        known["about"],
        f"Effects: {effects}. Risk: {job.risk or 'not stated'}. Session: {job.session or 'none'}.",
        f"Payload: {cut}",
    )
    message = "\n".join(line for line in lines if line)
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=SCHEMA))


def _can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client can ask a person, and can be sent a question now."""
    capabilities = ctx.session.client_capabilities
    elicits = None if capabilities is None else capabilities.elicitation
    if elicits is None or (elicits.form is None and elicits.url is not None):
        return False
    return _answers_later(ctx) or ctx.session.can_send_request


def _answers_later(ctx: ServerRequestContext[Any, Any]) -> bool:
    return ctx.session.protocol_version >= ASKS_IN_RESULTS


def _client(ctx: ServerRequestContext[Any, Any]) -> str:
    info = getattr(ctx.session.client_params, "client_info", None)
    return getattr(info, "name", None) or "an MCP client"
