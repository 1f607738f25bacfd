"""One import: reads a source a batch at a time, and stores the new records of each batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from standfast.concurrency.threads import run_in_thread
from standfast.errors import Backpressure, StandfastError
from standfast.job import NewJob
from standfast.spine.accept import Acceptor
from standfast.store.store import Store
from standfast.views import Heard, Progress
from standfast.wings.imports import incoming, rules, scripts
from standfast.wings.imports.field_map import FieldMap, field_map, values_of, with_default_queue
from standfast.wings.imports.foresight import Foresight
from standfast.wings.imports.incoming import Modes
from standfast.wings.imports.known_shapes import Profile
from standfast.wings.imports.record_ids import Contradictions, Identities
from standfast.wings.imports.rejects import Rejects
from standfast.wings.imports.rules import Plan
from standfast.wings.imports.scripts import Came, Refused
from standfast.wings.imports.words import (
    BadRecord,
    ImportOptions,
    Meaning,
    Outcome,
    Record,
    Rejected,
    Report,
    Source,
    Unreadable,
)
from standfast.wings.letters.arrivals import Arrived
from standfast.wings.policy import scripts as policies
from standfast.wings.queues.checks import Admission

BATCH = 200
"""Records that are stored in one transaction."""
CONTRADICTED = "several records have its id and say different things; keep the one that counts, and import again"
MOST_SHOWN = 10
"""The most rejected records that a report names."""


class Planned(NamedTuple):
    """A record that can be brought in."""

    record: Record
    plan: Plan
    job: NewJob


class Parts(NamedTuple):
    """The services that an import uses."""

    store: Store
    acceptor: Acceptor
    admission: Admission


class Run:
    """One import from its first record to its last."""

    def __init__(
        self, parts: Parts, source: Source, profile: Profile, options: ImportOptions, actor: dict[str, Any]
    ) -> None:
        self._store, self._acceptor, self._admission = parts
        self._source = source
        self._profile = profile
        self._options = options
        self._actor = actor
        self._states = rules.meanings(options.states)
        self._maps: dict[int, FieldMap] = {}
        self._identities = Identities(source, options.source)
        self._contradictions = Contradictions()
        self._rejects = Rejects(None if options.dry_run else options.rejects or source.rejects)
        self._report = Report(source=source.shown, dry_run=options.dry_run)
        self._imported_at = self._store.moment().wall
        self._foresight = Foresight()
        self._modes: Modes = {}
        self._has_store = False
        field_map(profile.fields, options.fields)  # a wrong map is reported before anything is read

    async def look(self) -> None:
        """Read the handlers' replay modes from the store."""
        self._modes = await self._store.read(policies.replay_modes())
        self._has_store = True

    async def to_the_end(self, progress: Heard) -> Report:
        """Bring every record in."""
        total = await run_in_thread(self._source.count)
        if self._source.may_contradict:
            await run_in_thread(self._find_contradictions)
        records = self._source.read()
        try:
            while batch := await run_in_thread(_next_batch, records):
                await self._bring_in(batch)
                self._report.records += len(batch)
                progress(Progress("imported", self._report.records, total))
        finally:
            self._rejects.close()
        self._report.rejects_file = self._rejects.path
        return self._report

    async def _bring_in(self, batch: Sequence[Record | BadRecord]) -> None:
        """Bring in a batch. Records with the same id go in one after the other, as if in separate batches."""
        planned: dict[str, Planned] = {}
        for record in batch:
            found = await self._planned(record)
            if found is not None and found.job.id in planned:
                await self._store_planned([*planned.values()])
                planned.clear()
            if found is not None:
                planned[found.job.id] = found
        await self._store_planned([*planned.values()])

    async def _planned(self, record: Record | BadRecord) -> Planned | None:
        """Plan one record; a bad one is rejected."""
        if isinstance(record, BadRecord):
            self._reject(record, record.why)
            return None
        try:
            values = values_of(self._fields_of(record), record.value)
            if values.get("id") in self._contradictions:
                raise Unreadable(CONTRADICTED)
            plan = rules.plan(values, record.value, self._profile, self._states, imported_at=self._imported_at)
            job = incoming.new_job(self._acceptor, plan, self._identities.job_id(record, values.get("id")))
            await self._admission.admit([job])
        except StandfastError as error:
            self._reject(record, str(error).replace("; nothing was written", ""))
            return None
        letters = self._options.tried_are_letters
        return Planned(record, incoming.guarded(plan, job, self._modes, tried_are_letters=letters), job)

    def _find_contradictions(self) -> None:
        for record in self._source.read():
            if isinstance(record, Record):
                own = values_of({"id": self._fields_of(record).get("id", ())}, record.value)
                self._contradictions.note(own.get("id"), record)

    def _fields_of(self, record: Record) -> FieldMap:
        """Return the map for a record; there are few maps, and each is built once."""
        defaults = self._profile.defaults_for(record.value, self._options.fields)
        known = self._maps.get(id(defaults))
        if known is None:
            with_queue = with_default_queue(defaults, self._options.queue)
            known = self._maps[id(defaults)] = field_map(with_queue, self._options.fields)
        return known

    def _reject(self, record: Record | BadRecord, why: str) -> None:
        self._report.rejected += 1
        if len(self._report.first_rejected) < MOST_SHOWN:
            self._report.first_rejected.append(Rejected(record.name, why))
        self._rejects.add(record, why)

    # --- storing

    async def _store_planned(self, planned: Sequence[Planned]) -> None:
        by_meaning: dict[Meaning, list[Planned]] = {meaning: [] for meaning in Meaning}
        for each in planned:
            by_meaning[each.plan.meaning].append(each)
        letters = by_meaning[Meaning.DEAD] + by_meaning[Meaning.IN_DOUBT]
        done = by_meaning[Meaning.FINISHED]
        if not self._options.finished:
            self._count(done, ["finished"] * len(done))
            done = []
        if self._options.dry_run:
            await self._foresee([*letters, *by_meaning[Meaning.QUEUED], *done])
            return
        await self._bring_in_letters(letters)
        await self._bring_in_runnable(by_meaning[Meaning.QUEUED])
        if done:
            batch = [incoming.finished(each.plan, each.job) for each in done]
            self._count(done, await self._store.write(scripts.bring_in_finished, batch))

    async def _bring_in_letters(self, planned: Sequence[Planned]) -> None:
        if not planned:
            return
        now, skew = self._store.now(), self._store.skew()
        batch = [incoming.letter(each.plan, each.job, self._actor, now=now, skew=skew) for each in planned]
        came = await self._store.write(scripts.bring_in_letters, batch)
        pairs = zip(planned, came, strict=True)
        self._count(planned, [_letter_came(each, answer) for each, answer in pairs])

    async def _bring_in_runnable(self, planned: Sequence[Planned]) -> None:
        if not planned:
            return
        batch = [incoming.runnable(each.plan, each.job, self._store.skew()) for each in planned]
        self._count(planned, await self._store.write(scripts.bring_in_runnable, batch))

    async def _foresee(self, planned: Sequence[Planned]) -> None:
        """Count what an import would do now. Keys that are taken in the store show only when it is done."""
        jobs = [each.job for each in planned]
        before = await self._store.read(scripts.came_before(jobs)) if self._has_store and jobs else {}
        self._count(planned, [before.get(each.job.id) or self._of_this_run(each) for each in planned])

    def _of_this_run(self, planned: Planned) -> Came:
        is_letter = planned.plan.meaning in {Meaning.DEAD, Meaning.IN_DOUBT}
        return self._foresight.collision(planned.job, is_letter=is_letter) or _as_planned(planned)

    def _count(self, planned: Sequence[Planned], came: Sequence[Came]) -> None:
        full = None
        for each, outcome in zip(planned, came, strict=True):
            if isinstance(outcome, Refused):
                full = outcome if outcome.full else full
                self._reject(each.record, outcome.why)
            else:
                self._report.add(each.job.queue, outcome)
        if full is not None:
            raise Backpressure(f"{full.why}; {self._report.outcomes.total()} records were brought in or known before")


def _letter_came(planned: Planned, answer: Arrived | Refused) -> Came:
    return answer if isinstance(answer, Refused) or answer == "known" else _as_letter(planned)


def _as_letter(planned: Planned) -> Outcome:
    return "in_doubt" if planned.plan.meaning is Meaning.IN_DOUBT else "dead"


def _as_planned(planned: Planned) -> Outcome:
    if planned.plan.meaning is Meaning.QUEUED:
        return "tried" if planned.plan.tried else "queued"
    return "completed" if planned.plan.meaning is Meaning.FINISHED else _as_letter(planned)


def _next_batch(records: Iterator[Record | BadRecord]) -> list[Record | BadRecord]:
    return list(islice(records, BATCH))
