"""A durable queue that knows about side effects. `standfast.__version__` is the version that is installed.

The public names are imported when they are first used: a process that needs few of them starts sooner.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from standfast.application import Standfast, default
    from standfast.errors import (
        ApprovalRequired,
        Backpressure,
        ConfigurationError,
        IdempotencyConflict,
        LeaseLost,
        PayloadRejected,
        Permanent,
        PolicyDenied,
        StandfastError,
        StoreUnavailable,
        Transient,
        Uncertain,
        UnknownHandler,
        UnknownJob,
        UnknownQueue,
        ValueNotKept,
    )
    from standfast.job import Receipt
    from standfast.outcome import Cancel, Found, Snooze
    from standfast.rules import QueueRules, adaptive, exponential, fixed, no_backoff
    from standfast.spine.claimed_job import current_session
    from standfast.spine.registry import Handler
    from standfast.typed import EnqueueOptions, LetterFilter, QueueOptions, Reply
    from standfast.views import JobView
    from standfast.wings.effects.handler_job import Job
    from standfast.wings.effects.words import Effect, EffectToVerify, FileEffect, HttpEffect

__all__ = [
    "ApprovalRequired",
    "Backpressure",
    "Cancel",
    "ConfigurationError",
    "Effect",
    "EffectToVerify",
    "EnqueueOptions",
    "FileEffect",
    "Found",
    "Handler",
    "HttpEffect",
    "IdempotencyConflict",
    "Job",
    "JobView",
    "LeaseLost",
    "LetterFilter",
    "PayloadRejected",
    "Permanent",
    "PolicyDenied",
    "QueueOptions",
    "QueueRules",
    "Receipt",
    "Reply",
    "Snooze",
    "Standfast",
    "StandfastError",
    "StoreUnavailable",
    "Transient",
    "Uncertain",
    "UnknownHandler",
    "UnknownJob",
    "UnknownQueue",
    "ValueNotKept",
    "adaptive",
    "current_session",
    "default",
    "exponential",
    "fixed",
    "no_backoff",
]

_PLACES = {
    "application": "Standfast default",
    "errors": (
        "ApprovalRequired Backpressure ConfigurationError IdempotencyConflict LeaseLost PayloadRejected "
        "Permanent PolicyDenied StandfastError StoreUnavailable Transient Uncertain UnknownHandler "
        "UnknownJob UnknownQueue ValueNotKept"
    ),
    "job": "Receipt",
    "outcome": "Cancel Found Snooze",
    "rules": "QueueRules adaptive exponential fixed no_backoff",
    "spine.claimed_job": "current_session",
    "spine.registry": "Handler",
    "typed": "EnqueueOptions LetterFilter QueueOptions Reply",
    "views": "JobView",
    "wings.effects.handler_job": "Job",
    "wings.effects.words": "Effect EffectToVerify FileEffect HttpEffect",
}
"""By module below `standfast`, the public names that stand there."""
_MODULES = {name: module for module, names in _PLACES.items() for name in names.split()}

if TYPE_CHECKING:  # a type checker knows these names, and must refuse every other
    __version__: str
else:

    def __getattr__(name: str) -> Any:
        """Import a public name, or look the version up: reading it takes longer than most imports."""
        if name == "__version__":
            return _version()
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return found


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - read when it is asked for

    try:
        return version("standfast")
    except PackageNotFoundError:
        return "0+unknown"


def __dir__() -> list[str]:
    """Give what can be imported."""
    return [*__all__]
