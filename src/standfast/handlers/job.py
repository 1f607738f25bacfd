"""The job as its handler sees it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import cached_property
from typing import Any

import msgspec

from standfast.handlers.ledger import Block, Ledger, undeclared
from standfast.handlers.parents import Fetch, Parents
from standfast.job import Claim, Coalesced
from standfast.rules import QueueRules

_decode = msgspec.json.decode
_session: ContextVar[str | None] = ContextVar("standfast_session", default=None)


def current_session() -> str | None:
    """Give the session this code runs for, also while a worker replays its work."""
    return _session.get()


def enter_session(session: str | None) -> None:
    """Run what follows in this context for the given session."""
    _session.set(session)


class Job:
    """One attempt at a job. `cancelled` turns true when the attempt should stop: look at it in long loops.

    `input` is the payload as the handler's `input=` type. Where a queue collects (`coalesce="collect"`), jobs with a
    thread key have a list of payloads in `payload`, also if only one came, and a list of such inputs in `input`.
    """

    def __init__(self, claim: Claim, rules: QueueRules, input: Any = None, *, fetch: Fetch | None = None) -> None:
        self._claim = claim
        self._ledger: Ledger | None = None
        self._fetch = fetch
        self.rules = rules
        self.input = input
        self.cancelled = False

    @property
    def id(self) -> str:
        """The job's id, the same on every attempt and replay."""
        return self._claim.id

    @property
    def queue(self) -> str:
        """The queue it came through."""
        return self._claim.queue

    @cached_property
    def payload(self) -> Any:
        """What was enqueued."""
        return _decode(self._claim.payload)

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._claim.attempts

    @property
    def token(self) -> int:
        """The fencing token: hand it to receivers that can refuse an older one."""
        return self._claim.token

    @property
    def idempotency_key(self) -> str:
        """A stable key to hand to receivers: the caller's, else the job's id; an amended payload has another one."""
        return self._claim.idempotency_key or self._claim.identity

    @property
    def identity(self) -> str:
        """What names this work, the same on every attempt and replay: the job's id, until its payload is amended."""
        return self._claim.identity

    @property
    def repeatable(self) -> bool:
        """Whether this may run again by itself if nobody learns how it ended."""
        return self._claim.repeatable

    @property
    def timeout(self) -> float | None:
        """How many seconds this attempt may take; None is no limit."""
        return self._claim.timeout

    @property
    def session(self) -> str | None:
        """The session this was enqueued for."""
        return self._claim.details.session

    @property
    def requester(self) -> str | None:
        """Who asked for this."""
        return self._claim.details.requester

    @property
    def coalesced(self) -> Coalesced | None:
        """What was folded into this job while it waited: how many, and the last of them."""
        return self._claim.coalesced

    @property
    def labels(self) -> dict[str, str]:
        """The caller's labels."""
        return self._claim.details.labels or {}

    @cached_property
    def parents(self) -> Parents:
        """By name, the results of the steps of its workflow that this one comes after; empty for other jobs."""
        return Parents(self._claim.parents or {}, self._fetch)

    def effect(self, name: str) -> Block:
        """Open a block around one declared effect: `async with job.effect("ticket") as e:`; `with` in a plain function.

        That it begins is on disk before the block is entered. Where `e.done`, an earlier attempt did it and `e.receipt`
        is what it recorded: skip it. Hand `e.key` to the receiver, the same on every attempt. `e.record(receipt)` keeps
        what came of it; leaving the block without it counts as done, leaving it by an exception as possibly done,
        unless that is `Transient` or `Permanent`.
        """
        if self._ledger is None:
            raise undeclared(name, self._claim.handler, self.queue, ())
        return self._ledger.block(name)

    async def once(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function, plain or async, for one declared effect; on every later attempt give its stored receipt.

        The receipt is what it returned, as JSON has it.
        """
        _check_callable(name, function, "await job.once")
        async with self.effect(name) as effect:
            if not effect.done:
                result = function(*args, **kwargs)
                effect.record(await result if inspect.isawaitable(result) else result)
        return effect.receipt

    def once_sync(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do the same in a plain function."""
        _check_callable(name, function, "job.once_sync")
        with self.effect(name) as effect:
            if not effect.done:
                effect.record(function(*args, **kwargs))
        return effect.receipt

    @property
    def ledger(self) -> Ledger:
        """The ledger of this attempt, for built-in handlers; others use `effect` and `once`."""
        if self._ledger is None:
            raise undeclared("", self._claim.handler, self.queue, ())
        return self._ledger

    def keep(self, ledger: Ledger) -> None:
        """Take the ledger of this attempt; a handler that declares no effects has none."""
        self._ledger = ledger

    def of(self, payload: Any, input: Any = None) -> Job:
        """Give this job as if it had another payload, for checks of an operation that it only wraps."""
        text = msgspec.json.encode(payload).decode()
        return Job(msgspec.structs.replace(self._claim, payload=text), self.rules, input, fetch=self._fetch)


def _check_callable(name: str, function: object, call: str) -> None:
    """Refuse what was called already, before an intent is written for it."""
    if not callable(function):
        if inspect.iscoroutine(function):
            function.close()  # or Python warns of what is told here
        raise TypeError(f"write {call}({name!r}, function, arguments…): it calls the function itself, if that is to be")
