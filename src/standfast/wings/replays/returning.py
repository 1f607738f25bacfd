"""How a letter goes back to work: the same for a person, an approval and a redrive."""

from __future__ import annotations

from functools import partial

import msgspec

from standfast.errors import ConfigurationError, NotALetter, NotVerified, PayloadRejected
from standfast.failure import Landed, Verdict
from standfast.job import Details, label_of
from standfast.lifecycle import AskedBy, JobRef, Move, State, Transition
from standfast.spine.registry import Handler, Registry
from standfast.store.store import Store
from standfast.views import JobView
from standfast.wings.audit.words import Decision, Kind
from standfast.wings.effects.declared import effect_names
from standfast.wings.effects.findings import findings_of
from standfast.wings.effects.outcomes import RECOVERED
from standfast.wings.effects.rules import result_of, resumes, sightings, summary, undetermined_checks
from standfast.wings.effects.scripts import LookResults, keep_looks_at_letters
from standfast.wings.effects.verbs import Verifier, VerifyResult, job_of
from standfast.wings.http.sender import Sender
from standfast.wings.policy.rules import DecidedUnder
from standfast.wings.policy.rulings import Ruling, may_have_landed
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.records.reads import JobRecord, JobRow
from standfast.wings.replays.rules import Refusal, replay, resolve
from standfast.wings.workflows import scripts as workflows
from standfast.wings.workflows.parents import fetch_result

LOOKS_AT_ONCE = 20
"""How many letters' effects are checked at the same time."""


class Returning:
    """Decides what happens to letters: resolved if their effects are there, else replayed."""

    def __init__(self, store: Store, registry: Registry | None = None, verifier: Verifier | None = None) -> None:
        self._store = store
        self._registry = registry or Registry()
        self._verifier = verifier or Verifier(Sender())

    async def way_back(
        self,
        record: JobRecord,
        letter: JobView,
        *,
        by: str,
        reason: str | None,
        kind: Kind = "replay",
    ) -> Transition:
        """Decide what happens to a letter: resolved if every effect is there, else replayed, once it was `ruled`.

        A handler that resumes behind its effects is replayed all the same: the code after them has not run.
        """
        landed = may_have_landed(letter)
        # A job that never entered its handler cannot have caused an effect that is there.
        entered = record.row.attempts or landed == Landed.MAYBE
        found = await self.looked(record) if entered else None
        is_there = found is not None and found.verdict == Verdict.VERIFIED
        if is_there and not self._resumes(record):
            return resolution(record, letter, found, by=by, reason=reason)
        decided = replay(
            standing(record.row),
            attempt=record.row.attempts,
            landed=Landed.NO if is_there else landed,
            by=by,
            reason=reason,
            looks=() if found is None else sightings(found.looks),
        )
        decision = Decision(kind=kind, payload_sha256=letter.payload_sha256, outcome="replayed")
        return _chained(decided, decision, letter.id)

    def known_landed(self, record: JobRecord) -> bool:
        """Return whether a letter needs nothing more, by the ledger: every declared effect has its receipt.

        No check is called. A letter whose handler resumes needs to run.
        """
        row = record.row
        handler: Handler | None = self._registry.find(row.queue, row.handler)
        done = {entry.label for entry in record.effects if entry.state == "done"}
        names = () if handler is None else effect_names(handler)
        is_there = bool(names) and done >= set(names)
        return is_there and not self._resumes(record)

    def _resumes(self, record: JobRecord) -> bool:
        handler: Handler | None = self._registry.find(record.row.queue, record.row.handler)
        return handler is not None and resumes(handler.declaration.when_landed, record.effects)

    async def verified(self, record: JobRecord) -> VerifyResult:
        """Check the effects of a letter; raise unless all of them are there."""
        row = record.row
        word = "if nothing more needs to be done, resolve it with result= (--result JSON), and nothing is checked"
        if self._registry.find(row.queue, row.handler) is None:
            raise ConfigurationError(
                f"handler {row.handler!r} of queue {row.queue!r} is not registered in this process, so its effects "
                f"cannot be checked; resolve it where it is registered (standfast dead resolve app:sf {row.id}), or "
                f"{word}"
            )
        found = await self.looked(record)
        if found is None:
            raise NotVerified(f"handler {row.handler!r} declares no effects to check; {word}")
        if found.verdict != Verdict.VERIFIED:
            seen = LookResults(row.n, row.token, row.id, row.attempts, sightings(found.looks))
            await self._store.write(keep_looks_at_letters, seen)
        match found.verdict:
            case Verdict.VERIFIED:
                return found
            case Verdict.INDETERMINATE:
                raise NotVerified(f"{undetermined_checks(found.looks)}; job {row.id} stays {row.state}; {word}")
            case _:
                raise NotVerified(
                    f"not all effects exist ({summary(found.looks)}); job {row.id} stays {row.state}; replay it, and "
                    f"only what is missing runs; or, {word}"
                )

    async def looked(self, record: JobRecord) -> VerifyResult | None:
        """Check the effects of a letter, if its handler is here, declares some, and can read the payload."""
        row = record.row
        handler: Handler | None = self._registry.find(row.queue, row.handler)
        if handler is None or not handler.has_effects:
            return None
        try:
            parents = None if row.workflow is None else await self._store.read(workflows.parents_of(row.n))
            rules = await self._store.read(queue_scripts.rules(row.queue))
            job = job_of(record, handler, rules, parents, partial(fetch_result, self._store))
        except PayloadRejected:
            return None
        return await self._verifier.look(handler, job, record.effects)


def ruled(decided: Transition, letter: JobView, ruling: Ruling) -> Transition:
    """Chain a replay with the policy's ruling on it, and let it be written only while that policy is in force."""
    decision = decided.rider(Decision)
    if decision is None or decided.move != Move.REPLAY:
        return decided
    said = {"rule": ruling.permission.rule, "snapshot": ruling.snapshot}
    decision = msgspec.structs.replace(decision, detail=died_under(letter, ruling.snapshot) or None, **said)
    under = [DecidedUnder(ruling.snapshot)] if ruling.stored and ruling.snapshot is not None else []
    return decided.without(DecidedUnder).carrying(decision, *under)


def died_under(letter: JobView, snapshot: str | None) -> dict[str, str]:
    """Name the policy that was in force when the letter died, if it was another one."""
    before = letter.policy_snapshot
    return {} if before is None or snapshot is None or before == snapshot else {"died_under": before}


def told(decided: Transition, by: str) -> dict[str, str]:
    """Say what happened to a letter, and why."""
    sighted = findings_of(decided).looks
    looks = ", ".join(f"{label_of(look.key)} {look.verdict}" for look in sighted)
    if decided.move == Move.RESOLVE:
        return {"outcome": "resolved", "why": f"it had landed: {looks or 'its receipts say so'}"}
    asked = decided.rider(AskedBy)
    why = (asked and asked.reason) or f"asked by {by}"
    if sighted and all(look.verdict == Verdict.VERIFIED for look in sighted):
        why = f"{why}; it had landed ({looks}), and is resumed behind that"
    return {"outcome": "replayed", "why": why}


def resolution(
    record: JobRecord,
    letter: JobView,
    found: VerifyResult | None,
    *,
    by: str,
    reason: str | None,
    result: str | None = None,
) -> Transition:
    """End a letter because its effects were found, or because a person says so."""
    decided = resolve(
        standing(record.row),
        by=by,
        reason=reason,
        triage=letter.triage,
        attempt=record.row.attempts,
        result=result if found is None else result_of(found.looks),
        warning=None if found is None else RECOVERED,
        looks=() if found is None else sightings(found.looks),
    )
    outcome = "said" if found is None else "verified"
    decision = Decision(kind="resolve", payload_sha256=letter.payload_sha256, outcome=outcome)
    return _chained(decided, decision, letter.id)


def _chained(decided: Transition | Refusal, decision: Decision, job_id: str) -> Transition:
    if isinstance(decided, Refusal):
        raise NotALetter(f"job {job_id} is not a letter: {decided.why}")
    return decided.carrying(decision)


def wanted_by(record: JobRecord) -> tuple[str, ...]:
    """Name everybody who wants a letter's work."""
    return msgspec.json.decode(record.row.details, type=Details).wanted_by


def standing(row: JobRow) -> JobRef:
    """Return a reference to a job in its present state, for a decision about it."""
    return JobRef(row.n, row.token, row.id, row.queue, State(row.state), row.thread_gate)
