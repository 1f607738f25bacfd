"""The effects of an attempt: look before a repeat, keep the ledger, and look afterwards if the end is in doubt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from standfast.concurrency.guarded import call_guarded
from standfast.errors import StoreUnavailable
from standfast.failure import Landed, classify
from standfast.job import Claim
from standfast.outcome import Failed, NotEntered, Outcome
from standfast.spine import payload
from standfast.spine.registry import Handler
from standfast.spine.run import Running
from standfast.store.store import Store
from standfast.wings.effects.declared import effects_of
from standfast.wings.effects.handler_job import Job, JobServices
from standfast.wings.effects.ledger import Ledger
from standfast.wings.effects.rules import (
    Scope,
    after_doubt,
    before_repeat,
    closes,
    in_doubt,
    resumes,
    scope,
    with_looks,
)
from standfast.wings.effects.verbs import Verifier, VerifyResult, keep
from standfast.wings.progress.verbs import ProgressReports
from standfast.wings.workflows.parents import fetch_result


class AttemptEffects:
    """Makes jobs with a ledger, and looks at their effects before and after their handlers."""

    def __init__(self, store: Store, verifier: Verifier) -> None:
        self._store = store
        self._verifier = verifier
        progress = ProgressReports(store)
        services = JobServices(self._ledger, partial(fetch_result, store), progress.report, progress.add_to_end)
        self.new_job = partial(Job, keeper=services)
        """Makes the job object that a handler gets."""

    def _ledger(self, claim: Claim, declared: Sequence[str] = ()) -> Ledger:
        return Ledger(self._store, claim, payload.encode_value, declared)

    async def enter(self, running: Running, handler: Handler, job: Job) -> Outcome | None:
        """Look before a repeat, and give the job its ledger; return the attempt's outcome if it must not run."""
        if not handler.has_effects:
            return None
        wanted = scope(running.claim)
        if wanted != "none":
            ended = await self._look_first(running, handler, job, wanted)
            if ended is not None:
                return ended
        declared: list[str] | Failed = call_guarded(lambda: _names(handler, job), _unknown_effects)
        if isinstance(declared, Failed):
            return declared
        job.keep(self._ledger(running.claim, declared))
        return None

    async def _look_first(self, running: Running, handler: Handler, job: Job, wanted: Scope) -> Outcome | None:
        """Look before a repeat, and store the findings; return the attempt's outcome if they decide it."""
        seen = await self._look(running, handler, job, wanted)
        if seen is None or running.cut is not None:
            return NotEntered(running.cut or "drain")
        resumed = resumes(handler.declaration.when_landed, running.claim.ledger)
        ended = before_repeat(seen.looks, complete=wanted == "all" and not resumed)
        return ended or await self._keep(running, seen)

    async def _keep(self, running: Running, seen: VerifyResult) -> NotEntered | None:
        """Store what a look found before the handler is entered, so that the handler finds it in its ledger."""
        claim = running.claim
        try:
            owned = await keep(self._store, claim, seen)
        except StoreUnavailable:
            return NotEntered("store_unavailable")
        progressed = claim.progressed or int(closes(claim.ledger, seen.looks))
        running.claim = replace(claim, ledger=with_looks(claim.ledger, seen.looks) or None, progressed=progressed)
        return None if owned and running.cut is None else NotEntered(running.cut or "lost")

    async def _look(self, running: Running, handler: Handler, job: Job, wanted: Scope) -> VerifyResult | None:
        """Look at the effects of a job; return None if that was cut off: then the answer is no longer needed."""
        running.looking = True
        try:
            return await self._verifier.look(handler, job, running.as_it_stands.ledger, wanted)
        except asyncio.CancelledError:
            return None
        finally:
            running.looking = False

    async def look_back(self, running: Running, handler: Handler, outcome: Outcome) -> Outcome:
        """Look whether an attempt did its work although its end does not say so; return the outcome that follows."""
        if not isinstance(running.job, Job) or not handler.has_effects or not in_doubt(outcome):
            return outcome
        claim = running.as_it_stands
        seen = await self._look(running, handler, running.job, "all")
        if seen is None:
            return outcome
        resumed = resumes(handler.declaration.when_landed, claim.ledger)
        ended = after_doubt(claim, outcome, seen.looks, resumed=resumed)
        if ended is outcome:  # nothing else carries the findings
            with suppress(StoreUnavailable):
                await keep(self._store, claim, seen)
        return ended


def leave(job: Job, failed: Failed) -> Failed:
    """Translate a handler's doubts about its own effects to the names of declared effects."""
    ledger = job.begun_ledger
    return failed if ledger is None else replace(failed, doubts=ledger.doubted_effects(failed.doubts))


def _names(handler: Handler, job: Job) -> list[str] | Failed:
    return [effect.name for effect in effects_of(handler, job)[0]]


def _unknown_effects(error: Exception) -> list[str] | Failed:
    """Return the outcome of a job whose effects could not be determined: its handler was not entered."""
    failed = classify.of_exception(error)
    message = f"its effects could not be found out: {failed.failure.summary}"
    return Failed(replace(failed.failure, landed=Landed.NO, message=message), said=True)
