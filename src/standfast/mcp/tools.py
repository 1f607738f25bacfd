"""The tools of the contract. Looking is free; what changes something is done as this connection, or proposed."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field, ValidationError

from standfast.application import Standfast
from standfast.errors import PolicyDenied, StandfastError
from standfast.lifecycle import FINAL, State
from standfast.mcp import shapes
from standfast.mcp.arguments import misfits
from standfast.mcp.identity import Identity
from standfast.mcp.outside import answer, refused
from standfast.server import visible as reached
from standfast.server.seen import left_out
from standfast.views import JobView
from standfast.wings.calls.replies import NOT_YOURS, reply, stands_still
from standfast.wings.calls.verbs import worded
from standfast.wings.tokens.words import Right

PATIENCE = 30.0
"""Seconds a call may keep its client waiting; clients give up after about a minute."""
MOST_LETTERS = 50

LOOKS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
ACTS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)
TIDIES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

STILL_THERE = "It is still {view} after {seconds:g} s and goes on without you. Call wait again, or look with status."
GOES_ON = "It is still being done after {seconds:g} s and goes on without you. Call wait with its operation_id."
FAILED = frozenset({"failed", "timeout"})
ANOTHERS = "It is another session's. Look with status; if it should be run again, propose_replay asks for that."
PROPOSED = {
    "replayed": "The policy allows it and it is queued again; it is not done yet. Call wait, or look with status.",
    "resolved": "Nothing was run: a check found that it had been done already.",
    "denied": "The policy denies a replay. Do not ask again; tell a person, with the rule.",
    "approval_required": "A person must approve it. The request is filed; do not ask again. It runs once approved.",
}
"""What an agent does next, by what became of its proposal."""
INBOX = "retry_exhausted and submit_failed want you to act, and stay until you ack them; the others are read now."
EMPTY = "Nothing is waiting for this session."
LETTERS = "To have one run again, use propose_replay with a reason; explain says why it stopped."

Capability = Annotated[str, Field(description="The capability to call, by its handler's name.")]
Params = Annotated[dict[str, Any] | None, Field(description="Its payload, a JSON object.")]
Key = Annotated[str | None, Field(description="A call with the same key is made once; asked again, you get its reply.")]
Id = Annotated[str, Field(description="The operation_id of a reply, or a job's id.", max_length=200)]


_patience: ContextVar[float] = ContextVar("patience", default=PATIENCE)


@contextmanager
def impatient(seconds: float) -> Iterator[None]:
    """Have a call of this context wait no longer than this for its end."""
    before = _patience.set(seconds)
    try:
        yield
    finally:
        _patience.reset(before)


class Tools:
    """The verbs an agent has, as one connection's."""

    def __init__(self, sf: Standfast, who: Identity) -> None:
        self._sf = sf
        self._who = who
        self.left_out = left_out(who.grant)
        self._answer = partial(answer, without=self.left_out)

    async def run(
        self,
        handler: Capability,
        params: Params = None,
        idempotency_key: Key = None,
    ) -> Annotated[CallToolResult, shapes.Reply]:
        """Call a capability now. It is recorded first; if it cannot be done now, the reply says what becomes of it."""
        call = await self._sf.begin(await self._meant(handler), params, idempotency_key=idempotency_key, **self._as)
        seconds = _patience.get()
        try:
            said = await call.reply_within(seconds)
        except asyncio.CancelledError:  # the client takes its question back, or is gone
            await asyncio.shield(self.keep_reply(call.id))
            raise
        if said is None:
            said = await self._unfinished(await self._found(call.id or ""), seconds)
        return self._answer(said, failed=said["status"] in FAILED)

    async def submit(
        self,
        handler: Capability,
        params: Params = None,
        idempotency_key: Key = None,
    ) -> Annotated[CallToolResult, shapes.Reply]:
        """Have a capability run later, once. Answers `queued` at once, which is not done: the inbox tells the end."""
        meant = await self._meant(handler)
        return self._answer(await self._sf.submit(meant, params, idempotency_key=idempotency_key, **self._as))

    async def status(self, id: Id) -> Annotated[CallToolResult, shapes.Looked]:
        """Look at a job: its state, attempts, failure, history, result. Looking changes nothing."""
        job = await self._found(id)
        without = left_out(self._who.grant, job)
        return self._answer({"job": job, "hint": reply(job)["hint"]}, without=without)

    async def wait(
        self,
        id: Id,
        timeout: Annotated[float, Field(description=f"Seconds, at most {PATIENCE:g}.", gt=0)] = PATIENCE,
    ) -> Annotated[CallToolResult, shapes.Reply]:
        """Wait until a job is settled. Capped: while it goes on, the hint says to call again."""
        seconds = min(timeout, PATIENCE)
        job = await self._found(id)
        try:
            return self._answer(reply(await self._sf.wait(job.id, seconds)))
        except TimeoutError:
            job = await self._found(id)
            still = None if stands_still(job) else STILL_THERE.format(view=job.view, seconds=seconds)
            return self._answer(reply(job, still))

    async def retry(self, id: Id) -> Annotated[CallToolResult, shapes.Reply]:
        """Run a job of this session again as soon as may be. The policy decides about one that failed for good."""
        job = await self._found(id)
        if job.session is not None and not self._who.owns(job):
            return self._answer({**reply(job, ANOTHERS), "reason_code": NOT_YOURS}, failed=True)
        self._who.check(Right.OPERATE, Right.ENQUEUE)
        return self._answer(await self._sf.retry(id, by=self._who.person, session=self._who.session))

    async def inbox(
        self, *, unread: Annotated[bool, Field(description="Only what was not read yet.")] = True
    ) -> Annotated[CallToolResult, shapes.Messages]:
        """Read what became of this session's work: retries that succeeded or gave up, submissions that ended."""
        messages = await self._sf.inbox.list(self._who.session, unread=unread)
        return self._answer({"messages": messages, "hint": INBOX if messages else EMPTY})

    async def ack(
        self, id: Annotated[str, Field(description="The message's id.")]
    ) -> Annotated[CallToolResult, shapes.Acknowledged]:
        """Say that a message of this session's inbox is dealt with."""
        await self._sf.inbox.ack(id, session=self._who.session)
        return self._answer({"id": id, "acknowledged": True})

    async def explain(self, id: Id) -> Annotated[CallToolResult, shapes.Explained]:
        """Say in one sentence, with evidence, why a job is where it is."""
        job = await self._found(id)
        return self._answer({"id": job.id, "explanation": await self._sf.explain(job.id)})

    async def health(self) -> Annotated[CallToolResult, shapes.Health]:
        """Judge the queue: what is wrong, how much waits, how many letters lie there."""
        self._who.check(Right.READ)
        grant = self._who.grant
        return self._answer(await (self._sf.health() if grant is None else reached.health(self._sf, grant)))

    async def list_dead_letters(
        self,
        queue: str | None = None,
        reason_code: str | None = None,
        fingerprint: Annotated[str | None, Field(description="Only letters of one cause.")] = None,
        limit: Annotated[int, Field(ge=1, le=MOST_LETTERS)] = 20,
        cursor: Annotated[int | None, Field(description="next_cursor of the page before.")] = None,
    ) -> Annotated[CallToolResult, shapes.Letters]:
        """List letters: jobs that stopped and need somebody, the newest first."""
        self._who.check(Right.READ)
        if queue is not None:
            self._who.check_queue(queue)
        given = {"queue": queue, "reason_code": reason_code, "fingerprint": fingerprint}
        wanted = {name: value for name, value in given.items() if value is not None}
        queues = None if self._who.grant is None else self._who.grant.queues
        page = await self._sf.dead_letters.list(wanted, limit=limit, cursor=cursor, queues=queues)
        letters = [letter for letter in page if self._who.sees(letter)]
        return self._answer({"items": letters, "next_cursor": page.next_cursor, "hint": LETTERS})

    async def propose_replay(
        self,
        id: Id,
        reason: Annotated[str, Field(description="Why it should run again; it is kept in the audit.", min_length=1)],
    ) -> Annotated[CallToolResult, shapes.Proposed]:
        """Propose that a letter runs again. The policy decides; where it wants a person, this files the request."""
        self._who.check(Right.OPERATE, Right.ENQUEUE)
        letter = await self._found(id)
        asked = {"by": self._who.person, "session": self._who.session}
        said = await self._sf.dead_letters.replay(letter.id, reason=reason, **asked)
        outcome = said["outcome"]
        return self._answer({"id": letter.id, **said, "hint": PROPOSED[outcome]}, failed=outcome == "denied")

    async def _unfinished(self, job: JobView, seconds: float) -> dict[str, Any]:
        """Word a call that has no end yet: it runs on, or it was not started, which explain knows the reason of."""
        if job.state == State.RUNNING and not stands_still(job):
            return reply(job, GOES_ON.format(seconds=seconds))
        return await worded(job, self._sf.explain)

    @property
    def _as(self) -> dict[str, Any]:
        """As whom a call is made."""
        return {"session": self._who.session, "requester": self._who.person}

    async def _meant(self, handler: str) -> str:
        """Find what a name means, and refuse what this connection may not call."""
        self._who.check(Right.ENQUEUE)
        grant = self._who.grant
        target = await self._sf.meant(handler, queues=None if grant is None else grant.queues)
        self._who.check_queue(target.queue)
        if grant is not None and not await reached.takes_work(self._sf, grant, target.queue):
            raise PolicyDenied(f"no process has published queue {target.queue}; nothing was done: correct the name")
        return f"{target.queue}/{target.handler}"

    async def keep_reply(self, id: str | None) -> None:
        """Have the end of a call be in the inbox, because nobody received its reply."""
        job = None if id is None else await self._sf.status(id)
        if job is not None and self._who.owns(job):
            await self._sf.inbox.keep_reply(job.id)

    async def look(self, id: str) -> JobView | None:
        """Look at a job, if it is there for this connection."""
        job = await self._sf.status(id)
        return job if job is not None and self._who.sees(job) else None

    async def cancel(self, id: str) -> bool:
        """End a job of this connection's own that is not wanted any more; False if it is another's."""
        job = await self._found(id)
        if self._who.owns(job) and job.state not in FINAL:
            await self._sf.cancel(job.id, by=self._who.person)
        return self._who.owns(job)

    async def _found(self, id: str) -> JobView:
        return self._who.seen(await self._sf.status(id), id)


class Offered(Tool):
    """A tool whose refusals are ours: the library's words about arguments are its own code's."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:  # noqa: FBT001, FBT002 - the library has it so
        """Run it, or say which argument does not fit."""
        try:
            return await super().run(arguments, context, convert_result)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            found = error.__cause__.errors(include_url=False)
            raise ToolError(misfits(self.name, self.parameters, found)) from error


def offered(tools: Tools) -> list[Tool]:
    """Give the tools, each with what a client may know of it beforehand."""
    known: dict[Callable[..., Awaitable[CallToolResult]], ToolAnnotations] = {
        tools.run: ACTS,
        tools.submit: ACTS,
        tools.status: LOOKS,
        tools.wait: LOOKS,
        tools.retry: ACTS,
        tools.inbox: TIDIES,
        tools.ack: TIDIES,
        tools.explain: LOOKS,
        tools.health: LOOKS,
        tools.list_dead_letters: LOOKS,
        tools.propose_replay: ACTS,
    }
    return [
        _strict(Offered.from_function(_answered(tool), annotations=annotations, structured_output=True))
        for tool, annotations in known.items()
    ]


def _strict(tool: Tool) -> Tool:
    """Have arguments refused that a tool does not take: a key under another name would be no key at all."""
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters["additionalProperties"] = False
    return tool


def _answered(tool: Callable[..., Awaitable[CallToolResult]]) -> Callable[..., Awaitable[CallToolResult]]:
    """Have what is refused answered as the tool's own error: an agent reads what is safe and what to do next."""

    @functools.wraps(tool)
    async def called(*args: Any, **kwargs: Any) -> CallToolResult:
        try:
            return await tool(*args, **kwargs)
        except StandfastError as error:
            return refused(error)

    called.__signature__ = inspect.signature(tool, eval_str=True)  # type: ignore[attr-defined]
    return called
