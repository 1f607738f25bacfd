"""A store that does not answer: another process holds its write lock. Two SQLite libraries never share this process."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

from tests.postgres import connect
from tests.warm import Warm, run_warm

LOCK = """
import apsw, sys
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(5000)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""


class Outage:
    """Begins when made, and lasts until told to end."""

    def __init__(self, path: str) -> None:
        self._process = Warm(
            [sys.executable, "-c", LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "locked\n"

    def end(self) -> None:
        """Let go of the lock."""
        self._process.communicate("\n", timeout=10)


WRITE = """
import apsw, sys
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(5000)
connection.execute(sys.argv[2])
"""


def written_outside(url: str, sql: str) -> None:
    """Write to a store beside the product: a file from another process, a server from another connection."""
    if url.startswith("postgresql:"):
        with closing(connect(url)) as connection:
            connection.execute(sql)
    else:
        run_warm([sys.executable, "-c", WRITE, url, sql], check=True)
