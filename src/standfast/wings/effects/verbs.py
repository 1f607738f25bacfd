"""Looks at the effects of a job now: all checks at once, each within its own time.

The worker looks before a repeat, letters before they are replayed or resolved, and a failed call before it is queued.
A check that raises or hangs says nothing about the world: it never counts as success.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from standfast.concurrency.user_code import in_own_task
from standfast.errors import PayloadRejected
from standfast.failure import Class, Verdict, classify
from standfast.job import ASKED, UNKEPT, Claim, Details, LedgerEntry, Parent
from standfast.outcome import ALL, Found, Look
from standfast.printable import printable
from standfast.rules import QueueRules, ReplayMode
from standfast.spine import payload
from standfast.spine.claimed_job import SESSION
from standfast.spine.registry import Handler
from standfast.store.store import Store
from standfast.wings.effects.block import key_of
from standfast.wings.effects.declared import effects_of
from standfast.wings.effects.handler_job import Job, JobServices
from standfast.wings.effects.rules import LONGEST_NOTE, Scope, combine, of_answer, of_ledger, sightings
from standfast.wings.effects.scripts import LookResults, keep_looks
from standfast.wings.effects.templates import CannotTell
from standfast.wings.effects.words import Effect, EffectToVerify
from standfast.wings.http.sender import Sender
from standfast.wings.records.reads import JobRecord
from standfast.wings.workflows.parents import Fetch

SEVERAL = "it was called with several arguments, which its verify cannot tell apart; give each its own effect"
NOTHING_DECLARED = Look(ALL, Verdict.INDETERMINATE, "no effect is declared that could be checked")


class VerifyResult(msgspec.Struct, frozen=True):
    """The findings about a job's effects: each of them, and all together."""

    verdict: Verdict
    looks: tuple[Look, ...]


class Verifier:
    """Looks at effects. HTTP checks go through the same guarded connections as HTTP jobs."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def look(
        self, handler: Handler, job: Job, entries: Iterable[LedgerEntry] | None, scope: Scope = "all"
    ) -> VerifyResult:
        """Look at all effects of a job, or at those that were begun and are not known to be done."""
        known: defaultdict[str, list[LedgerEntry]] = defaultdict(list)
        for entry in entries or ():
            known[entry.label].append(entry)
        found: tuple[tuple[Effect, ...], Job] | BaseException
        [found] = await asyncio.gather(in_own_task(_resolved(handler, job)), return_exceptions=True)
        if isinstance(found, BaseException):
            return _combined([_failed(Look(ALL, Verdict.INDETERMINATE), found)])
        effects, judged = found
        mode = handler.declaration.replay_mode
        wanted = [effect for effect in effects if scope == "all" or any(map(_is_open, known[effect.name]))]
        looks = await asyncio.gather(*(self._all(each, judged, known[each.name], mode) for each in wanted))
        several = [look for each in looks for look in each]
        return _combined(several if several or scope == "open" else [NOTHING_DECLARED])

    async def _all(self, effect: Effect, job: Job, entries: Sequence[LedgerEntry], mode: ReplayMode) -> list[Look]:
        """Look at an effect. One called with several arguments has several entries, which no check can tell apart."""
        if len(entries) > 1:
            return [of_ledger(effect.name, entry, mode, SEVERAL) for entry in entries]
        return [await self._one(effect, job, entries[0] if entries else None, mode)]

    async def _one(self, effect: Effect, job: Job, entry: LedgerEntry | None, mode: ReplayMode) -> Look:
        """Look at one effect; a receipt is evidence enough."""
        done = entry is not None and entry.state == "done"
        if not effect.verifiable or (entry is not None and done and entry.verdict != UNKEPT):
            return of_ledger(effect.name, entry, mode)
        look = await self._look_at(effect, job, entry)
        # An effect that is done but has no receipt stays so, unless the look finds one.
        return of_ledger(effect.name, entry, mode) if done and look.receipt is None else look

    async def _look_at(self, effect: Effect, job: Job, entry: LedgerEntry | None) -> Look:
        kept = None if entry is None or entry.receipt is None else msgspec.json.decode(entry.receipt)
        called = entry is not None and entry.verdict == ASKED
        wanted = EffectToVerify(effect.name, key_of(job.identity, effect.name), _is_open(entry), kept, called)
        looking = asyncio.ensure_future(_in_session(job, effect.look(job, wanted, self._sender)))
        try:
            await asyncio.wait([looking], timeout=effect.timeout)
            return replace(_ask(effect, looking), key="" if entry is None else entry.name)
        finally:
            looking.cancel()


async def keep(store: Store, claim: Claim, seen: VerifyResult) -> bool:
    """Store what a look found before its attempt goes on; return False if another attempt has the job by now."""
    looked = LookResults(
        claim.n, claim.token, claim.id, claim.attempts, sightings(seen.looks), bool(claim.failed_looks)
    )
    return await store.write(keep_looks, looked)


async def _resolved(handler: Handler, job: Job) -> tuple[tuple[Effect, ...], Job]:
    SESSION.set(job.session)
    return effects_of(handler, job)


async def _in_session(job: Job, look: Awaitable[Any]) -> Any:
    """Look in the session that the job belongs to: the task of a look has a context of its own."""
    SESSION.set(job.session)
    return await in_own_task(look)


def _ask(effect: Effect, looking: asyncio.Future[Any]) -> Look:
    if not looking.done():
        return Look(effect.name, Verdict.INDETERMINATE, f"its check took longer than {effect.timeout:g} s")
    if looking.cancelled():
        return Look(effect.name, Verdict.INDETERMINATE, "its check was cancelled")
    error = looking.exception()
    if error is not None:
        return _failed(Look(effect.name, Verdict.INDETERMINATE), error)
    answer = looking.result()
    return _with_receipt(effect, answer) if isinstance(answer, Found) else Look(effect.name, *of_answer(answer))


def _with_receipt(effect: Effect, found: Found) -> Look:
    """Take what a check found as the receipt; if it cannot be kept, the look is indeterminate."""
    if found.receipt is None:
        return Look(effect.name, Verdict.VERIFIED)
    try:
        return Look(effect.name, Verdict.VERIFIED, receipt=payload.encode_value(found.receipt))
    except PayloadRejected as error:
        return Look(effect.name, Verdict.INDETERMINATE, f"what it found cannot be stored: {error}"[:LONGEST_NOTE])


def _failed(look: Look, error: BaseException) -> Look:
    """Note why a check could not tell. Its error is classified like a handler's: it may be able to tell later."""
    failed = classify.of_exception(error)
    again = failed.failure.cls == Class.TRANSIENT
    return replace(look, note=_words(error), again=again, retry_after=failed.retry_after if again else None)


def _combined(looks: list[Look]) -> VerifyResult:
    return VerifyResult(combine(look.verdict for look in looks), tuple(looks))


def _is_open(entry: LedgerEntry | None) -> bool:
    return entry is not None and entry.state == "begun"


def _words(error: BaseException) -> str:
    kind = "" if isinstance(error, CannotTell) else f"{type(error).__name__}: "
    return printable(f"{kind}{error}"[:LONGEST_NOTE])


def job_of(
    record: JobRecord,
    handler: Handler,
    rules: QueueRules,
    parents: dict[str, Parent] | None = None,
    fetch: Fetch | None = None,
) -> Job:
    """Return a stored job as checks see it, without running it."""
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
    return Job(claim, rules, handler.read(row.payload, collected=details.collected), JobServices(fetch=fetch))
