"""The verbs that accept work: when they return, the jobs are on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Never, Unpack

import msgspec

from standfast.application.bulk_arguments import ages_of, check_shared_key, keys_of, several
from standfast.application.fallback import FALLBACK, check_otherwise
from standfast.application.parts import Parts
from standfast.application.prepared_job import PreparedJob
from standfast.clock import Clock
from standfast.concurrency.flows import flow, run_sync
from standfast.errors import ConfigurationError, StandfastError
from standfast.job import HTTP, Details, NewJob, Receipt
from standfast.rules import Seconds
from standfast.store.steps import text
from standfast.typed.job_options import Ages, BulkOptions, EnqueueOptions, JobOptions, Keys, Otherwise
from standfast.typed.unknown_options import refuse_unknown
from standfast.wings.commands.verbs import Commands
from standfast.wings.http import verbs as http
from standfast.wings.jobs import scripts as operations
from standfast.wings.workflows.verbs import Workflow


class Accepting(Parts):
    """Accepts jobs."""

    def __init__(
        self, url: str | os.PathLike[str] | None = None, *, clock: Clock | None = None, **unknown: Never
    ) -> None:
        refuse_unknown("Standfast", unknown, ("url", "clock"))
        super().__init__(url, clock=clock)
        self._registry.add_built_in(http.built_in(self, self._sender))
        self._commands = Commands(self.settings.commands, self._registry, self)
        for queue, rules in self.settings.queues.items():
            self._commands.serve(queue, rules)

    @flow
    async def enqueue(
        self,
        queue: str,
        payload: Any = None,
        *,
        handler: str | None = None,
        otherwise: Otherwise | None = None,
        tx: Any = None,
        **options: Unpack[JobOptions],
    ) -> Receipt:
        """Store one job; it is on disk when this returns.

        `otherwise` is called instead, without arguments, when it is certain that nothing can be stored now: the store
        is away, or the queue or the disk is full. `tx` is your own connection with an open transaction; the job exists
        exactly if you commit it. It leads to the store's own PostgreSQL (psycopg, asyncpg, SQLAlchemy, Django), or to
        any SQLite database (`sqlite3`, SQLAlchemy, Django): there the job is written to an outbox, and `sf.outbox(...)`
        brings it here.

        Other options: `idempotency_key`, a name for this work: a second job with it is a `duplicate`; `thread_key`:
        jobs with the same one run one at a time, in order; `coalesce`, what becomes of a job of the thread that still
        waits (`"never"`, `"latest"`, `"collect"`); `priority`, higher first; `delay` or `at`, when it may start;
        `expires`, until when; `attempts` and `lease`, in place of the queue's; `session` and `requester`, who asks;
        `risk` and `labels`, for policies and for people; `first_seen_at`, since when it has been wanted. `handler`
        names the handler if it is not the one named like the queue.
        """
        [job] = self._acceptor.jobs(queue, (payload,), handler=handler, **options)
        if otherwise is not None:
            return await self._accept_or(otherwise, job, tx)
        if tx is not None or job.handler != job.queue or job.handler == HTTP or self._admission.strict:
            return await self._accept(job, tx)
        return await self._reception.accept(job)

    @flow
    async def ingest(
        self,
        queue: str,
        payload: Any = None,
        *,
        handler: str | None = None,
        body_key: str | None = None,
        newest_counts: bool = False,
        **options: Unpack[JobOptions],
    ) -> Receipt:
        """Store one job that came from outside; it is on disk when this returns.

        `enqueue` refuses a payload that does not fit its handler; this accepts it, and the job dies as `schema_invalid`
        at its first claim, where operators see it. `body_key` is a second key besides `idempotency_key`: a job with
        either is a duplicate. With `newest_counts` the job folds into a waiting job of its thread, unless its queue
        collects.
        """
        [job] = self._acceptor.jobs(queue, (payload,), handler=handler, from_outside=True, **options)
        if newest_counts:
            details = msgspec.json.decode(job.details, type=Details)
            job = msgspec.structs.replace(job, details=text(msgspec.structs.replace(details, newest_counts=True)))
        return await self._accept(msgspec.structs.replace(job, body_key=body_key), None)

    async def count_ignored(self, queue: str) -> None:
        """Count a request from outside that led to no job of this queue; `stats` shows how many there were."""
        await self._ready()
        await self._store.write(operations.count_ignored, (queue, 1))

    async def _accept_or(self, otherwise: Otherwise, job: NewJob, tx: Any) -> Receipt:
        check_otherwise(otherwise)
        return await self._fallbacks.unless_stored(job.queue, otherwise, self._accept(job, tx), FALLBACK)

    async def _accept(self, job: NewJob, tx: Any) -> Receipt:
        if job.handler == HTTP or self._admission.strict:
            await self._admission.admit([job])
        if tx is not None:
            return (await self._transactions.enqueue(tx, [job]))[0]
        receipt = await self._reception.accept(job)
        self._point_out([job], [receipt])
        return receipt

    def enqueue_sync(
        self, queue: str, payload: Any = None, *, handler: str | None = None, **options: Unpack[EnqueueOptions]
    ) -> Receipt:
        """Store one job from code that cannot await; it is on disk when this returns. `sf.sync` has the other verbs."""
        return run_sync(self.enqueue(queue, payload, handler=handler, **options))

    @flow
    async def enqueue_http(
        self,
        queue: str,
        method: str,
        url: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: Seconds | str | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Receipt:
        """Store one HTTP request that a worker will send; it is on disk when this returns.

        The body is sent as JSON, or unchanged if it is text and `headers` name its content type. Without an
        idempotency key, a POST or PATCH that may have arrived is not sent again: it dies as `unknown_commit_state`.
        """
        request = http.request(method, url, body=body, headers=headers, timeout=timeout)
        return await self.enqueue(queue, request, handler=HTTP, **options)

    @flow
    async def enqueue_many(
        self,
        queue: str,
        payloads: Iterable[Any],
        *,
        handler: str | None = None,
        keys: Keys | None = None,
        first_seen_at: Ages | None = None,
        otherwise: Otherwise | None = None,
        tx: Any = None,
        **options: Unpack[BulkOptions],
    ) -> list[Receipt]:
        """Store several jobs in one transaction, or in yours: all or none. Receipts come in the order of the payloads.

        `keys` gives each job its own idempotency key: a list, or a function of the payload; None is no key. A job that
        exists already is a `duplicate`, so that you can repeat the call. A key that belongs to another payload is an
        `IdempotencyConflict`, and then nothing is stored. `first_seen_at` keeps the age of jobs that waited elsewhere:
        a list, a function of the payload, or one moment for all. `otherwise` is called once, for all of them.
        """
        jobs = self._several_jobs(queue, [*several(payloads)], keys, first_seen_at, {"handler": handler, **options})
        if otherwise is not None:
            check_otherwise(otherwise)
            stored, instead = self._accept_bulk(jobs, tx), [FALLBACK] * len(jobs)
            return await self._fallbacks.unless_stored(queue, otherwise, stored, instead)
        return await self._accept_bulk(jobs, tx)

    async def enqueue_each(self, jobs: Iterable[Mapping[str, Any]]) -> list[Receipt | StandfastError]:
        """Store jobs of any queues together; return a receipt or an error for each.

        A job is a dict of the arguments of `enqueue`: `queue`, `payload` and options; or `http` instead of `payload`, a
        dict of the arguments of `enqueue_http`. A refused job does not affect the others. A job with a receipt is on
        disk.
        """
        from standfast.application.each import enqueue_each  # noqa: PLC0415 - few processes enqueue jobs like this

        return await enqueue_each(jobs, self._acceptor, self._admission, self._reception)

    def _several_jobs(
        self, queue: str, payloads: Sequence[Any], keys: Keys | None, ages: Ages | None, options: dict[str, Any]
    ) -> list[NewJob]:
        if keys is not None and options.get("idempotency_key") is not None:
            raise ConfigurationError("keys= and idempotency_key= both give keys; nothing was written: give one of them")
        own = None if keys is None else keys_of(payloads, keys)
        if isinstance(ages, datetime | int | float):
            options["first_seen_at"], ages = ages, None
        jobs = self._acceptor.jobs(queue, payloads, own_keys=own, **options)
        check_shared_key(jobs)
        if ages is None:
            return jobs
        pairs = zip(jobs, ages_of(payloads, ages), strict=True)
        return [msgspec.structs.replace(job, first_seen_at=age) for job, age in pairs]

    async def _accept_bulk(self, jobs: Sequence[NewJob], tx: Any) -> list[Receipt]:
        await self._admission.admit(jobs)
        if tx is not None:
            return await self._transactions.enqueue(tx, jobs)
        receipts = await self._reception.accept_bulk(jobs)
        self._point_out(jobs[:1], receipts)  # all jobs are for one handler
        return receipts

    def _point_out(self, jobs: Sequence[NewJob], receipts: Sequence[Receipt]) -> None:
        """Warn of an unknown handler, unless the store is away and the jobs were spooled."""
        if receipts and receipts[0].outcome != "spooled":
            self._admission.point_out(jobs)

    def prepare(
        self, queue: str, payload: Any = None, *, handler: str | None = None, **options: Unpack[JobOptions]
    ) -> PreparedJob:
        """Check one job and give it its id; you store it later, with `store()` or `store_sync()`.

        For code that must know a job's id before the job may exist: before a transaction is committed, for example.
        """
        [job] = self._acceptor.jobs(queue, (payload,), handler=handler, **options)
        return PreparedJob(job, partial(self._accept, tx=None))

    def workflow(self, name: str) -> Workflow:
        """Begin to describe a workflow: add its steps with `step`, then `await start()`."""
        return Workflow(name, self.workflows)
