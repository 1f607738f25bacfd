"""A fresh store for each run: a file in the run's directory, or its own schema on a PostgreSQL server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import uuid4

from standfast.errors import ConfigurationError
from standfast.store.places import MEMORY, sqlite_path

POSTGRES = ("postgresql://", "postgres://")


def kind(url: str | None) -> str:
    """Return the kind of store, for a report."""
    return "PostgreSQL" if url is not None and url.startswith(POSTGRES) else "SQLite"


@contextmanager
def room(url: str | None) -> Iterator[Path]:
    """Make a directory for all runs, deleted after the block: next to the SQLite file, or the usual temporary place."""
    beside = None
    if url is not None and kind(url) == "SQLite":
        if sqlite_path(url) == MEMORY:
            raise ConfigurationError(f"{MEMORY} is gone with its process, and cannot survive a crash; leave url out")
        beside = Path(sqlite_path(url)).resolve().parent
    with tempfile.TemporaryDirectory(prefix="standfast-crash-", dir=beside) as directory:
        yield Path(directory)


@contextmanager
def fresh(url: str | None, directory: Path) -> Iterator[str]:
    """Yield the URL of an unused store, deleted after the block."""
    if url is None or kind(url) == "SQLite":
        yield str(directory / "store" / "queue.db")
        return
    from standfast.store.postgres.dropping import drop  # noqa: PLC0415 - the driver is an extra

    own = _in_schema(url, f"standfast_crash_{uuid4().hex[:16]}")
    try:
        yield own
    finally:
        drop(own)


def _in_schema(url: str, schema: str) -> str:
    parts = urlsplit(url)
    query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "schema"]
    return parts._replace(query=urlencode([*query, ("schema", schema)], safe="/:,")).geturl()
