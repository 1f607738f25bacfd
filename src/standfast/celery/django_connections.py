"""What Celery does for Django: close connections that are too old or broken, around each task."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def fresh_connections() -> Iterator[None]:
    """Close Django's expired or broken connections before and after the block; do nothing without Django."""
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
    """Call a function once Django's transaction is committed; at once if there is none."""
    importlib.import_module("django.db.transaction").on_commit(call)
