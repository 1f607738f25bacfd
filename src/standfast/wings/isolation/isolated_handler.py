"""A plain handler that runs in a child process: what is checked at registration, and how an attempt proceeds."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

from standfast.errors import ConfigurationError, StoreUnavailable, Transient
from standfast.failure import Class, Failure, Landed, reason
from standfast.failure.classify import of_exception
from standfast.outcome import Failed, NotEntered, NotStarted, Outcome
from standfast.portable import CAN_RUN_CHILDREN
from standfast.spine.registry import Handler
from standfast.spine.run import Running
from standfast.wings.effects.handler_job import Job
from standfast.wings.isolation.child_process import Child, Children, Gone, StartFailed
from standfast.wings.isolation.messages import (
    Begin,
    Ended,
    Entered,
    Fetched,
    FetchReceipt,
    FetchResult,
    Note,
    Noted,
    Place,
    Report,
    Stop,
)
from standfast.wings.isolation.raised_exception import rebuilt

log = logging.getLogger("standfast.worker")

GRACE = 1.0
"""Seconds between `job.cancelled` and the kill: time for a handler that checks it to clean up."""
DIED = "process_died"
NOT_IMPORTABLE = "handler_missing"

MADE: dict[tuple[str, str, str], IsolatedHandler] = {}
"""The isolated handlers of this process, by queue, name and qualified name: a child finds what it imported here."""
in_child = False
"""Whether this process is such a child, which starts no children itself."""


class IsolatedHandler(Handler):
    """A registered plain function that runs in a child process; a direct call runs the function itself, here."""

    def __init__(
        self, function: Callable[..., Any], *given: Any, children: Children, module: str, **options: Any
    ) -> None:
        super().__init__(function, *given, **options)
        if self.is_async:
            raise ConfigurationError(
                f"handler {self.name}: isolate=True is for plain functions; an async handler is cancelled at its "
                "timeout as it is: leave isolate out, or write def instead of async def"
            )
        if not CAN_RUN_CHILDREN:
            raise ConfigurationError(
                f"handler {self.name}: isolate=True needs process groups, which this system does not have; leave it "
                "out, and have the function check job.cancelled"
            )
        self.plain = function
        self.children = children
        self.place = _place(self, module)
        self.function = IsolatedCall(self)
        self.is_async = True
        self.guarded = True
        MADE[self.place[:3]] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly, here."""
        return self.plain(*args, **kwargs)


def _place(handler: IsolatedHandler, module: str) -> Place:
    name = getattr(handler.plain, "__qualname__", type(handler.plain).__qualname__)
    main = sys.modules["__main__"]
    if module != "__main__":
        application = getattr(handler.plain, "application_in", "")
        return Place(handler.queue, handler.name, name, module, application=application)
    if main.__spec__ is not None:  # python -m application
        return Place(handler.queue, handler.name, name, main.__spec__.name)
    return Place(handler.queue, handler.name, name, module, getattr(main, "__file__", None) or "")


async def check(handlers: list[IsolatedHandler]) -> None:
    """Let a child import every isolated handler before the worker claims; raise if it cannot."""
    for handler in handlers:
        try:
            found = await _child_for(handler)
        except StartFailed as error:
            raise ConfigurationError(not_importable(handler, str(error))) from error
        if isinstance(found, str):
            raise ConfigurationError(not_importable(handler, found))
        handler.children.take_back(found)


async def _child_for(handler: IsolatedHandler) -> Child | str:
    if in_child:
        return "this process is itself the child of a worker; start workers under `if __name__ == '__main__':`"
    if handler.place.script == "":
        return "it is registered by a program that is no file, such as python -c or a prompt"
    return await handler.children.lend(handler.place)


def not_importable(handler: IsolatedHandler, why: str) -> str:
    """Word in one line that a child process cannot run a handler; the traceback of the import is logged."""
    lines = why.strip().splitlines()
    if len(lines) > 1:
        log.error("a child process could not import handler %s:\n%s", handler.name, why)
    return (
        f"handler {handler.name} of queue {handler.queue} has isolate=True, and a child process cannot import it: "
        f"{lines[-1]}. Nothing was run; register it when its module is imported, not in a function called later"
    )


def not_starting(handlers: Iterable[Handler]) -> tuple[str, ...]:
    """Return the handlers, as queue/handler, whose processes cannot be started lately, each with the reason."""
    isolated = [each for each in handlers if isinstance(each, IsolatedHandler)]
    failing = [(each, each.children.failing(each.place)) for each in isolated]
    return tuple(f"{each.queue}/{each.name}: {why}" for each, why in failing if why is not None)


async def enter(running: Running, handler: Handler, job: Job) -> Outcome | None:
    """Get a child ready before the attempt's time begins; return how the attempt ends if there is none."""
    if not isinstance(handler, IsolatedHandler):
        return None
    try:
        found = await _child_for(handler)
    except StartFailed as error:  # not enough processes or memory, or the application's import crashes or hangs
        log.warning("job %s of handler %s was not started: %s", running.claim.id, handler.name, error)
        return NotStarted(str(error), error.times)
    if isinstance(found, str):
        return _missing(not_importable(handler, found))
    if running.cut is not None:
        handler.children.take_back(found)
        return NotEntered(running.cut)
    job.child = found
    return None


def take_back(handler: Handler, job: Job) -> None:
    """Take back the child of a job that did not use it, because middleware did not call the handler."""
    if isinstance(handler, IsolatedHandler) and job.child is not None:
        child, job.child = job.child, None
        handler.children.take_back(child)


def _missing(message: str) -> Failed:
    advice = reason(NOT_IMPORTABLE).advice
    failure = Failure(
        cls=Class.PERMANENT, landed=Landed.NO, reason_code=NOT_IMPORTABLE, message=message[:2000], advice=advice
    )
    return Failed(failure, said=True)


class IsolatedCall:
    """What the worker calls instead of the function: it follows the child until its end."""

    def __init__(self, handler: IsolatedHandler) -> None:
        self._handler = handler

    async def __call__(self, job: Job) -> Any:
        """Run the handler in the job's child; return what it returned, or raise what it raised."""
        if job.child is None:
            raise RuntimeError(f"the attempt of job {job.id} has ended, so its handler was not entered")
        attempt = IsolatedAttempt(self._handler, job)
        following = asyncio.create_task(attempt.follow())
        try:
            await asyncio.wait([following])
        except asyncio.CancelledError:
            await attempt.stop(following)
            if following.cancelled():
                raise
        return _outcome(attempt.end(following))


class IsolatedAttempt:
    """One attempt in a child process."""

    def __init__(self, handler: IsolatedHandler, job: Job) -> None:
        self._handler = handler
        self._job = job
        self._child: Child = job.child
        job.child = None  # from now on it is this attempt's
        self._entered = False

    async def follow(self) -> Ended:
        """Let the child run the handler, answer its questions, and return its end.

        A child that can be followed no longer is killed first: it must not go on while the job's next attempt runs.
        """
        ended = None
        try:
            ended = await self._until_ended()
        finally:
            if ended is None:
                await self._child.kill()
        self._handler.children.take_back(self._child)
        return ended

    async def _until_ended(self) -> Ended:
        job, ledger = self._job, self._job.begun_ledger
        declared = () if ledger is None else ledger.declared
        await self._child.send(Begin(self._handler.place, job.handed_over, job.rules, declared))
        while True:
            match await self._child.receive():
                case Ended() as ended:
                    return ended
                case Entered():
                    self._entered = True
                case Note(note):
                    await self._child.send(await self._noted(note))
                case FetchReceipt(name):
                    await self._child.send(await self._fetched(name))
                case FetchResult(step):
                    await self._child.send(await self._fetched(step))
                case Report(fraction, note):
                    self._job.progress(fraction, note)

    async def _noted(self, note: Any) -> Noted:
        """Write a note of the child's ledger, and keep the worker's own ledger in step."""
        if note.id != self._job.id:  # from a thread that an earlier handler left behind in this process
            return Noted(error=f"the attempt of job {note.id} has ended; nothing was written")
        ledger = self._job.ledger
        try:
            entry = await ledger.write(note)
        except StoreUnavailable as error:
            return Noted(error=str(error))
        if entry is not None or note.state == "none":
            ledger.written(note, entry)
        return Noted(entry)

    async def _fetched(self, what: str | int) -> Fetched:
        try:
            if isinstance(what, str):
                return Fetched(await self._job.ledger.fetch(what))
            return Fetched(await asyncio.to_thread(self._job.fetch_result, what))
        except StoreUnavailable as error:
            return Fetched(error=str(error))

    def end(self, following: asyncio.Task[Ended]) -> Ended:
        """Return how the attempt ended: as the child said, or by the death of the child."""
        error = following.exception()
        if error is None:
            return following.result()
        if isinstance(error, Gone):
            return self._died(error.how, error.kind)
        log.error("job %s: its process could be followed no longer and was killed", self._job.id, exc_info=error)
        self._entered = True  # perhaps: what else the child sent is not known
        found = of_exception(error).failure
        return self._died(f"was killed: the worker could not act on what it sent ({found.summary})", found.error_kind)

    def _died(self, how: str, kind: str | None) -> Ended:
        """Judge a child that ended without a message: only this job's attempt failed with it."""
        if not self._entered:
            raise Transient(f"its process {how} before the handler was entered", reason_code=DIED)
        failure = Failure(
            cls=Class.UNKNOWN,
            landed=Landed.MAYBE,
            reason_code=DIED,
            error_kind=kind,
            message=f"the process that ran it {how}",
            advice=reason(DIED).advice,
        )
        return Ended(failed=Failed(failure))

    async def stop(self, following: asyncio.Task[Ended]) -> None:
        """Tell the handler to stop, and kill its process group if it has not ended soon after."""
        try:
            await self._child.send(Stop())
            await asyncio.wait([following], timeout=GRACE)
        finally:
            if not following.done():
                following.cancel()
                await self._child.kill()
                await asyncio.wait([following])


def _outcome(ended: Ended) -> Any:
    if ended.failed is not None and ended.trace is not None:
        raise rebuilt(ended.error, ended.failed, ended.trace)
    return ended.succeeded or ended.failed or ended.snoozed or ended.cancelled
