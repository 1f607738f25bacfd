"""Dead letters: look at what stopped, and put it back to work under policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from standfast.decide.operate import Refusal, replay
from standfast.decide.permit import permit
from standfast.errors import ConfigurationError, NotALetter, UnknownJob
from standfast.failure import Class, Landed
from standfast.job import JobView
from standfast.lifecycle import LETTERS, REPLAY_STATUSES, Standing, State
from standfast.queue.ids import id_of
from standfast.queue.view import Page, after, job_view, one_of, page, whole_page
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
        wanted = _letter_filter(filter or {}, self._store.now(), whole_page(limit), cursor)
        records = await self._store.letters(wanted)
        return page(records, limit, now=self._store.now(), skew=self._store.skew())

    async def get(self, id: str) -> JobView:
        """Give one letter, whole."""
        _, letter = await self._letter(id)
        return letter

    async def replay(self, id: str, *, by: str, reason: str | None = None) -> dict[str, Any]:
        """Put a letter back to work: same id, key and payload, in a new round. Concurrent requests replay it once."""
        row, letter = await self._letter(id)
        permission = permit()
        decided = replay(standing(row), attempt=row.attempts, landed=_landed(letter), by=by, reason=reason)
        if isinstance(decided, Refusal):
            raise NotALetter(f"job {id} is no letter: {decided.why}")
        [landed] = await self._store.apply([decided])
        if not landed:
            raise NotALetter(f"job {id} is no letter any more: somebody else was first")
        return {"outcome": "replayed", "rule": permission.rule, "why": reason or f"asked by {by}"}

    async def _letter(self, id: str) -> tuple[JobRow, JobView]:
        await self._ready()
        record = await self._store.job(id_of(id))
        if record is None:
            raise UnknownJob.named(id)
        if State(record.row.state) not in LETTERS:
            raise NotALetter(f"job {id} is no letter: it is {record.row.state}")
        return record.row, job_view(record, now=self._store.now(), skew=self._store.skew())


def _landed(letter: JobView) -> Landed:
    """Tell whether any attempt may have landed: what one left uncertain stays so, however the last one ended."""
    known = [line.landed for line in letter.history]
    if letter.failure is not None:
        known.append(letter.failure.landed)
    return Landed.MAYBE if Landed.MAYBE in known else Landed.NO


def standing(row: JobRow) -> Standing:
    """Give where a job stands, for a decision about it."""
    return Standing(row.n, row.token, row.id, row.queue, State(row.state), row.thread_gate)


def _letter_filter(given: dict[str, Any], now: float, limit: int, cursor: int | None) -> LetterFilter:
    unknown = sorted(set(given) - set(FILTERS))
    if unknown:
        raise ConfigurationError.unknown("filter", unknown[0], FILTERS)
    age = seconds(given.get("older_than"))
    return LetterFilter(
        queue=given.get("queue"),
        reason_code=given.get("reason_code"),
        failure_class=one_of("class", given.get("class"), Class),
        landed=one_of("landed", given.get("landed"), Landed),
        replay_status=one_of("replay_status", given.get("replay_status"), REPLAY_STATUSES),
        fingerprint=given.get("fingerprint"),
        finished_before=None if age is None else now - age,
        limit=limit,
        before=after(cursor) or LetterFilter().before,
    )
