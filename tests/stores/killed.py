"""Open a store, and be killed before the n-th statement of that; exit in order if there are fewer.

    python tests/stores/killed.py URL N SECONDS

Opening brings the schema forward: every statement of every step that the store lacks is one of those counted.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import Any

import apsw
import psycopg

from standfast import Standfast
from tests.stores.application import reopened


class Countdown:
    """Ends this process as a power cut would, at the n-th statement."""

    def __init__(self, n: int) -> None:
        self._left = n
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Count one statement."""
        with self._lock:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)
                signal.pause()


def count_on_sqlite(count: Countdown) -> None:
    """Count each statement of SQLite, also those that are executed with one call, but for settings of a connection."""

    def traced(_cursor: apsw.Cursor, statement: str, _bindings: Any) -> bool:
        if not statement.lstrip().lower().startswith("pragma"):
            count()
        return True

    apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(traced))


def count_on_postgres(count: Countdown) -> None:
    """Count each call of a server; what is sent with one call takes effect as a whole."""
    execute = psycopg.Cursor.execute

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        count()
        return execute(self, *arguments, **options)

    psycopg.Cursor.execute = counted  # type: ignore[method-assign]


async def main(url: str, n: int, passed: float) -> None:
    """Open the store, and close it again."""
    count = Countdown(n)
    (count_on_postgres if url.startswith("postgres") else count_on_sqlite)(count)
    async with Standfast(url, clock=reopened(passed)):
        pass


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
