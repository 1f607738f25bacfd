"""Celery's signals do not map: each import says what standfast has in its place."""

from __future__ import annotations

from typing import Any

from standfast.celery.unmapped import missing_name


def __getattr__(name: str) -> Any:
    raise missing_name("celery.signals", name)
