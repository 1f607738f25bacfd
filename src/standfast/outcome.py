"""How an attempt ended, as a value: `spine.settle` turns each into a Transition."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.failure import Failure, Verdict

LONGEST_SNOOZE = 1e10
"""About three hundred years: anything longer is a mistake, and no calendar shows it."""
LARGEST_RESULT = 1 << 20
"""The most bytes of JSON in a result, a receipt or the value of a step."""


class Snooze(msgspec.Struct, frozen=True):
    """Returned by a handler: not now, come back after so many seconds. It spends no attempt."""

    seconds: float

    def __post_init__(self) -> None:
        """Refuse an invalid time to wait here, where the handler can still be told."""
        if not isinstance(self.seconds, int | float):
            raise TypeError(f"Snooze takes a number of seconds, not {self.seconds!r}")
        if not self.seconds <= LONGEST_SNOOZE:  # also refuses NaN
            raise ValueError(f"Snooze takes at most {LONGEST_SNOOZE:.0f} seconds, not {self.seconds!r}")
        if type(self.seconds) not in {int, float}:  # such as NumPy's, which cannot be written
            msgspec.structs.force_setattr(self, "seconds", float(self.seconds))


class Cancel(msgspec.Struct, frozen=True):
    """Returned by a handler: this is no longer wanted."""

    why: str = ""

    def __post_init__(self) -> None:
        """Refuse a reason that is not text here, where the handler can still be told."""
        if not isinstance(self.why, str):
            raise TypeError(f"Cancel takes a text, not {self.why!r}")


class Succeeded(msgspec.Struct, frozen=True):
    """The handler returned a result (JSON text), or one that could not be stored (`warning`)."""

    result: str | None = None
    warning: str | None = None


class Failed(msgspec.Struct, frozen=True):
    """The handler was entered and failed. `retry_after` replaces the backoff exactly."""

    failure: Failure
    retry_after: float | None = None
    said: bool = False
    """Whether the handler itself said whether its effect may exist; then the ledger does not know better."""
    doubts: tuple[str, ...] | None = None
    """The effects that, by the handler's own result, do not exist, whatever the ledger says; () means all of them."""
    refused: bool = False
    """Whether the receiver refused for now and said when to come back: that is `retry_after`, and not a failure."""


class Found(msgspec.Struct, frozen=True):
    """Returned by a check: the effect exists, and this is its receipt, as if the handler had recorded it."""

    receipt: Any = None


ALL = ""
"""The name in a look that is about all effects of a job, because it could not be determined which ones it has."""


class Look(msgspec.Struct, frozen=True):
    """What one check found out about an effect, and a note why if it could not tell."""

    name: str
    verdict: Verdict
    note: str = ""
    receipt: str | None = None
    """What was found, as JSON text."""
    key: str = ""
    """Its key in the ledger, if that is not its name."""
    by_ledger: bool = False
    """Whether the ledger answered, without a look at the world."""
    again: bool = False
    """Whether the check failed only for now, and may be able to tell later."""
    retry_after: float | None = None


class Recovered(msgspec.Struct, frozen=True):
    """A look before the repeat found every effect: nothing is left to run."""

    looks: tuple[Look, ...]
    entered: bool = False
    """Whether this attempt made the effects itself, and only its end is unknown; then the attempt is spent."""
    result: str | None = None
    """What was found, as JSON text."""


class Unfinished(msgspec.Struct, frozen=True):
    """A look after the attempt found every effect, but the handler did not finish."""

    ended: Failed | TimedOut
    looks: tuple[Look, ...]


class LookFailed(msgspec.Struct, frozen=True):
    """A look before the repeat failed for now: nothing was run, and there will be another look later."""

    looks: tuple[Look, ...]
    message: str
    retry_after: float | None = None


class Undetermined(msgspec.Struct, frozen=True):
    """A look before the repeat could not tell whether an effect exists: nothing was run."""

    looks: tuple[Look, ...]
    message: str
    entered: bool = False
    """Whether the look came after this attempt rather than before it; then the attempt is spent."""


class Drained(msgspec.Struct, frozen=True):
    """The worker had to stop, and cut the handler off."""


class Lapsed(msgspec.Struct, frozen=True):
    """The worker vanished: its process died or its lease ran out. How far the handler got is unknown."""

    alone: bool = True
    """Whether the worker held no other job; then the attempt counts, because this job may have killed the worker."""


class TimedOut(msgspec.Struct, frozen=True):
    """The handler took longer than its timeout, and was cut off."""


class Misfit(msgspec.Struct, frozen=True):
    """The payload does not fit its handler, which was never entered."""

    message: str


class NotEntered(msgspec.Struct, frozen=True):
    """The job was claimed, but the handler was never entered."""

    why: str


class NotStarted(NotEntered, frozen=True):
    """No process could be started in which the handler would run."""

    times: int = 1
    """How often in a row that failed for this handler."""


class Unconsented(msgspec.Struct, frozen=True):
    """The session has not consented to this handler, or consent was denied: the handler was not entered."""

    message: str
    denied: bool = False


Outcome = (
    Succeeded
    | Failed
    | Snooze
    | Cancel
    | Drained
    | TimedOut
    | Lapsed
    | Misfit
    | NotEntered
    | Recovered
    | Unfinished
    | LookFailed
    | Undetermined
    | Unconsented
)

JSONValue = Any
"""What a payload or result may contain: dicts with string keys, lists, strings, numbers, booleans, None."""
