"""Dead letters: look at what stopped, and put it back to work under policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from standfast.decide.operate import Refusal, replay
from standfast.decide.permit import permit
from standfast.errors import ConfigurationError, UnknownJob
from standfast.job import JobView
from standfast.lifecycle import LETTERS, Standing, State
from standfast.queue.view import Page, job_view, page
from standfast.rules import seconds
from standfast.store.reads import JobRow, LetterFilter
from standfast.store.store import Store

FILTERS = ("queue", "reason_code", "class", "landed", "replay_status", "fingerprint", "older_than")


class DeadLetters:
    """What stopped and needs somebody: `list`, `get`, `replay`. Looking consumes nothing."""

    def __init__(self, store: Store, ready: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._ready = ready

    async def list(self, filter: dict[str, Any] | None = None, *, limit: int = 50, cursor: int | None = None) -> Page:
        """List letters, newest first; the page's `next_cursor` leads to the older ones."""
        await self._ready()
        wanted = _letter_filter(filter or {}, self._store.now(), limit + 1, cursor)
        records = await self._store.letters(wanted)
        return page(records, limit, now=self._store.now(), skew=self._store.skew())

    async def get(self, id: str) -> JobView:
        """Give one letter, whole."""
        _, letter = await self._letter(id)
        return letter

    async def replay(self, id: str, *, by: str, reason: str | None = None) -> dict[str, Any]:
        """Put a letter back to work: same id, key and payload, in a new round. Concurrent requests replay it once."""
        row, _ = await self._letter(id)
        permission = permit()
        decided = replay(standing(row))
        if isinstance(decided, Refusal):
            raise UnknownJob(f"job {id} is no letter: {decided.why}")
        [landed] = await self._store.apply([decided])
        if not landed:
            raise UnknownJob(f"job {id} is no letter any more: somebody else was first")
        return {"outcome": "replayed", "rule": permission.rule, "why": reason or f"asked by {by}"}

    async def _letter(self, id: str) -> tuple[JobRow, JobView]:
        await self._ready()
        record = await self._store.job(id)
        if record is None:
            raise UnknownJob(f"no job has the id {id!r}: it never existed here, or it was pruned")
        if State(record.row.state) not in LETTERS:
            raise UnknownJob(f"job {id} is no letter: it is {record.row.state}")
        return record.row, job_view(record, now=self._store.now(), skew=self._store.skew())


def standing(row: JobRow) -> Standing:
    """Give where a job stands, for a decision about it."""
    return Standing(row.n, row.token, row.id, row.queue, State(row.state), row.thread_gate)


def _letter_filter(given: dict[str, Any], now: float, limit: int, cursor: int | None) -> LetterFilter:
    unknown = sorted(set(given) - set(FILTERS))
    if unknown:
        raise ConfigurationError(f"unknown filter {unknown[0]!r}; known are {', '.join(FILTERS)}")
    age = seconds(given.get("older_than"))
    return LetterFilter(
        queue=given.get("queue"),
        reason_code=given.get("reason_code"),
        failure_class=given.get("class"),
        landed=given.get("landed"),
        replay_status=given.get("replay_status"),
        fingerprint=given.get("fingerprint"),
        finished_before=None if age is None else now - age,
        limit=limit,
        before=cursor or LetterFilter().before,
    )
