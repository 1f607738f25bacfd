"""SQLite alone: the least that a durable job queue must do, with nothing around it.

The only module besides the store that uses apsw.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from standfast.bench.figure import Budget, Figure
from standfast.bench.sizes import BULK, PAYLOAD_BYTES, RAW_CLAIM

SETTINGS: dict[str, str | int] = {
    "journal_mode": "wal",
    "synchronous": 2,
    "cache_size": -8192,
    "wal_autocheckpoint": 4000,
}
"""standfast's own settings, as far as they affect speed. `synchronous` 2 is FULL."""

TABLE = """
CREATE TABLE job (
  n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, queue TEXT NOT NULL, priority INTEGER NOT NULL, state TEXT NOT NULL,
  ready_at REAL, attempts INTEGER NOT NULL DEFAULT 0, token INTEGER NOT NULL DEFAULT 0, worker TEXT,
  payload TEXT NOT NULL
) STRICT;
CREATE INDEX ready ON job (queue, priority DESC, ready_at, n) WHERE state = 'queued';
"""
INSERT = "INSERT INTO job (id, queue, priority, state, ready_at, payload) VALUES (?, 'q', 0, 'queued', ?, ?)"
CLAIM = """
UPDATE job SET state = 'running', ready_at = NULL, attempts = attempts + 1, token = token + 1, worker = 'w'
WHERE n IN (SELECT n FROM job WHERE queue = 'q' AND state = 'queued' ORDER BY priority DESC, ready_at, n LIMIT ?)
RETURNING n, token, payload
"""
COMPLETE = "UPDATE job SET state = 'completed', worker = NULL WHERE n = ? AND token = ?"

Row = tuple[str, float, str]


def versions() -> dict[str, str]:
    """Return the versions of apsw and SQLite."""
    return {"apsw": apsw.apsw_version(), "sqlite": apsw.sqlite_lib_version()}


class RawQueue:
    """One table in one file, one connection, no other thread."""

    def __init__(self, path: Path, warm_up: int) -> None:
        self._connection = apsw.Connection(str(path))
        for name, wanted in SETTINGS.items():
            self._connection.pragma(name, wanted)
            if self._connection.pragma(name) != wanted:
                raise RuntimeError(f"SQLite did not take {name}={wanted}: the figures would not compare")
        self._connection.execute(TABLE)
        self._numbers = itertools.count()
        self._waiting = 0
        for size in _batches(warm_up):
            self._insert(self._rows(size))

    def inserts(self, per_transaction: int, most: int, seconds: float) -> Figure:
        """Commit rows, `per_transaction` at a time. They are made before the clock starts."""
        batches = [self._rows(per_transaction) for _ in range(math.ceil(most / per_transaction))]
        budget = Budget(most, seconds)
        for batch in batches:
            if not budget.take(per_transaction):
                break
            self._insert(batch)
        return budget.rate()

    def claims_and_completes(self, seconds: float) -> Figure:
        """Claim rows and complete those claimed before, both in one transaction, until the table is empty."""
        claimed: list[tuple[int, int]] = []
        budget = Budget(self._waiting, seconds)
        while budget.take(RAW_CLAIM):
            claimed = self._round(claimed)
            budget.give_back(RAW_CLAIM - len(claimed))
        self._round(claimed)
        return budget.rate()

    def _round(self, done: list[tuple[int, int]]) -> list[tuple[int, int]]:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        self._connection.executemany(COMPLETE, done)
        claimed: list[Any] = execute(CLAIM, (RAW_CLAIM,)).fetchall()
        execute("COMMIT")
        return [(n, token) for n, token, _ in claimed]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _rows(self, size: int) -> list[Row]:
        payload = "x" * PAYLOAD_BYTES
        return [(f"0190-{n:031d}", float(n), payload) for n in itertools.islice(self._numbers, size)]

    def _insert(self, rows: list[Row]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(INSERT, rows)
        self._connection.execute("COMMIT")
        self._waiting += len(rows)


def _batches(rows: int) -> Iterator[int]:
    while rows > 0:
        yield min(rows, BULK)
        rows -= BULK
