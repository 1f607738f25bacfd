"""The engine without its thread: each round runs in the caller's, through the very code that the writer runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from standfast.store.requests import Request, ThreadAnswer
from standfast.store.scripts import Write
from standfast.store.sqlite.sqlite_engine import SqliteEngine

Call = tuple[Write[Any, Any], Sequence[Any]]


class SteppedEngine(SqliteEngine):
    """One writer, stepped by hand. A round that failed is tried again, unless nothing can come of it."""

    tries_again = True

    def open(self) -> None:
        """Open the file and set the clock, but start no thread."""
        self._connection = self._files.open()
        self._offset = self._files.set_clock(self._connection, self._clock)

    def round(self, calls: Sequence[Call]) -> list[Any]:
        """Serve these callers in one transaction; give what each was told, None for one that was told nothing."""
        requests = [_handed_in(script, items) for script, items in calls]
        left = self._serve(requests)
        while left and self.tries_again:
            left = self._serve(left)
        return [_told(request.future) for request in requests]

    def drop(self) -> None:
        """Let go of the handles, as the end of a process does."""
        self._drop_connection()
        self._files.close(None)


def _handed_in(script: Write[Any, Any], items: Sequence[Any]) -> Request[Any]:
    request: Request[Any] = Request(script, items, _leave)
    request.future = ThreadAnswer()
    return request


def _leave(_request: Request[Any]) -> None:
    """Put it nowhere: rounds are stepped by hand."""


def _told(future: Any) -> Any:
    return future.result(0) if future.done() else None
