"""The disk under a database file: how much is free, what a checkpoint will need, and what must stay free."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import apsw

from standfast.store.requests import Request
from standfast.store.room import END_OF_A_JOB, PLENTY, ROOM_TO_ACCEPT, Counts, RoomDecision, judge

BOUNDLESS = 1 << 62
ASK_AGAIN_AFTER = 1.0
"""Seconds for which an answer is valid if the disk had plenty of room."""
COUNT_AGAIN_AFTER = 5.0
"""Seconds for which a count of unfinished jobs is valid; jobs accepted since are added to it."""
UNFINISHED = "SELECT (SELECT count(*) FROM job) - (SELECT count(*) FROM job WHERE finished_at IS NOT NULL)"
RUNNING = "SELECT count(*) FROM job WHERE state = 'running'"


class Disk:
    """The disk of one file; `path` is None for a store that is not on a disk."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._free = 0
        self.plenty_until = 0.0
        """When a disk with plenty of room is checked again; one with less is checked in every round."""
        self._unfinished = 0
        self._count_at = 0.0

    def free_bytes(self) -> int:
        """Return the free space."""
        if self._path is None:
            return BOUNDLESS
        now = time.monotonic()
        if now >= self.plenty_until:
            self._free = shutil.disk_usage(Path(self._path).parent).free
            self.plenty_until = now + ASK_AGAIN_AFTER if self._free >= PLENTY else 0.0
        return self._free

    def room_to_accept(self) -> int:
        """Return how many free bytes new work needs, including some for every job that has not ended."""
        return ROOM_TO_ACCEPT + self._unfinished * END_OF_A_JOB

    def judge(self, connection: apsw.Connection, pending: list[Request[Any]], free: int) -> RoomDecision:
        """Find the requests there is no room for. Runs at the beginning of a write transaction."""
        judged = judge(pending, free - self._owed_to_checkpoint(connection), lambda: self._count(connection))
        refused = [request for request, _ in judged.refused]
        accepted = [each for each in pending if each.room >= ROOM_TO_ACCEPT and each not in refused]
        self._unfinished += sum(each.size for each in accepted)
        return judged

    def _owed_to_checkpoint(self, connection: apsw.Connection) -> int:
        """Return by how much the next checkpoint will grow the file."""
        pages, size = connection.pragma("page_count"), connection.pragma("page_size")
        return 0 if self._path is None else max(0, pages * size - os.stat(self._path).st_size)  # noqa: PTH116 - quicker

    def _count(self, connection: apsw.Connection) -> Counts:
        now = time.monotonic()
        if now >= self._count_at:
            self._unfinished = int(connection.execute(UNFINISHED).get)
            self._count_at = now + COUNT_AGAIN_AFTER
        return Counts(self._unfinished, int(connection.execute(RUNNING).get))
