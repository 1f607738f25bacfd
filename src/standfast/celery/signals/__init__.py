"""Celery's signals have no counterpart: each import says what to use instead."""

from __future__ import annotations

from typing import Any

from standfast.celery.unmapped import missing_name


def __getattr__(name: str) -> Any:
    raise missing_name("celery.signals", name)
