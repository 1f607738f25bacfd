"""A Celery-compatible shim: change `from celery import …` to `from standfast.celery import …`.

See docs/migrating/celery.md.
Arguments and results are JSON. What has no counterpart raises `ConfigurationError` where it is written, and the error
says what to use in standfast instead.
"""

from typing import Any

from standfast.celery.canvas import Signature, chain, chord, group, maybe_signature, signature
from standfast.celery.celery_app import Celery, current_app, shared_task
from standfast.celery.task import Task
from standfast.celery.unmapped import missing_name

__all__ = [
    "Celery",
    "Signature",
    "Task",
    "chain",
    "chord",
    "current_app",
    "group",
    "maybe_signature",
    "shared_task",
    "signature",
]


def __getattr__(name: str) -> Any:
    raise missing_name("celery", name)
