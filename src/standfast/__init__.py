"""A durable queue that knows about side effects."""

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
    UnknownJob,
    UnknownQueue,
    ValueNotKept,
)
from standfast.handlers.effects import Effect, FileEffect, HttpEffect
from standfast.handlers.job import Job, current_session
from standfast.job import JobView, Receipt
from standfast.outcome import Cancel, Found, Snooze
from standfast.rules import QueueRules, adaptive, exponential, fixed, no_backoff

__all__ = [
    "ApprovalRequired",
    "Backpressure",
    "Cancel",
    "ConfigurationError",
    "Effect",
    "FileEffect",
    "Found",
    "HttpEffect",
    "IdempotencyConflict",
    "Job",
    "JobView",
    "LeaseLost",
    "PayloadRejected",
    "Permanent",
    "PolicyDenied",
    "QueueRules",
    "Receipt",
    "Snooze",
    "Standfast",
    "StandfastError",
    "StoreUnavailable",
    "Transient",
    "Uncertain",
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
