"""The job as its handler receives it."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cached_property
from typing import Any, Protocol

import msgspec

from standfast.job import Claim, Coalesced
from standfast.rules import QueueRules

_decode = msgspec.json.decode
SESSION: ContextVar[str | None] = ContextVar("standfast_session", default=None)
"""The session for which the current code runs."""
CURRENT: ContextVar[ClaimedJob | None] = ContextVar("standfast_job", default=None)
"""The job for which the current code runs; log lines name it."""


def current_session() -> str | None:
    """Return the session for which the current code runs, also when a worker repeats that session's work."""
    return SESSION.get()


class WorkDone(Protocol):
    """The effects that an attempt recorded."""

    def added_to(self, claim: Claim) -> Claim:
        """Return the claim with these effects added."""


class ClaimedJob:
    """One attempt at a job. `keeper` is for wings that add to this class."""

    _ledger: WorkDone | None = None
    add_to_end: Any = None  # a wing's function that adds what it has to write to the attempt's end

    def __init__(self, claim: Claim, rules: QueueRules, input: Any = None, keeper: Any = None) -> None:
        self._claim = claim
        self._keeper = keeper
        self.rules = rules
        self.input = input
        self.cancelled = False

    @property
    def id(self) -> str:
        """The job's id, the same on every attempt and replay."""
        return self._claim.id

    @property
    def queue(self) -> str:
        """The queue it was enqueued in."""
        return self._claim.queue

    @property
    def log_fields(self) -> dict[str, str | int | None]:
        """The fields that log lines about this attempt have: job, queue, handler, attempt, worker and session."""
        return self._claim.log_fields

    @cached_property
    def payload(self) -> Any:
        """The payload that was enqueued."""
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
        """A stable key for receivers: the caller's key, else the job's id. An amended payload has a new one."""
        return self._claim.idempotency_key or self._claim.identity

    @property
    def identity(self) -> str:
        """What identifies this work on every attempt and replay: the job's id, until its payload is amended."""
        return self._claim.identity

    @property
    def repeatable(self) -> bool:
        """Whether this job may run again automatically if its outcome is unknown."""
        return self._claim.repeatable

    @property
    def timeout(self) -> float | None:
        """How many seconds this attempt may take; None means no limit."""
        return self._claim.timeout

    @property
    def session(self) -> str | None:
        """The session this job was enqueued for."""
        return self._claim.details.session

    @property
    def requester(self) -> str | None:
        """Who asked for this job."""
        return self._claim.details.requester

    @property
    def coalesced(self) -> Coalesced | None:
        """What was folded into this job while it waited: how many jobs, and the last of them."""
        return self._claim.coalesced

    @property
    def labels(self) -> dict[str, str]:
        """The caller's labels."""
        return self._claim.details.labels or {}

    def as_it_stands(self, claim: Claim) -> Claim:
        """Return a claim of this job with the effects that this attempt has recorded so far."""
        return claim if self._ledger is None else self._ledger.added_to(claim)
