"""Standfast: the object an application holds. It declares, accepts, looks and works; each verb's rules live below."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from weakref import WeakSet

from standfast import settings
from standfast.aside import aside
from standfast.clock import Clock, SystemClock
from standfast.errors import StoreUnavailable, UnknownJob
from standfast.handlers.http import Sender
from standfast.handlers.probes import Probe
from standfast.handlers.registry import Effects, Handler, Registry, declare
from standfast.job import HTTP, JobView, NewJob, Receipt
from standfast.lifecycle import State
from standfast.locks import ForkableLock
from standfast.profiles import rules_for
from standfast.queue import backup, doctor, http, notices, overview
from standfast.queue.accept import Acceptor, check_shared_key, several, user
from standfast.queue.admission import Admission
from standfast.queue.audit import Audit
from standfast.queue.declarations import Declarations
from standfast.queue.fallback import Fallbacks, Otherwise, check_otherwise
from standfast.queue.ids import id_of
from standfast.queue.letters import DeadLetters
from standfast.queue.notices import Notice
from standfast.queue.operations import PROBE_FOR, Operations, Queues
from standfast.queue.outbox import RELAY_EVERY, Connect, Outbox
from standfast.queue.policies import Policies
from standfast.queue.reception import Reception
from standfast.queue.transactions import Transactions
from standfast.queue.verification import Verifier
from standfast.queue.view import Page, after, job_view, one_of, page, whole_page
from standfast.rules import QueueRules, Seconds
from standfast.store.reads import Filter
from standfast.store.store import Store
from standfast.worker.admission import Doorkeeper
from standfast.worker.loops import Loop
from standfast.worker.standing import work_until_signalled
from standfast.worker.worker import GRACE, SLOTS, Worker, drain_all

LOOK_AGAIN = (0.005, 0.25)
"""`wait` looks after the first pause, then less and less often, up to the second."""


class Standfast:
    """A durable queue on one store. Opens itself on first use; `await sf.close()` or `async with` to let go."""

    def __init__(self, url: str | os.PathLike[str] | None = None, *, clock: Clock | None = None) -> None:
        self.settings = settings.load(url, os.environ)
        self.clock = clock or SystemClock()
        self._store = Store(self.settings.url.value, self.clock, audit_file=self.settings.audit_file.value)
        self._registry = Registry()
        self._sender = Sender()
        self._verifier = Verifier(self._sender)
        self._workers: WeakSet[Worker] = WeakSet()
        self._registry.add_built_in(http.built_in(self, self._sender))
        self._acceptor = Acceptor(self._registry, self.clock)
        self._declared = Declarations(self._store, self._registry, dict(self.settings.queues))
        self._ready = self._declared.publish
        self._admission = Admission(self._store, self._declared, strict=self.settings.strict_queues.value)
        self.policy = Policies(self._store, self._declared, self.settings.policy)
        self.dead_letters = DeadLetters(
            self._store,
            self._ready,
            self._registry,
            self._verifier,
            permit=self.policy.permit,
            groups=self.settings.groups,
            ttl=self.settings.approval_ttl.value,
        )
        self.approvals = self.dead_letters.approvals
        self.queues = Queues(self._store, self._ready)
        self.audit = Audit(self._store, self._ready)
        self._operations = Operations(self._store, self.dead_letters, self._sender)
        self._fallbacks = Fallbacks(self._store)
        self._reception = Reception(
            self._store, self._store.spool(self.settings.spool.value), self._declared, self._fallbacks
        )
        self._transactions = Transactions(self._store, self._ready, self._declared.publish_blocking, self.clock)

    # --- declaring

    def queue(self, name: str, **rules: Any) -> QueueRules:
        """Declare a queue's rules; see `QueueRules` for each setting. `standfast.toml` overrides what code says.

        For the names in `standfast.profiles` the defaults are the ready-made ones.
        """
        said = rules_for(name, **rules)
        declared = self.settings.over(name, said)
        overruled = [rule for rule in rules if getattr(said, rule) != getattr(declared, rule)]
        self._registry.add_gate(name, rules.get("gate"))
        self._declared.declare(name, declared, overruled)
        return declared

    def handler(
        self,
        queue: str,
        *,
        name: str | None = None,
        input: Any = None,
        replay: Literal["replay", "verify_first", "manual"] = "replay",
        effects: Effects = (),
        risk: str | None = None,
        timeout: float | None = None,
        soft: bool = True,
    ) -> Callable[[Callable[..., Any]], Handler]:
        """Register a function, plain or async, as the one that does a queue's work.

        The default `replay="replay"` repeats it after an unknown outcome. `"verify_first"` looks at its `effects`
        before every repeat; `"manual"` leaves every repeat to a person. See docs/effects.md.
        `input` is the type of one payload, read as `job.input`; where payloads are collected, that is a list of it.
        """
        declaration = declare(queue, name, replay=replay, risk=risk, timeout=timeout, effects=effects)

        def register(function: Callable[..., Any]) -> Handler:
            handler = Handler(function, declaration, self, input=input, soft=soft, effects=effects)
            self._registry.add(handler)
            self._declared.changed()
            return handler

        return register

    # --- accepting

    async def enqueue(
        self, queue: str, payload: Any = None, *, otherwise: Otherwise | None = None, tx: Any = None, **options: Any
    ) -> Receipt:
        """Store one job; it is on disk when this returns.

        `otherwise` is called without arguments instead when for certain nothing can be stored now: the store is away,
        the queue or the disk is full. `tx` is a connection of yours with a transaction open, and the job is there
        exactly if you commit it: to the store's own PostgreSQL (psycopg, asyncpg, SQLAlchemy), or to any SQLite
        database (`sqlite3`), where it is written to an outbox, and is a job once `sf.outbox(...)` brought it here.
        """
        [job] = self._acceptor.jobs(queue, (payload,), **options)
        if otherwise is not None:
            check_otherwise(otherwise)
            return await self._fallbacks.unless_stored(queue, otherwise, self._accept(job, tx))
        return await self._accept(job, tx)

    async def _accept(self, job: NewJob, tx: Any) -> Receipt:
        await self._admission.admit([job])
        if tx is not None:
            return (await self._transactions.enqueue(tx, [job]))[0]
        return await self._reception.accept(job)

    def enqueue_sync(
        self, queue: str, payload: Any = None, *, otherwise: Otherwise | None = None, tx: Any = None, **options: Any
    ) -> Receipt:
        """Store one job from code without an event loop; it is on disk when this returns."""
        [job] = self._acceptor.jobs(queue, (payload,), **options)
        if otherwise is not None:
            check_otherwise(otherwise)
            return self._fallbacks.unless_stored_blocking(queue, otherwise, partial(self._accept_blocking, job, tx))
        return self._accept_blocking(job, tx)

    def _accept_blocking(self, job: NewJob, tx: Any) -> Receipt:
        self._admission.admit_blocking([job])
        if tx is not None:
            return self._transactions.enqueue_blocking(tx, [job])[0]
        return self._reception.accept_blocking(job)

    async def enqueue_http(
        self,
        queue: str,
        method: str,
        url: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: Seconds | str | None = None,
        **options: Any,
    ) -> Receipt:
        """Store one HTTP request that a worker will send; it is on disk when this returns.

        The body is sent as JSON, or as it stands if it is text and `headers` name its content type. Without an
        idempotency key, a POST or PATCH that may have arrived is not sent again: it dies as `unknown_commit_state`.
        """
        request = http.request(method, url, body=body, headers=headers, timeout=timeout)
        return await self.enqueue(queue, request, handler=HTTP, **options)

    async def enqueue_many(
        self, queue: str, payloads: Sequence[Any], *, tx: Any = None, **options: Any
    ) -> list[Receipt]:
        """Store several jobs in one transaction, or in yours: all of them, or none."""
        jobs = self._acceptor.jobs(queue, several(payloads), **options)
        check_shared_key(jobs)
        await self._admission.admit(jobs)
        if tx is not None:
            return await self._transactions.enqueue(tx, jobs)
        return await self._reception.accept_together(jobs)

    # --- looking

    async def status(self, id: str | None) -> JobView | None:
        """Look at a job; looking changes nothing."""
        wanted = id_of(id)
        if (waiting := await self._reception.view(wanted)) is not None:
            return waiting
        await self._ready()
        record = await self._store.job(wanted)
        return record and job_view(record, now=self._store.now(), skew=self._store.skew())

    async def jobs(
        self, *, queue: str | None = None, state: str | None = None, limit: int = 50, cursor: int | None = None
    ) -> Page:
        """List jobs, newest first; the page's `next_cursor` leads to the older ones."""
        await self._ready()
        wanted = Filter(queue, one_of("state", state, State), whole_page(limit), after(cursor) or Filter().before)
        return page(await self._store.jobs(wanted), limit, now=self._store.now(), skew=self._store.skew())

    async def wait(self, id: str | None, timeout: Seconds) -> JobView:
        """Wait until a job is settled: final, held, or dead with nothing left that happens by itself."""
        give_up = time.monotonic() + timeout
        pause, longest = LOOK_AGAIN
        while True:
            found = await self.status(id)
            if found is None:
                raise UnknownJob.named(id)
            if found.settled:
                return found
            left = give_up - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"job {id} is still {found.view} after {timeout} s; wait again, or look with status")
            await asyncio.sleep(min(pause, left))
            pause = min(longest, pause * 1.5)

    async def result(self, id: str | None, key: str | None = None) -> Any:
        """Give a job's whole result, or one key of it."""
        found = await self.status(id)
        if found is None:
            raise UnknownJob.named(id)
        return found.result if key is None else found.result[key]

    def there(self) -> bool:
        """Tell whether there is a store to open; the first use makes one that is not."""
        return self._store.there()

    async def health(self) -> dict[str, Any]:
        """Judge the store by what it holds; while it is away, by what waits for it on this host."""
        try:
            return await self._judged()
        except StoreUnavailable as error:
            spooled = await self._reception.held()
            if spooled is None:
                raise
            return overview.away(error, spooled)

    async def _judged(self) -> dict[str, Any]:
        await self._ready()
        await self._fallbacks.tell()
        return await overview.health(self._store, await self._reception.held())

    async def doctor(self) -> dict[str, Any]:
        """Examine the store, also one that cannot be opened; one that is not there yet is not created."""
        return await doctor.examine(self._store, self._judged, self._reception.held)

    async def migrate(self) -> tuple[int, int]:
        """Bring the store's schema forward, as every opening does; give its number before and after."""
        before = self._store.schema_version()
        await self._ready()
        return before, self._store.schema_version()

    async def stats(self) -> dict[str, Any]:
        """Count what is there, and what happened so far."""
        await self._ready()
        return await overview.stats(self._store, await self._reception.held())

    async def explain(self, id: str | None) -> str:
        """Say in one sentence, with evidence, why a job is where it is."""
        await self._ready()
        return await self._operations.explain(id)

    async def subscribe(
        self, kinds: Collection[str] | None = None, queue: str | None = None, after: int | None = None
    ) -> AsyncIterator[Notice]:
        """Give notices of what happens to jobs, in commit order, from every process; `after` resumes behind a `seq`."""
        await self._ready()
        async for notice in notices.subscribe(self._store, kinds, queue, after):
            yield notice

    async def backup(self, path: str | Path) -> dict[str, Any]:
        """Copy the store to a new file while work goes on, verified when this returns; tell what the copy holds."""
        await self._ready()
        return await backup.back_up(self._store, path)

    # --- operating

    async def retry(
        self, id: str | None, *, probe: Probe | None = None, timeout: Seconds = PROBE_FOR
    ) -> dict[str, Any]:
        """Run a job again as soon as may be: a waiting one now, a letter by replay. A running one is left alone.

        With `probe`, a function or a URL, once that says yes (something true, or 2xx); if it does not within `timeout`,
        not at all, and the Reply says why as `probe`. Only this call waits; nothing of the waiting is stored.
        """
        await self._ready()
        return await self._operations.retry(id, by=user(), probe=probe, timeout=timeout)

    async def cancel(self, id: str | None) -> JobView:
        """End a job that is not wanted any more. A running one is asked, and ends cancelled unless it succeeds."""
        await self._ready()
        return await self._operations.cancel(id)

    # --- working

    def worker(
        self, queues: Sequence[str] | None = None, concurrency: int = SLOTS, *, grace: Seconds = GRACE
    ) -> Worker:
        """Run jobs in this process: `async with sf.worker(): ...`. `concurrency` is slots per queue."""
        made = Worker(
            self._store,
            self._registry,
            verifier=self._verifier,
            doors=Doorkeeper(self._registry.gates, self._sender.ask),
            letters=self.dead_letters,
            policy=self.policy,
            rules=self._declared.rules,
            ready=self._ready,
            queues=queues,
            concurrency=concurrency,
            grace=grace,
        )
        self._workers.add(made)
        return made

    def run_worker(
        self, queues: Sequence[str] | None = None, concurrency: int = SLOTS, *, grace: Seconds = GRACE
    ) -> None:
        """Work until signalled: the first SIGTERM or SIGINT drains, a second one exits at once."""
        where = settings.without_password(self.settings.url.value)
        asyncio.run(work_until_signalled(self, partial(self.worker, queues, concurrency, grace=grace), grace, where))

    def outbox(self, connect: Connect, *, every: Seconds = RELAY_EVERY) -> Outbox:
        """Bring here what was enqueued with `tx=` in a database of yours; `connect` opens it, as `sqlite3` does.

        `async with sf.outbox(connect):` looks every so many seconds; `await outbox.relay()` looks once.
        """
        return Outbox(self._store, self._ready, connect, Loop, every)

    # --- life

    async def open(self) -> Self:
        """Open the store and publish what was declared; where jobs are spooled, it may still be away."""
        await self._reception.open()
        return self

    async def close(self) -> None:
        """Drain what still works here, and let go of the store and of receivers. Using it again opens it again."""
        await drain_all(self._workers)
        await self._sender.close()
        await aside(self._reception.close)
        await self._fallbacks.tell()
        await aside(self._store.close)
        self._declared.forget()

    async def __aenter__(self) -> Self:
        """Open."""
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()


_default: list[Standfast] = []
_making_default = ForkableLock()


def default() -> Standfast:
    """Give the process-wide queue, made on first use from the environment and `standfast.toml`."""
    with _making_default:
        if not _default:
            _default.append(Standfast())
        return _default[0]
