"""What tasks raise and what results raise, under Celery's names."""

from __future__ import annotations

import builtins
import re
import sys
from typing import Any

from standfast.celery.unmapped import missing_name
from standfast.views import FailureView

_QUALIFIED = re.compile(r"^([A-Za-z_][\w.]*)\.([A-Za-z_]\w*)(?::|$)", re.MULTILINE)

_PLACE = re.compile(r" ?\(at [^()]+:\d+ in [^()]+\)$")
"""Where an exception was raised, as its message ends in the store."""


class Ignore(Exception):
    """Raised by a task: forget this run. Its job ends cancelled, and what comes after it in a canvas does not run."""


class Reject(Exception):
    """Raised by a task: this run is refused. It becomes a dead letter, or with `requeue` goes back to its queue."""

    def __init__(self, reason: object = None, requeue: bool = False) -> None:  # noqa: FBT001, FBT002 - Celery's signature
        super().__init__(reason, requeue)
        self.reason = reason
        self.requeue = requeue


class Retry(Exception):
    """Raised by `self.retry()`: run this task again. `when` is how many seconds from now."""

    def __init__(self, message: str | None = None, exc: BaseException | None = None, when: float | None = None) -> None:
        super().__init__(message or f"Retry in {when} s: {exc!r}")
        self.message = message
        self.exc = exc
        self.when = when


class MaxRetriesExceededError(Exception):
    """Raised by `self.retry()` without `exc=` when no retry is left."""


class NotRegistered(KeyError):
    """The app has no task of this name."""


class TimeoutError(builtins.TimeoutError):  # noqa: A001 - Celery's name
    """A result did not come in the time it was given."""


class TimeLimitExceeded(Exception):
    """A task ran longer than its time_limit, so its process was killed."""


class TaskRevokedError(Exception):
    """The task was revoked, or expired before it ran."""


class ChordError(Exception):
    """A task before this one in a canvas failed, so this one waits: replay that task and it goes on."""


class TaskFailure(Exception):
    """A task failed with an exception whose class this process does not have."""


def rebuild(failure: FailureView | None) -> Exception:
    """Give the exception that a failure tells of, of its own class where this process has imported that."""
    if failure is None:
        return TaskFailure("the task failed, and nothing is known about why")
    if "timeout" in failure.codes and failure.error_kind is None:  # a task that raised TimeoutError has its kind
        return TimeLimitExceeded(failure.message)
    found = _class_of(failure)
    if found is None:
        return TaskFailure(failure.summary)
    try:
        return found(_PLACE.sub("", failure.message))
    except TypeError:  # it wants other arguments
        return TaskFailure(failure.summary)


def _class_of(failure: FailureView) -> type[Exception] | None:
    name = failure.error_kind or ""
    found: Any = getattr(builtins, name, None)
    for module, last in _QUALIFIED.findall(failure.traceback or ""):
        if last == name and module in sys.modules:
            found = getattr(sys.modules[module], name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def __getattr__(name: str) -> Any:
    raise missing_name("celery.exceptions", name)
