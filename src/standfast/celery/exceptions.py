"""The exceptions of tasks and results, under Celery's names."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from standfast.celery.unmapped import missing_name
from standfast.concurrency.guarded import call_guarded
from standfast.views import FailureView

_QUALIFIED = re.compile(r"^([A-Za-z_][\w.]*)\.([A-Za-z_]\w*)(?::|$)", re.MULTILINE)

_NOTES = re.compile(r"( ?\(at [^()]+:\d+ in [^()]+\))?((^|; )begun, and not known to be done: .*)?\Z")
"""What the store appends to a message: where the exception was raised, and which effects are open."""


class Ignore(Exception):
    """Raised by a task to forget this run. Its job ends cancelled, and the tasks after it in a canvas do not run."""


class Reject(Exception):
    """Raised by a task to refuse this run. It becomes a dead letter, or with `requeue` goes back to its queue."""

    def __init__(self, reason: object = None, requeue: bool = False) -> None:  # noqa: FBT001, FBT002 - Celery's signature
        super().__init__(reason, requeue)
        self.reason = reason
        self.requeue = requeue


class Retry(Exception):
    """Raised by `self.retry()` to run this task again, `when` seconds from now."""

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
    """A result did not arrive within the timeout."""


class TimeLimitExceeded(Exception):
    """A task ran longer than its time_limit, so its process was killed."""


class TaskRevokedError(Exception):
    """The task was revoked, or expired before it ran."""


class ChordError(Exception):
    """An earlier task of this canvas failed, so this one waits: replay that task, and the canvas continues."""


class TaskFailure(Exception):
    """A task failed without an exception, or with one that this process cannot rebuild."""


def rebuild(failure: FailureView | None) -> Exception:
    """Return the exception behind a failure, of its own class if this process has imported that."""
    if failure is None:
        return TaskFailure("the task failed, and nothing is known about why")
    text = _NOTES.sub("", failure.message, count=1)
    if "timeout" in failure.codes and failure.error_kind is None:  # a task that raised TimeoutError has its kind
        return TimeLimitExceeded(text)
    found = _class_of(failure)
    made = [] if found is None else list(_candidates(found, text))
    alike = (each for each in made if _text_of(each) == text)
    summary = ": ".join(part for part in (failure.error_kind, text) if part)
    return next(alike, None) or next(iter(made), None) or TaskFailure(summary or failure.reason_code)


def _candidates(found: type[Exception], text: str) -> Iterator[Exception]:
    """Yield candidates for the exception, made from its text in the ways that exceptions get text from arguments."""
    read = call_guarded(lambda: ast.literal_eval(text), lambda _error: None)
    likely = (
        [read] if isinstance(read, tuple) else [(read,)] if issubclass(found, KeyError) and read is not None else []
    )
    for args in (*likely, (text,)):
        made = call_guarded(partial(found, *args), lambda _error: None)
        if isinstance(made, Exception):
            yield made
    bare = call_guarded(lambda: found.__new__(found, text), lambda _error: None)  # its __init__ takes other arguments
    if bare is not None and _text_of(bare) == text:
        yield bare


def _text_of(error: Exception) -> str | None:
    return call_guarded(lambda: str(error), lambda _error: None)


def _class_of(failure: FailureView) -> type[Exception] | None:
    name = failure.error_kind or ""
    found: Any = getattr(builtins, name, None)
    for module, last in _QUALIFIED.findall(failure.traceback or ""):
        if last == name:
            found = _imported(module, last) or found
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _imported(place: str, name: str) -> Any:
    """Find a name in a module or in a class of one, such as a Django model's DoesNotExist; None if not imported."""
    module, *inner = place, name
    while module and module not in sys.modules:
        module, _, last = module.rpartition(".")
        inner.insert(0, last)
    found: Any = sys.modules.get(module)
    for each in inner:
        found = getattr(found, each, None)
    return found


def __getattr__(name: str) -> Any:
    raise missing_name("celery.exceptions", name)
