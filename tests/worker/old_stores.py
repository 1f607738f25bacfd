"""Stores of other queues, as the seeds describe them, for imports to read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

SEEN = 1_700_000_000.0
"""When the work was first wanted, long ago."""
SCHEMA = """
CREATE TABLE queued_events (
  id TEXT PRIMARY KEY, queue_name TEXT NOT NULL, payload TEXT NOT NULL, status TEXT NOT NULL,
  attempts INTEGER DEFAULT 0, max_attempts INTEGER DEFAULT 5, next_retry_at REAL NOT NULL,
  created_at REAL NOT NULL, updated_at REAL NOT NULL,
  idempotency_key TEXT);
CREATE TABLE dead_letter_events (
  id TEXT PRIMARY KEY, queue_name TEXT NOT NULL, payload TEXT NOT NULL, attempts INTEGER NOT NULL,
  created_at REAL NOT NULL, dead_at REAL NOT NULL, last_error TEXT);
CREATE TABLE events (
  id INTEGER PRIMARY KEY, trigger TEXT, source TEXT, thread_key TEXT, priority INTEGER, state TEXT, retry_count INTEGER,
  max_retries INTEGER, payload TEXT, created_at TEXT);
"""


def lines(path: Path, records: Iterable[Any]) -> str:
    """Write a file of JSON lines; text is written as it stands."""
    path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in records))
    return str(path)


def event(number: int, **more: Any) -> dict[str, Any]:
    """Give an event of a hand-written queue."""
    return {"id": f"evt-{number}", "queue": "mail", "payload": {"n": number}, "created_at": SEEN, **more}


def tables(path: Path, *, queued: Iterable[Any] = (), dead: Iterable[Any] = (), events: Iterable[Any] = ()) -> str:
    """Write the tables of the seeds."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        connection.execute("PRAGMA journal_mode = WAL")
        for table, rows in (("queued_events", queued), ("dead_letter_events", dead), ("events", events)):
            for row in rows:
                places = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", [*row.values()])  # noqa: S608
        connection.commit()
    return str(path)


def queued_event(name: str, status: str = "pending", **more: Any) -> dict[str, Any]:
    """Give a row of queued_events."""
    row = {"id": name, "queue_name": "feedback", "payload": '{"rating": -1}', "status": status, "attempts": 0}
    return {**row, "next_retry_at": SEEN, "created_at": SEEN, "updated_at": SEEN + 60, **more}


def dead_event(name: str, **more: Any) -> dict[str, Any]:
    """Give a row of dead_letter_events."""
    row = {"id": name, "queue_name": "feedback", "payload": '{"rating": -1}', "attempts": 5, "created_at": SEEN}
    return {**row, "dead_at": SEEN + 600, "last_error": "Connection refused", **more}


def op(place: Path, name: str, **more: Any) -> None:
    """Write an op record."""
    place.mkdir(exist_ok=True)
    record = {"operation_id": name, "capability": "task_create", "params": {"title": name}, "created_at": SEEN, **more}
    (place / f"{name}.json").write_text(json.dumps(record, indent=2))
