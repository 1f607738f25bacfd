"""The verbs that read: none of them changes a job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from functools import partial
from pathlib import Path
from typing import Any

from standfast.application.parts import Parts
from standfast.errors import (
    LowDisk,
    SchemaTooNew,
    StoreDamaged,
    StoreUnavailable,
    StoreUnusable,
    UnknownJob,
    WrongAddress,
)
from standfast.rules import Seconds
from standfast.spine.ids import JobId, id_of
from standfast.views import JobView
from standfast.wings.access.words import Reach
from standfast.wings.backup import verbs as backup
from standfast.wings.calls.replies import part_of
from standfast.wings.health import doctor, measures, worker_list
from standfast.wings.health import verbs as overview
from standfast.wings.health.measures import Measures
from standfast.wings.jobs import prefixes, search
from standfast.wings.jobs.verbs import Snapshot
from standfast.wings.notices import words as notices
from standfast.wings.notices.journal_reader import Reader
from standfast.wings.notices.words import Notice
from standfast.wings.records import listing, reads
from standfast.wings.records.view import Page, job_view
from standfast.wings.relay import outbox_marks
from standfast.wings.relay import verbs as on_its_way

LOOK_AGAIN = (0.005, 0.25)
"""`wait` looks after the first pause; the pauses then grow up to the second."""


class Looking(Parts):
    """Reads jobs, and the store as a whole."""

    async def status(self, id: JobId) -> JobView | None:
        """Return a job as it is now, or None; nothing is changed."""
        wanted = id_of(id)
        if (waiting := await self._reception.view(wanted)) is not None:
            return waiting
        await self._ready()
        return await self._stored(wanted) or await self._on_its_way(wanted)

    async def _stored(self, wanted: str) -> JobView | None:
        record = await self._store.read(reads.job(wanted, self._store.boot()))
        return record and job_view(record, now=self._store.now(), skew=self._store.skew())

    async def _on_its_way(self, wanted: str) -> JobView | None:
        """Return a job that is not in the store yet, or only since now: it may be delivered while this looks."""
        if not (self._outboxes or self._reception.has_spool):
            return None
        waiting = await self._reception.view(wanted, of_any_process=True)
        if waiting is None and (job := await self._outboxes.find(wanted)) is not None:
            waiting = on_its_way.view_deferred(job, self.clock.wall())
        return waiting or await self._stored(wanted)

    async def unknown_job(self, id: JobId) -> UnknownJob:
        """Return the error for an id that `status` does not know: it says where the job may be instead."""
        known = bool(self._outboxes) or await self._store.read(outbox_marks.any_known())
        return UnknownJob.for_id(id_of(id), outbox=known)

    async def full_id(self, beginning: str, what: str = "job") -> str:
        """Complete the id of a job, workflow, approval or redrive from a beginning that only it has.

        A beginning that no id here has is returned unchanged; one that several ids have is refused.
        """
        await self._ready()
        return await prefixes.full_id(self._store, beginning, what)

    async def jobs(
        self,
        *,
        queue: str | None = None,
        handler: str | None = None,
        state: str | None = None,
        view: str | None = None,
        reason_code: str | None = None,
        error_kind: str | None = None,
        thread_key: str | None = None,
        session: str | None = None,
        label: str | None = None,
        possible_duplicate: bool | None = None,
        q: str | None = None,
        limit: int = 50,
        cursor: int | None = None,
        reach: Reach = Reach(),  # noqa: B008 - an immutable value
    ) -> Page:
        """List jobs, newest first; the page's `next_cursor` leads to the older ones.

        `label` is `name` or `name:value`. `q` is searched for literally in ids, handlers, keys, payloads and failures.
        `possible_duplicate` selects jobs that may have had their effect twice, or with False the others.
        """
        filters = {
            "queue": queue,
            "handler": handler,
            "reason_code": reason_code,
            "error_kind": error_kind,
            "thread_key": thread_key,
        }
        named = {**filters, "state": state, "view": view, "session": session, "label": label, "q": q}
        wanted = search.checked_filter(named, limit, cursor, reach)._replace(
            possible_duplicate=search.checked_flag("possible_duplicate", possible_duplicate)
        )
        await self._ready()
        found = await self._store.read(listing.jobs(wanted, self._store.now()))
        return search.page(found, now=self._store.now(), skew=self._store.skew(), q=q)

    async def wait(self, id: JobId, timeout: Seconds) -> JobView:
        """Wait until a job is settled: final, held, or dead without an automatic replay to come."""
        give_up = time.monotonic() + timeout
        pause, longest = LOOK_AGAIN
        wanted = id_of(id)
        while True:
            found = await self.status(wanted)
            if found is None:
                raise await self.unknown_job(wanted)
            if found.settled:
                return found
            left = give_up - time.monotonic()
            if left <= 0:
                raise TimeoutError(
                    f"job {wanted} is still {found.view} after {timeout} s; wait again, or look with status"
                )
            await asyncio.sleep(min(pause, left))
            pause = min(longest, pause * 1.5)

    async def result(self, id: JobId, key: str | None = None) -> Any:
        """Return a job's whole result, or one key of it; a job that is not done has no result."""
        found = await self.status(id)
        if found is None:
            raise await self.unknown_job(id)
        return found.result if key is None else part_of(found, key)

    def exists(self) -> bool:
        """Return whether the store exists; the first use creates one that does not."""
        return self._store.location.exists()

    async def health(self) -> dict[str, Any]:
        """Judge the store by its contents; while it is away, by the jobs that wait for it on this host."""
        try:
            return await self._judge()
        except (StoreUnavailable, WrongAddress) as error:
            spooled = await self._reception.spool_status()
            if spooled is None and not isinstance(error, StoreDamaged | SchemaTooNew):
                raise
            return overview.store_away(error, spooled)

    async def _judge(self) -> dict[str, Any]:
        await self._ready()
        await self._fallbacks.tell()
        spooled, counted = await self._reception.spool_status(), await self._outboxes.counted()
        return await overview.health(self._store, spooled, counted)

    async def ready(self) -> None:
        """Return if work is accepted now: the store answers, has no trouble and has room. Otherwise raise why not."""
        await self._ready()
        if self._store.trouble:
            raise StoreUnavailable(self._store.trouble, definite=True)
        if self._store.location.disk_low():
            raise LowDisk("the disk is low", definite=True)

    async def doctor(self, *, full: bool = False) -> dict[str, Any]:
        """Examine the store, even one that cannot be opened; a store that does not exist yet is not created.

        The whole store is read once; `full` also compares every index with its table, which takes longer.
        """
        return await doctor.examine(
            self._store, self._judge, self._reception.spool_status, self.audit.verify, full=full
        )

    async def migrate(self) -> tuple[int, int]:
        """Upgrade the store's schema, as every opening does; return its version before and after."""
        before = self._store.location.schema_version()
        await self._ready()
        return before, self._store.location.schema_version()

    async def stats(self) -> dict[str, Any]:
        """Return counts of what the store holds now, and of what has happened so far."""
        try:
            await self._ready()
            spooled, counted = await self._reception.spool_status(), await self._outboxes.counted()
            return await overview.stats(self._store, spooled, counted)
        except (StoreUnavailable, WrongAddress) as error:
            spooled = await self._reception.spool_status()
            if spooled is not None and spooled.issue:
                error.add_note(spooled.issue)
            raise

    async def workers(self) -> list[dict[str, Any]]:
        """Return every live worker, the oldest first: where it is, what it serves, and what it runs now."""
        await self._ready()
        return await worker_list.workers(self._store)

    async def measures(self) -> Measures:
        """Measure everything, for `/metrics`; while the store is away, the jobs that wait for it on this host."""
        spooled = await self._reception.spool_status()
        try:
            await self._ready()
            return await measures.measure(self._store, spooled)
        except StoreUnavailable as error:
            if spooled is None and not isinstance(error, StoreUnusable):
                raise
            return measures.measure_away(spooled)

    async def explain(self, id: JobId) -> str:
        """Explain in one sentence, with evidence, why a job is where it is."""
        found = await self.snapshot(id)
        if found is None:
            raise await self.unknown_job(id)
        return await found.explain()

    async def snapshot(self, id: JobId) -> Snapshot | None:
        """Return a job with what explains its state at this moment; None if there is no such job."""
        wanted = id_of(id)
        waiting = await self._reception.view(wanted)
        if waiting is None:
            await self._ready()
            try:
                return await self._operations.snapshot(id)
            except UnknownJob:
                waiting = await self._on_its_way(wanted)
        if waiting is None:
            return None
        if waiting.view in on_its_way.VIEWS:
            return Snapshot(waiting, partial(on_its_way.explain, waiting))
        return await self._operations.snapshot(id)

    async def subscribe(
        self, kinds: Collection[str] | None = None, queue: str | None = None, after: int | None = None
    ) -> AsyncIterator[Notice]:
        """Yield notices of what happens to jobs, in commit order, from every process; `after` resumes after a `seq`."""
        await self._ready()
        async for notice in self._journals.subscribe(kinds, queue, after):
            yield notice

    async def reader(
        self,
        kinds: Collection[str] | None = None,
        queues: Collection[str] | None = None,
        after: int | None = None,
    ) -> Reader:
        """Return a reader that gives notices in batches, for code that does other things; `subscribe` has no end."""
        await self._ready()
        return await self._journals.reader(kinds, queues, after)

    def as_event(self, notice: Notice) -> dict[str, Any]:
        """Return a notice in the form for receivers outside: CloudEvents 1.0."""
        return notices.cloud_event(notice, self._notify.source)

    async def backup(self, path: str | Path) -> dict[str, Any]:
        """Copy the store to a new file while work goes on, and verify the copy; return what it holds."""
        await self._ready()
        return await backup.back_up(self._store, path)
