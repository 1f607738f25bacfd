"""A store that does not answer: another process holds its write lock. Two SQLite libraries never share this process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

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


REFUSE = {
    False: ["CREATE TRIGGER refusing BEFORE {change} WHEN {condition} BEGIN SELECT RAISE(ABORT, 'refused'); END"],
    True: [
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$",
        "CREATE TRIGGER refusing BEFORE {change} FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION refuse()",
    ],
}
ACCEPT = {False: "DROP TRIGGER refusing", True: "DROP FUNCTION refuse CASCADE"}


@contextmanager
def refusing(url: str, change: str, condition: str) -> Iterator[None]:
    """Have the store refuse a change for good, such as `UPDATE ON job`, where a row meets the condition.

    To the product that is a fault of its own: neither an outage, nor anything that it expects.
    """
    server = url.startswith("postgresql:")
    for sql in REFUSE[server]:
        written_outside(url, sql.format(change=change, condition=condition))
    try:
        yield
    finally:
        written_outside(url, ACCEPT[server])
