"""Every error a caller can get.

StandfastError
├── StoreUnavailable      the store did not answer; `.definite` says whether anything can have been written
│   ├── LowDisk           there is too little disk space left to accept new work
│   └── StoreGone         waiting does not bring it back
│       ├── StoreClosed   this object was closed; nothing was written
│       └── StoreUnusable this process cannot use the store any more
│           ├── StoreMoved    the store was promoted and is elsewhere now
│           ├── StoreDamaged  its file was removed, replaced or cut while in use
│           └── SchemaTooNew  a newer version of standfast has changed it
├── Backpressure          the queue is full; nothing was written
├── IdempotencyConflict   the key is taken by another payload; nothing was written
├── PayloadRejected       the payload cannot be stored or does not fit its handler; nothing was written
├── UnknownJob            no job has this id
│   └── NotALetter        the job exists, but is neither dead nor held
├── UnknownQueue          no such queue
├── UnknownHandler        no process ever published this handler; nothing was written
│   └── UnreachedHandler  the caller's token may not call a handler of this name
├── UnknownRequest        no approval, plan or redrive has this id
├── PlanDrifted           letters or policy have changed since the plan; nothing was started
├── PolicyDenied          the policy says no
│   └── ApprovalRefused   this person may not answer the approval, or it is no longer open
├── ApprovalRequired      the policy requires a person's approval first
├── NotVerified           the effects of a letter are missing or undetermined; nothing was changed
├── LeaseLost             another worker may own this job now; stop
├── StartupFailed         a start-up hook of the application failed; nothing was claimed
├── ConfigurationError    a setting, file or version must be corrected first
│   ├── WrongAddress      the store cannot be used with this address, role or file; waiting does not help
│   ├── OtherDatabase     tx= leads to a database other than the store's own; nothing was written
│   └── PolicyRefused     a policy, or a list of cases for one, is invalid
└── HandlerFailure        raised by a handler to say how it failed
    ├── Transient         repeating can help, and nothing happened yet
    ├── Permanent         repeating cannot help, and nothing happened
    │   └── ValueNotKept  an effect or step is done, but its result cannot be stored
    └── Uncertain         it may have happened
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

NEAREST = 3
"""How many similar names an error suggests."""
SYNONYMS = {"retries": "attempts", "max_retries": "attempts", "tries": "attempts"}
"""Names that other job queues use, and the names they have here."""


class StandfastError(Exception):
    """The root: catching it catches everything standfast raises on purpose."""

    @property
    def outside(self) -> str:
        """The message for a remote caller."""
        return str(self)


class StoreUnavailable(StandfastError):
    """The store did not answer in time or refused. If `definite`, nothing was written and calling again is safe."""

    def __init__(self, message: str, *, definite: bool) -> None:
        super().__init__(message)
        self.definite = definite

    @property
    def outside(self) -> str:
        """Leave out the store's address and what its driver said: the caller may be anyone."""
        written = "nothing was written" if self.definite else "it may have been written"
        return f"the store cannot do this now; {written}"


class LowDisk(StoreUnavailable):
    """There is too little disk space left to accept new work; jobs that are stored are still finished."""


class StoreGone(StoreUnavailable):
    """The store will not come back, however long callers wait: nothing is spooled for it."""


class StoreClosed(StoreGone):
    """A closed object was used: it no longer opens the store by itself. Nothing was written."""

    def __init__(self) -> None:
        super().__init__(
            "this Standfast was closed; nothing was written: make a new one, or open this one again with "
            "`async with sf` or `await sf.open()`",
            definite=True,
        )


class StoreUnusable(StoreGone):
    """Waiting does not help: this process cannot use the store any more, and the message says what to do."""

    _doubt = "an earlier try may have been written"

    def __init__(self, what: str, step: str, *, definite: bool = True) -> None:
        written = "nothing was written" if definite else self._doubt
        super().__init__(f"{what}; {written}: {step}", definite=definite)
        self._words = (what, step)

    def for_caller(self, *, definite: bool) -> StoreUnusable:
        """Return the error for one caller: whether anything of its request can have been written."""
        return type(self)(*self._words, definite=definite)


class StoreMoved(StoreUnusable):
    """The store was promoted: it is at `home` now, and nothing is written or read here any more."""

    _doubt = "an earlier try may have been written, and moved with it"

    def __init__(self, home: str, *, definite: bool = True) -> None:
        super().__init__(f"this store has moved to {home}", "use that one from now on", definite=definite)
        self.home = home

    def for_caller(self, *, definite: bool) -> StoreMoved:
        """Return the error for one caller."""
        return StoreMoved(self.home, definite=definite)


class StoreDamaged(StoreUnusable):
    """The store's file was removed, replaced or cut while this process had it open: nothing is written there."""


class SchemaTooNew(StoreUnusable):
    """A newer version of standfast has changed the store in a way that this version cannot read."""


class Backpressure(StandfastError):
    """The queue is full. Nothing was written; call again later."""


class IdempotencyConflict(StandfastError):
    """The idempotency key already belongs to a job with another payload. Nothing was written."""

    def __init__(self, message: str, *, job_id: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class PayloadRejected(StandfastError):
    """The payload cannot be stored, or its handler could not read it. Nothing was written."""

    @classmethod
    def by(cls, handler: str, error: Exception) -> PayloadRejected:
        """Return the error for a payload that a handler could not read, in one line."""
        lines = (line.strip() for line in str(error).splitlines())  # pydantic writes several, the last a web address
        why = "; ".join(line for line in lines if line and not line.startswith("For further information"))
        return cls(f"the payload does not fit {handler}: {why}; nothing was written")


class UnknownJob(StandfastError):
    """No job has this id: it never existed here, or it was pruned."""

    @classmethod
    def for_id(cls, job_id: str | None, *, outbox: bool = False) -> UnknownJob:
        """Return the error for an id; `outbox` says whether the application has an outbox that the job may be in."""
        also = ", or it is still in an outbox of the application" if outbox else ""
        return cls(f"no job has the id {job_id!r}: it never existed here, or it was pruned{also}")


class NotALetter(UnknownJob):
    """The job exists, but is neither dead nor held."""


class UnknownQueue(StandfastError):
    """No queue has this name."""


class UnknownHandler(StandfastError):
    """No process ever published a handler of this name. Nothing was written; `nearest` are similar names."""

    _what = "no process ever published a handler"
    _next_step = "start the process that has it, or correct the name"

    def __init__(self, message: str, *, nearest: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.nearest = tuple(nearest)

    @classmethod
    def for_name(cls, name: str, known: Iterable[str]) -> Self:
        """Return the error for a name, with the nearest of the known ones."""
        from difflib import get_close_matches  # noqa: PLC0415 - only an error pays for it, not every start

        by_part = {part: whole for whole in sorted(known) for part in (whole, *whole.split("/"))}
        near = list(dict.fromkeys(by_part[each] for each in get_close_matches(name, by_part, n=NEAREST)))
        meant = f"did you mean {' or '.join(near)}?" if near else cls._next_step
        return cls(f"{cls._what} {name!r}; nothing was written: {meant}", nearest=near)


class UnreachedHandler(UnknownHandler):
    """The caller's token may not call a handler of this name; the error does not say whether one exists."""

    _what = "this token may not call a handler named"
    _next_step = "ask for a token for its queue, or correct the name"


class PolicyDenied(StandfastError):
    """The policy refuses this."""


class ApprovalRefused(PolicyDenied):
    """An answer was refused: this person may not give it, or the approval is no longer open."""


class UnknownRequest(StandfastError):
    """No approval, plan or redrive has this id: it never existed here, or it was deleted."""

    @classmethod
    def for_id(cls, what: str, given: str) -> UnknownRequest:
        """Return the error for an id."""
        return cls(f"no {what} has the id {given!r}: it never existed here, or it was deleted")


class UnknownSchedule(UnknownRequest):
    """No schedule has this name."""

    @classmethod
    def for_id(cls, name: object, _given: str = "") -> UnknownSchedule:
        """Return the error for a name."""
        return cls(f"no schedule is called {name!r}; list them with `standfast schedule list`")


class PlanDrifted(StandfastError):
    """A plan cannot be carried out as it was made. Nothing was started; plan again."""


class ApprovalRequired(StandfastError):
    """The policy requires a person to approve this first."""


class NotVerified(StandfastError):
    """A letter cannot be resolved or amended, because of what is known of its effects. Nothing was changed.

    To resolve it, every effect must exist; to amend it, no effect may exist that is not recorded.
    """


class LeaseLost(StandfastError):
    """The attempt no longer owns its job: stop, another worker may be running it."""


class StartupFailed(StandfastError):
    """A start-up hook of the application failed. Nothing was claimed; fix it and start the worker again."""


class ConfigurationError(StandfastError):
    """Something must be corrected before this can work; the message says what."""

    @classmethod
    def unknown(cls, what: str, given: object, known: Iterable[str]) -> ConfigurationError:
        """Return the error for an unknown word, with the known one that was probably meant."""
        from difflib import get_close_matches  # noqa: PLC0415 - only an error pays for it, not every start

        words = list(known)
        as_part = [each for each in words if str(given) in each.split("_")]
        same = [SYNONYMS[str(given)]] if SYNONYMS.get(str(given)) in words else []
        near = same or get_close_matches(str(given), words, n=1) or as_part
        suggestion = f" (did you mean {near[0]!r}?)" if near else ""
        return cls(f"unknown {what} {given!r}{suggestion}; known are {', '.join(words)}")


class WrongAddress(ConfigurationError):
    """The store's host, database, role, password, permissions or file are wrong. Nothing was written or spooled."""

    @property
    def outside(self) -> str:
        """Leave out the store's address and what its driver said: the caller may be anyone."""
        return "the store cannot be used as it is configured; nothing was written"


class OtherDatabase(ConfigurationError):
    """The connection given as `tx=` leads to a database other than the store's. Nothing was written."""


class PolicyRefused(ConfigurationError):
    """A policy was refused, with the place in its text; the last good one stays in force."""

    def __init__(self, message: str, *, source: str, line: int, column: int) -> None:
        super().__init__(f"{source}, line {line}, column {column}: {message}")
        self.line = line
        self.column = column


class HandlerFailure(StandfastError):
    """A handler raises this if it knows how it failed: `Transient`, `Permanent` or `Uncertain`, or your own subclass.

    All of them take a message for people, and as keyword arguments `reason_code` and `error_kind`, by which you find,
    group and route such failures (a subclass may set both as class attributes), and `retry_after`, the seconds until
    the next attempt in place of the queue's backoff, at most a day. `retry_after` has no effect if the job is not tried
    again.
    """

    reason_code: str | None = None
    error_kind: str | None = None

    def __init__(
        self,
        message: str = "",
        *,
        reason_code: str | None = None,
        error_kind: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason_code = reason_code or self.reason_code
        self.error_kind = error_kind or self.error_kind
        self.retry_after = retry_after


class Transient(HandlerFailure):
    """Raise this if the work did not happen and another attempt may succeed: `Transient("busy", retry_after=30)`.

    The job is tried again after the queue's backoff, or after `retry_after` seconds, while it has attempts left.
    """


class Permanent(HandlerFailure):
    """Raise this if the work did not happen and another attempt cannot succeed: `Permanent("no such customer")`.

    The job becomes a dead letter at once, however many attempts it has left.
    """


class Uncertain(HandlerFailure):
    """Raise this if the work may have happened: `Uncertain("the connection broke after the request")`.

    The handler's `replay` mode decides: try again, verify its effects first, or leave it to a person.
    """


class ValueNotKept(Permanent):
    """An effect or step is done, but its receipt or value is not JSON or too big. Nothing is repeated automatically."""

    reason_code = "value_not_kept"

    @classmethod
    def because(cls, name: str, why: str) -> ValueNotKept:
        """Return the error for a value that was refused."""
        why = why.replace("the payload", "it").replace(" at payload", " at value").removesuffix("; nothing was written")
        instead = "return or record what names it, such as an id"
        return cls(f"{name!r} is done, but its result cannot be stored: {why}; {instead}")
