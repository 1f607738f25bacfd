"""The route that stores many jobs: JSON lines, each answered on its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from standfast.job import Receipt
from standfast.server.api import LARGEST_BODY, fitted, too_large
from standfast.server.auth import own_session
from standfast.server.openapi import LINES
from standfast.server.problems import Problem, of_error
from standfast.server.request_headers import header
from standfast.server.route import Answer, Call, Route
from standfast.server.targets import check_takes_work
from standfast.wings.access.words import Right
from standfast.wings.jobs.bulk_lines import NewJobLine, call_of
from standfast.wings.jobs.routes import CREATED, OK
from standfast.wings.jobs.shapes import BulkAnswer, LineAnswer

MOST_LINES = 10_000
TOGETHER = 200
"""Lines that are read together and stored in one transaction; in between, other requests get their turn."""
NEW = frozenset({"accepted", "spooled"})


async def enqueue_bulk(call: Call) -> Answer:
    """Store each line that can be stored. Jobs with a receipt are on disk when this is answered."""
    lines: list[bytes] = call.body.splitlines()
    if len(lines) > MOST_LINES:
        detail = f"the body has {len(lines)} lines, and one request takes {MOST_LINES}; nothing was written"
        raise Problem(413, "too-many-lines", detail, "Send them in several requests.")
    reach = _Reach(call)
    items: list[dict[str, Any]] = []
    for first in range(0, len(lines), TOGETHER):
        items += await _answers(call, reach, lines[first : first + TOGETHER], first + 1)
    if not items:
        raise Problem(422, "invalid-request", "the body has no lines", "Send a job as JSON on each line.")
    return _answer(call, items)


async def _answers(call: Call, reach: _Reach, lines: Sequence[bytes], first: int) -> list[dict[str, Any]]:
    """Store some lines together; an empty line is skipped."""
    read = [(number, await reach.read(line)) for number, line in enumerate(lines, start=first) if line.strip()]
    stored = iter(await call.sf.enqueue_each(each for _, each in read if isinstance(each, dict)))
    return [_told(number, next(stored) if isinstance(each, dict) else each) for number, each in read]


class _Reach:
    """Reads lines as jobs that the caller may enqueue. Each queue is checked once for a request."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._queues: dict[str, Problem | None] = {}

    async def read(self, line: bytes) -> dict[str, Any] | Problem:
        """Return the job that a line asks for, or why it is refused."""
        try:
            if len(line) > LARGEST_BODY:
                raise too_large()
            wanted: NewJobLine = fitted(line, NewJobLine, "line")
            await self._check(wanted.queue)
            session = own_session(self._call.grant, wanted.session)
        except Problem as problem:
            return problem
        return {**call_of(wanted), "requester": self._call.grant.person, "session": session}

    async def _check(self, queue: str) -> None:
        if queue not in self._queues:
            self._queues[queue] = await self._refusal(queue)
        refusal = self._queues[queue]
        if refusal is not None:
            raise refusal

    async def _refusal(self, queue: str) -> Problem | None:
        try:
            await check_takes_work(self._call, queue)
        except Problem as problem:
            return problem
        return None


def _told(number: int, answer: Any) -> dict[str, Any]:
    """Word the outcome of a line."""
    if isinstance(answer, Receipt):
        status = CREATED if answer.outcome in NEW else OK
        return {"line": number, "status": status, "receipt": answer._asdict(), "problem": None}
    problem = answer if isinstance(answer, Problem) else of_error(answer)
    return {"line": number, "status": problem.status, "receipt": None, "problem": problem.document}


def _answer(call: Call, items: list[dict[str, Any]]) -> Answer:
    if LINES in (header(call.request, b"accept") or ""):
        content = b"".join(msgspec.json.encode(item) + b"\n" for item in items)
        return Answer(None, whole=Response(content, headers={"Cache-Control": "no-store"}, media_type=LINES))
    outcomes = Counter(item["receipt"]["outcome"] if item["receipt"] else "refused" for item in items)
    return Answer({"outcomes": dict(outcomes), "items": items})


ROUTES = (
    Route(
        "POST",
        "/jobs:bulk",
        Right.ENQUEUE,
        enqueue_bulk,
        "Enqueue up to 10 000 jobs, one on each line",
        lines=NewJobLine,
        answer=BulkAnswer,
        answer_line=LineAnswer,
        headers=("traceparent",),
    ),
)
