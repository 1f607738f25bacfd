"""What Celery does for Django: connections that are too old or broken are closed around a task."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def fresh_connections() -> Iterator[None]:
    """Close Django's connections that are past their age or broken, before and after; nothing without Django."""
    database: Any = sys.modules.get("django.db")
    if database is None:
        yield
        return
    database.close_old_connections()
    try:
        yield
    finally:
        database.close_old_connections()


def on_commit(call: Callable[[], Any]) -> None:
    """Call once Django's transaction is committed; at once if there is none."""
    importlib.import_module("django.db.transaction").on_commit(call)
