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
from standfast.job import Receipt
from standfast.outcome import Cancel, Found, Snooze
from standfast.rules import QueueRules, adaptive, exponential, fixed, no_backoff
from standfast.spine.claimed_job import current_session
from standfast.views import JobView
from standfast.wings.effects.handler_job import Job
from standfast.wings.effects.words import Effect, FileEffect, HttpEffect

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
