"""The inbox of a session: what became of its jobs when it was not looking, kept until it is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from standfast.errors import ConfigurationError, UnknownRequest
from standfast.failure import Failure, Landed
from standfast.failure.letter_advice import as_letter, in_quarantine
from standfast.spine.accept import checked_name
from standfast.spine.ids import JobId, id_of
from standfast.store.store import Store
from standfast.wings.records.view import moments
from standfast.wings.sessions import scripts as sessions
from standfast.wings.sessions.rules import End, word_message
from standfast.wings.sessions.scripts import Body, Message, ReadRequest, ReceivedReply
from standfast.wings.sessions.words import QUIET

MOST_LISTED = 1000

_body = msgspec.json.Decoder(Body).decode


class _HistoryLine(msgspec.Struct):
    landed: str | None = None


_line_landed = msgspec.json.Decoder(_HistoryLine).decode


class Inbox:
    """The messages of sessions: `list`, `ack`. A session never sees another session's messages."""

    def __init__(self, store: Store, ready: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._ready = ready

    async def list(self, session: str, unread: bool = True, *, limit: int = 100) -> list[dict[str, Any]]:  # noqa: FBT001, FBT002 - the contract has it so
        """List a session's messages, the newest first: unread ones, or all that are kept.

        Listing marks successes (`retry_success`, `submit_done`) as read; a message that needs action
        (`retry_exhausted`, `submit_failed`) stays unread until you acknowledge it with `ack`.
        """
        await self._ready()
        checked_name("session", session)
        found = await self._store.read(sessions.messages(session, _checked_limit(limit), unread=unread))
        seen = [each.id for each in found if each.read_at is None and each.kind in QUIET]
        if seen:
            await self._store.write(sessions.read, ReadRequest(seen, session))
        newest = {each.job: each.id for each in reversed(found)}
        return [self._display(each, outdated=newest[each.job] != each.id) for each in found]

    async def ack(self, id: str, *, session: str | None = None) -> None:
        """Acknowledge a message: it is read from now on. With `session`, only a message of that session."""
        await self._ready()
        if not isinstance(id, str):
            raise ConfigurationError(f"a message is named by its id, a text, not by {id!r}")
        if session is not None:
            checked_name("session", session)
        if not await self._store.write(sessions.read, ReadRequest([id], session)):
            raise UnknownRequest.for_id("message", id)

    async def keep_reply(self, job_id: JobId) -> None:
        """Keep the end of a call in its session's inbox: its caller went away before the reply."""
        await self._ready()
        await self._store.write(sessions.keep_replies, id_of(job_id))

    async def received(self, job_id: str, session: str) -> None:
        """Note that a caller has the reply to its call: its session needs no message about that end."""
        await self._store.write(sessions.receive_replies, ReceivedReply(job_id, session))

    async def overview(self, session: str, *, queues: Sequence[str] | None = None) -> dict[str, Any]:
        """Count a session's jobs by state, those that wait in a queue, and its unread messages."""
        await self._ready()
        checked_name("session", session)
        found = await self._store.read(sessions.states(session, queues))
        waiting = {
            "queued": found.jobs.get("queued", 0),
            "next_retry_at": moments(self._store.skew())(found.next_due),
        }
        return {"jobs": found.jobs, "retry_queue": waiting, "unread": found.unread}

    def _display(self, message: Message, *, outdated: bool) -> dict[str, Any]:
        body, moment = _body(message.body), moments(self._store.skew())
        text = word_message(_end(message, body))
        return {
            "id": message.id,
            "kind": message.kind,
            "job_id": message.job,
            "read": message.read_at is not None or outdated,
            "at": moment(message.at),
            "session": message.session,
            "queue": message.queue,
            "handler": message.handler,
            "state": body.state,
            "attempts": body.attempts,
            "message": text.message,
            "hint": text.hint,
            **_step(body),
            **_failed(_advised(body)),
            **_details(body),
            **({} if message.kind in QUIET else {"history": [_line(line, moment) for line in body.history]}),
        }


def _end(message: Message, body: Body) -> End:
    return End(
        kind=message.kind,
        state=body.state,
        target=f"{message.queue}/{message.handler}",
        step=None if body.step is None else f"step {body.step} of workflow {body.workflow or body.workflow_id}",
        attempts=body.attempts,
        failure=_advised(body),
        warning=body.warning,
        has_result=body.result is not None or body.long,
        carries_result=body.result is not None,
        by=body.by,
        reason=body.reason,
        answer=body.answer,
        quarantined=body.quarantined,
        owner=body.owner,
        maybe=body.maybe,
    )


def _advised(body: Body) -> Failure | None:
    """Return a letter's failure with fitting advice, and as possibly done if any attempt may have done it."""
    if body.failure is None:
        return None
    maybe = any(_line_landed(line).landed == Landed.MAYBE for line in body.history)
    failure = as_letter(body.failure, maybe=maybe)
    if body.quarantined:
        failure = msgspec.structs.replace(failure, advice=f"{in_quarantine(body.owner)} {failure.advice}".rstrip())
    return msgspec.structs.replace(failure, landed=Landed.MAYBE) if maybe else failure


def _step(body: Body) -> dict[str, Any]:
    """Return the workflow and the step that a message is about."""
    if body.step is None:
        return {}
    return {"workflow": body.workflow, "workflow_id": body.workflow_id, "step": body.step}


def _failed(failure: Failure | None) -> dict[str, Any]:
    if failure is None:
        return {}
    failed = msgspec.to_builtins(failure)
    names = ("reason_code", "class", "landed", "error_kind", "advice")
    return {name: failed[name] for name in names if failed[name]} | (
        {"error": failure.message} if failure.message else {}
    )


def _details(body: Body) -> dict[str, Any]:
    given = {"warning": body.warning, "by": body.by, "reason": body.reason, "answer": body.answer}
    result = {} if body.result is None else {"result": msgspec.json.decode(body.result)}
    return {name: value for name, value in given.items() if value is not None} | result


def _line(line: msgspec.Raw, moment: Callable[[float | None], Any]) -> dict[str, Any]:
    entry = msgspec.json.decode(line)
    return {**{name: value for name, value in entry.items() if value is not None}, "at": moment(entry["at"])}


def _checked_limit(limit: int) -> int:
    if type(limit) is not int or not 1 <= limit <= MOST_LISTED:
        raise ConfigurationError(f"limit must be from 1 to {MOST_LISTED}, not {limit!r}")
    return limit
