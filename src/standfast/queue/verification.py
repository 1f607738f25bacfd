"""Look at the effects of a job, here and now: every check at once, each within its own time.

The worker asks before a repeat, letters before they are replayed or resolved, and a call that failed before it is
queued. What a check raises, or that it hangs, says nothing about the world: it is never taken for success.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

import msgspec

from standfast.decide.verdict import LONGEST_NOTE, Scope, combine, of_answer, of_ledger
from standfast.failure import Verdict
from standfast.handlers.beside import staying
from standfast.handlers.effects import Effect, Trace
from standfast.handlers.http import Sender
from standfast.handlers.job import Job, enter_session
from standfast.handlers.ledger import key_of
from standfast.handlers.parents import Fetch
from standfast.handlers.registry import Handler
from standfast.handlers.templates import Untold
from standfast.job import ASKED, Claim, Details, Entry, Parent
from standfast.outcome import ALL, Look
from standfast.printable import printable
from standfast.rules import QueueRules, ReplayMode
from standfast.store.reads import JobRecord

NOTHING_DECLARED = Look(ALL, Verdict.INDETERMINATE, "nothing is declared that could be looked at")


class Seen(msgspec.Struct, frozen=True):
    """What was seen of a job's effects: each of them, and all together."""

    verdict: Verdict
    looks: tuple[Look, ...]

    @property
    def found(self) -> list[str]:
        """The effects that are there."""
        return [look.name for look in self.looks if look.verdict == Verdict.VERIFIED]


class Verifier:
    """Looks at effects. HTTP checks go through the same guarded connections as HTTP jobs."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def look(self, handler: Handler, job: Job, entries: Iterable[Entry] | None, scope: Scope = "all") -> Seen:
        """Look at all effects of a job, or at those that were begun and are not known to be done."""
        known = {entry.name: entry for entry in entries or ()}
        [found] = await asyncio.gather(staying(_resolved(handler, job)), return_exceptions=True)
        if isinstance(found, BaseException):
            return _seen([Look(ALL, Verdict.INDETERMINATE, _words(found))])
        effects, judged = found
        mode = handler.declaration.replay_mode
        wanted = [effect for effect in effects if scope == "all" or _is_open(known.get(effect.name))]
        looks = await asyncio.gather(*(self._one(each, judged, known.get(each.name), mode) for each in wanted))
        return _seen(looks if looks or scope == "open" else [NOTHING_DECLARED])

    async def _one(self, effect: Effect, job: Job, entry: Entry | None, mode: ReplayMode) -> Look:
        """Look at one effect; a receipt is evidence enough."""
        if not effect.verifiable or (entry is not None and entry.state == "done"):
            return of_ledger(effect.name, entry, mode)
        kept = None if entry is None or entry.receipt is None else msgspec.json.decode(entry.receipt)
        asked = entry is not None and entry.verdict == ASKED
        trace = Trace(effect.name, key_of(job.identity, effect.name), _is_open(entry), kept, asked)
        looking = asyncio.ensure_future(_in_session(job, effect.look(job, trace, self._sender)))
        try:
            await asyncio.wait([looking], timeout=effect.timeout)
            return _answered(effect, looking)
        finally:
            looking.cancel()


async def _resolved(handler: Handler, job: Job) -> tuple[tuple[Effect, ...], Job]:
    enter_session(job.session)
    return handler.effects_of(job)


async def _in_session(job: Job, look: Awaitable[Any]) -> Any:
    """Look for the session that the job is done for, whoever asks: the task of a look has a context of its own."""
    enter_session(job.session)
    return await staying(look)


def _answered(effect: Effect, looking: asyncio.Future[Any]) -> Look:
    if not looking.done():
        return Look(effect.name, Verdict.INDETERMINATE, f"its check took longer than {effect.timeout:g} s")
    if looking.cancelled():
        return Look(effect.name, Verdict.INDETERMINATE, "its check was cancelled")
    error = looking.exception()
    if error is not None:
        return Look(effect.name, Verdict.INDETERMINATE, _words(error))
    return Look(effect.name, *of_answer(looking.result()))


def _seen(looks: list[Look]) -> Seen:
    return Seen(combine(look.verdict for look in looks), tuple(looks))


def _is_open(entry: Entry | None) -> bool:
    return entry is not None and entry.state == "begun"


def _words(error: BaseException) -> str:
    kind = "" if isinstance(error, Untold) else f"{type(error).__name__}: "
    return printable(f"{kind}{error}"[:LONGEST_NOTE])


def job_of(
    record: JobRecord,
    handler: Handler,
    rules: QueueRules,
    parents: dict[str, Parent] | None = None,
    fetch: Fetch | None = None,
) -> Job:
    """Give a stored job as checks see it, without anybody running it."""
    row = record.row
    details = msgspec.json.decode(row.details, type=Details)
    claim = Claim(
        n=row.n,
        token=row.token,
        id=row.id,
        queue=row.queue,
        handler=row.handler,
        worker="",
        payload=row.payload,
        attempts=row.attempts,
        max_attempts=row.max_attempts or 0,
        round_start=row.round_start,
        lease=0.0,
        timeout=None,
        replay_mode=handler.declaration.replay_mode,
        claimed_at=0.0,
        entered_at=row.entered_at,
        expires_at=row.expires_at,
        idempotency_key=row.idempotency_key,
        details=details,
        ledger=list(record.effects),
        parents=parents,
    )
    return Job(claim, rules, handler.read(row.payload, collected=details.collected), fetch=fetch)
