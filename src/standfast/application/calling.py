"""The verbs that call a handler: now and here, later, or again after a call made elsewhere has failed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Never, TypeVar, Unpack, cast, overload

from standfast.application.looking import Looking
from standfast.application.traced_accept import traced
from standfast.concurrency.guarded import call_guarded
from standfast.errors import StoreClosed, StoreUnavailable, UnknownJob
from standfast.job import Claim, NewJob, Receipt
from standfast.spine.claim_requests import Accepted
from standfast.spine.registry import Handler
from standfast.typed.annotations import check_resolved, read_result
from standfast.typed.job_options import Duration, RunOptions, SubmitOptions
from standfast.typed.reply import Reply
from standfast.typed.unknown_options import refuse_unknown
from standfast.wings.calls import verbs as calls
from standfast.wings.calls.hand_over import hand_over, judge
from standfast.wings.calls.replies import of_other_session, spooled
from standfast.wings.calls.scripts import Called
from standfast.wings.calls.verbs import with_queue_reason
from standfast.wings.calls.words import CALLED
from standfast.wings.queues import handler_names
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.queues.handler_names import Target
from standfast.worker.caller import Caller
from standfast.worker.settling import settle

T = TypeVar("T")
R = TypeVar("R")

AFTERWARDS = 10.0
"""Seconds that a call gets, after its time is up, to end and to have its effects verified."""
SUBMITTED_LEASE = 600.0

UNFIT = "the result is not what the handler's annotation says ({error}); read it as JSON with result('{id}')"

Over = Callable[[float], Awaitable[bool]]
"""Waits so many seconds for the end of a call; returns whether there is nothing more to wait for."""


class StartedCall:
    """A call that is on disk, and under way if it could start. `id` is the id of its job."""

    def __init__(
        self,
        receipt: Receipt,
        over: Over,
        within: float,
        reply: Callable[[], Awaitable[dict[str, Any]]],
        replying: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.id = receipt.id
        self._over = over
        self._within = within
        self._reply = reply
        self._replying = replying

    async def reply(self) -> dict[str, Any]:
        """Wait for the call to end, or until its time is up, and return its state."""
        with self._replying():
            await self._over(self._within)
            return await self._reply()

    async def reply_within(self, seconds: float) -> dict[str, Any] | None:
        """Do the same, but wait at most this long; None means that the call goes on. A short wait cuts nothing off."""
        return await self._reply() if await self._over(min(seconds, self._within)) else None


class Calling(Looking):
    """Calls handlers. Every verb gives a Reply: what is so, and what to do next."""

    @overload
    async def run(self, handler: Handler[None, R], params: None = None, **options: Unpack[RunOptions]) -> Reply[R]: ...
    @overload
    async def run(self, handler: Handler[T, R], params: T, **options: Unpack[RunOptions]) -> Reply[R]: ...
    @overload
    async def run(self, handler: str, params: Any = None, **options: Unpack[RunOptions]) -> Reply[Any]: ...
    async def run(
        self,
        handler: Handler[Any, Any] | str,
        params: Any = None,
        *,
        session: str | None = None,
        idempotency_key: str | None = None,
        timeout: Duration | None = None,
        requester: str | None = None,
        **unknown: Never,
    ) -> Reply[Any]:
        """Call a handler here and now. The call is on disk before it starts, and survives this process.

        `handler` is a handler of yours, `"queue/handler"`, the name of a queue with one handler, or a handler's name
        that is unique. The call starts under the same rules as in a worker: if it may not start, the Reply is `queued`
        and says why. After a transient failure it goes into the queue, and workers continue it. The same
        `idempotency_key` returns the stored result or the current state, and never calls twice. If this process does
        not have the handler, the call is queued and waited for; if no process ever published it, the call is refused
        with `UnknownHandler`, and nothing is written.
        If you pass a handler with a return annotation, `result` has that type; if you pass a name, it is JSON.
        """
        refuse_unknown("run", unknown, RunOptions.__annotations__)
        options: dict[str, Any] = {"session": session, "idempotency_key": idempotency_key, "requester": requester}
        check_resolved(_returns(handler))
        reply = await (await self.begin(handler, params, timeout=timeout, **options)).reply()
        return await self._typed(handler, reply)

    async def begin(
        self,
        handler: Handler | str,
        params: Any = None,
        *,
        session: str | None = None,
        idempotency_key: str | None = None,
        timeout: Duration | None = None,
        requester: str | None = None,
    ) -> StartedCall:
        """Do what `run` does up to the handler's start, for callers that cannot wait until it ends."""
        within = calls.checked_timeout(timeout)
        target = await self.resolve_handler(handler)
        options = {"session": session, "idempotency_key": idempotency_key, "requester": requester}
        job = with_queue_reason(await self._new_job(target, params, **options), CALLED)
        if self._registry.find(*target) is None:
            return await self._queue_for_others(job, within, requester, session)
        caller = self._callers.of_this_loop()
        calling = asyncio.ensure_future(self._call(caller, job, within))
        receipt, called = await asyncio.shield(
            calling
        )  # even if the caller is cancelled: a stored call must also start
        claim = None if called is None else called.claim
        within = math.inf if claim is None or claim.timeout is None else claim.timeout
        recovered = claim is not None and self._readiness.take_recovered(*target)
        answer = partial(self._reply, receipt, job, requester, recovered=recovered)
        return StartedCall(receipt, _CallEnd(caller, claim), within, answer, self._callers.replying)

    @overload
    async def submit(
        self, handler: Handler[None, R], params: None = None, **options: Unpack[SubmitOptions]
    ) -> Reply[R]: ...
    @overload
    async def submit(self, handler: Handler[T, R], params: T, **options: Unpack[SubmitOptions]) -> Reply[R]: ...
    @overload
    async def submit(self, handler: str, params: Any = None, **options: Unpack[SubmitOptions]) -> Reply[Any]: ...
    async def submit(
        self,
        handler: Handler[Any, Any] | str,
        params: Any = None,
        *,
        session: str | None = None,
        priority: int | None = None,
        lease: Duration = SUBMITTED_LEASE,
        idempotency_key: str | None = None,
        requester: str | None = None,
        **unknown: Never,
    ) -> Reply[Any]:
        """Let a worker call a handler, once. The Reply comes at once: `queued`, with the id to ask for later."""
        refuse_unknown("submit", unknown, SubmitOptions.__annotations__)
        check_resolved(_returns(handler))
        target = await self.resolve_handler(handler)
        options = {"session": session, "priority": priority, "lease": lease, "idempotency_key": idempotency_key}
        job = with_queue_reason(
            await self._new_job(target, params, attempts=1, requester=requester, **options), "deferred_submit"
        )
        return await self._typed(handler, await self._reply(await self._reception.accept(job), job, requester))

    async def hand_over(
        self,
        handler: Handler | str,
        params: Any,
        error: Any,
        *,
        session: str | None = None,
        idempotency_key: str | None = None,
        requester: str | None = None,
    ) -> Reply[Any]:
        """Take over a call that has already failed elsewhere: that attempt counts, and the queue continues from there.

        `error` is the exception, the result that describes the failure, or a text. After a transient failure the call
        is queued with its backoff, unless the handler is `manual`; a call that cannot succeed or must not be repeated
        becomes a letter for a person. With an `idempotency_key`, a call is taken over once, however often it is handed
        over: the Reply says where it stands.
        """
        failed = judge(error)
        target = await self.resolve_handler(handler, published_only=False)
        options = {"session": session, "idempotency_key": idempotency_key, "requester": requester}
        job = with_queue_reason(await self._new_job(target, params, **options), "retry")
        await self._ready()
        await self.policy.refresh()
        store = partial(
            hand_over, self._store, self.policy.known, settle, failed=failed, error=error, requester=requester
        )
        return cast("Reply[Any]", await self._reply(await traced(self.tracing, job, store), job, requester))

    # --- how

    async def _typed(self, handler: Handler[Any, Any] | str, reply: dict[str, Any]) -> Reply[Any]:
        """Convert a result to the type that its handler returns; replace one that does not fit with a warning.

        A result that is shortened in the Reply is fetched whole.
        """
        kind = _returns(handler)
        if kind is None or reply.get("result") is None:
            return cast("Reply[Any]", reply)
        result = await self.result(reply["operation_id"])

        def unfit(error: Exception) -> dict[str, Any]:
            rest = {name: value for name, value in reply.items() if name != "result"}
            return {**rest, "warning": UNFIT.format(error=error, id=reply["operation_id"])}

        return cast("Reply[Any]", call_guarded(lambda: {**reply, "result": read_result(result, kind)}, unfit))

    async def resolve_handler(
        self, handler: Handler | str, *, queues: Collection[str] | None = None, published_only: bool = True
    ) -> Target:
        """Find the queue and the handler that a name means; see `run`. With `queues`, search only those queues.

        A name that means none is refused with `UnknownHandler`, which names the nearest ones. If `published_only` is
        false, it is taken as a queue's name, as `enqueue` does.
        """
        if not published_only:
            return await handler_names.meant(handler, self._registry, self._declared_elsewhere, queues)
        found = await handler_names.declared(handler, self._registry, self._declared_elsewhere, queues)
        if found is None:
            published = await self._store.read(queue_scripts.published_handlers())
            raise handler_names.unknown(handler, self._registry, published, queues)
        return found

    async def _declared_elsewhere(self, name: str) -> list[tuple[str, str]]:
        await self._ready()
        return await self._store.read(queue_scripts.places(name))

    async def _new_job(self, target: Target, params: Any, **options: Any) -> NewJob:
        [job] = self._acceptor.jobs(target.queue, (params,), handler=target.handler, **options)
        await self._admission.admit([job])
        return job

    async def _call(self, caller: Caller, job: NewJob, within: float | None) -> tuple[Receipt, Called | None]:
        """Store and begin a call; while the store is away, spool it if possible, and do not begin it."""
        begun: list[Called] = []

        async def call(jobs: Sequence[NewJob]) -> list[Accepted]:
            begun.append(await caller.call(jobs[0], within))
            return [begun[-1].answer]

        receipt = await self._reception.accept(job, call)
        return receipt, begun[-1] if begun else None

    async def _queue_for_others(
        self, job: NewJob, within: float | None, requester: str | None, session: str | None
    ) -> StartedCall:
        """Queue a call for a process that has the handler; its end is awaited until the time is up."""
        receipt = await self._reception.accept(job)
        with _known_to_be_stored(receipt):
            found = await self.status(receipt.id) if receipt.outcome == "duplicate" else None
            if within is None:
                within = (await self._store.read(queue_scripts.rules(job.queue))).timeout or math.inf
        theirs = found is not None and calls.belongs_to_other(found, job, requester)

        async def settled(seconds: float) -> bool:
            with suppress(TimeoutError), _known_to_be_stored(receipt):
                return theirs or (await self.wait(receipt.id, seconds)).settled
            return False

        async def reply() -> dict[str, Any]:
            answer = await self._reply(receipt, job, requester)
            if answer["status"] == "ok" and receipt.outcome == "accepted" and session is not None:
                with suppress(StoreUnavailable):  # then the session also finds it in its inbox
                    await self.inbox.received(answer["operation_id"], session)
            return answer

        return StartedCall(receipt, settled, within, reply)

    async def _reply(
        self, receipt: Receipt, job: NewJob, requester: str | None, *, recovered: bool = False
    ) -> dict[str, Any]:
        with _known_to_be_stored(receipt):
            found = await self.status(receipt.id)
        if found is None:
            raise UnknownJob(
                f"job {receipt.id} had this key, has ended and was pruned; the handler was not called: use "
                "another key to call it again"
            )
        if receipt.outcome == "spooled":
            return spooled(found)
        if calls.belongs_to_other(found, job, requester):
            return of_other_session(found)
        with _known_to_be_stored(receipt):
            answer = await calls.reply_of(found, self._operations.explain)
        return {**answer, "registry_auto_recovered": True} if recovered else answer


def _returns(handler: Handler[Any, Any] | str) -> Any:
    return handler.returns if isinstance(handler, Handler) else None


@contextmanager
def _known_to_be_stored(receipt: Receipt) -> Iterator[None]:
    """Mark the error as indefinite if the call is stored and only its reply is missing."""
    try:
        yield
    except StoreUnavailable as error:
        cause = "this Standfast was closed" if isinstance(error, StoreClosed) else "the store went away"
        raise StoreUnavailable(
            f"{cause} before the outcome of the call was known; the call is stored as job {receipt.id}: ask for its "
            "status, and do not call again without the same key",
            definite=False,
        ) from error


class _CallEnd:
    """Waits for the end of a call that was started here; for any other call, returns at once."""

    def __init__(self, caller: Caller, claim: Claim | None) -> None:
        self._caller = caller
        self._claim = claim

    async def __call__(self, seconds: float) -> bool:
        """Wait. A call that is cut at its timeout gets time to end; a plain function cannot be cut, and goes on."""
        claim = self._claim
        if claim is None:
            return True
        ending = asyncio.ensure_future(self._caller.wait_ended(claim))
        try:
            await asyncio.wait([ending], timeout=None if seconds == math.inf else seconds)
            if not ending.done() and seconds == claim.timeout and not self._caller.is_unstoppable(claim):
                await asyncio.wait([ending], timeout=AFTERWARDS)
            return ending.done()
        finally:
            ending.cancel()
