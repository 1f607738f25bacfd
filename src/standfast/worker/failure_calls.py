"""The application's hooks for failed attempts (`@sf.on_failure`): they never delay or change the end of a job."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from standfast.concurrency.user_code import call_user_code, in_own_task
from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.lifecycle import State, Transition
from standfast.spine.claimed_job import CURRENT, SESSION, ClaimedJob
from standfast.store.store import Store
from standfast.views import FailureView
from standfast.wings.jobs.scripts import count_hook_failures
from standfast.wings.tracebacks.words import Traceback

log = logging.getLogger("standfast.worker")

Hook = TypeVar("Hook", bound=Callable[..., Any])
AT_ONCE = 32
"""The most calls that run side by side; each call of a plain function takes a thread."""
LONGEST_CALL = 60.0
"""Seconds after which a call counts as failed; a plain function that hangs stays in its thread."""
MOST_WAITING = 1000
"""The most failures that are or wait to be reported: each keeps its exception, and all that refers to, in memory."""
NO_FAILURES = frozenset({"cancelled", "consent_required", "consent_denied"})
"""Reason codes that are not failures of an attempt: a person decided so, or is asked first."""


class ReportedFailure(FailureView, frozen=True, kw_only=True):
    """A failed attempt, as hooks receive it."""

    final: bool
    """Whether this was the last attempt: the job is dead or held now, and runs again only if it is replayed."""


class FailureCalls:
    """The calls to the hooks of this process from one event loop."""

    def __init__(self, store: Store, hooks: Sequence[Callable[..., Any]]) -> None:
        self._store = store
        self._hooks = hooks
        self._under_way: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Semaphore(AT_ONCE)

    def report(self, job: ClaimedJob, end: Transition, error: BaseException | None = None) -> None:
        """Call every hook with how an attempt failed. This waits for none of them, and raises nothing."""
        failed = end.failure
        if not self._hooks or failed is None or not NO_FAILURES.isdisjoint(failed.codes):
            return
        if len(self._under_way) >= MOST_WAITING:
            what = "on_failure is not called for job %s: %d calls wait already"
            log.error(what, job.id, MOST_WAITING, extra=job.log_fields)
            self._start(self._count(job.queue))
            return
        raised = end.rider(Traceback)
        text, final = None if raised is None else raised.text, end.target != State.QUEUED
        failure = ReportedFailure(**msgspec.structs.asdict(failed), traceback=text, final=final)
        self._start(self._call_all(job, failure, error))

    def _start(self, work: Any) -> None:
        call = asyncio.get_running_loop().create_task(work)
        self._under_way.add(call)
        call.add_done_callback(self._under_way.discard)

    async def _call_all(self, job: ClaimedJob, failure: ReportedFailure, error: BaseException | None) -> None:
        CURRENT.set(job)
        SESSION.set(job.session)
        async with self._turn:
            for hook in self._hooks:
                broke = await _call(hook, job, failure, error)
                if broke is not None:
                    what = "the on_failure hook %s failed; what becomes of job %s is not affected"
                    about = {**job.log_fields, "reason_code": failure.reason_code}
                    log.error(what, getattr(hook, "__name__", repr(hook)), job.id, exc_info=broke, extra=about)
                    await self._count(job.queue)

    async def _count(self, queue: str) -> None:
        try:
            await self._store.write(count_hook_failures, queue)
        except StoreUnavailable as error:
            log.warning("a failed on_failure hook is not counted: %s", error)

    async def finish(self, grace: float) -> None:
        """Wait `grace` seconds for the calls under way; leave behind those that take longer."""
        if self._under_way:
            await asyncio.wait([*self._under_way], timeout=grace)


async def _call(hook: Callable[..., Any], *given: Any) -> BaseException | None:
    """Call a hook, and return the error if that failed."""
    call = asyncio.ensure_future(in_own_task(call_user_code(hook, *given)))
    await asyncio.wait([call], timeout=LONGEST_CALL)
    if not call.done():
        call.cancel()
        return TimeoutError(f"it took longer than {LONGEST_CALL:g} s")
    return asyncio.CancelledError() if call.cancelled() else call.exception()


def checked_hook(hook: Hook) -> Hook:
    """Refuse a function that cannot be called as a hook, now rather than at the first failure."""
    try:
        inspect.signature(hook).bind(None, None, None)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"@sf.on_failure takes a function of three arguments, def hook(job, failure, exception), not {hook!r}"
        ) from error
    return hook
