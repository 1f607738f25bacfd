"""Judge a store's file by what its callers were told.

The judge reads the tables itself, so that no reader of the product can gloss over anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

from standfast.store.sqlite.files import Files

JOBS = """
SELECT b.id, j.state, j.attempts, j.token, e.failure->>'reason_code', e.triage->>'action', e.result,
  (SELECT count(*) FROM history AS h WHERE h.n = j.n), b.payload
FROM job AS j JOIN body AS b ON b.n = j.n LEFT JOIN ending AS e ON e.n = j.n
"""

FLAWS = {
    "a job without a body": "SELECT n FROM job WHERE n NOT IN (SELECT n FROM body)",
    "a body without a job": "SELECT n FROM body WHERE n NOT IN (SELECT n FROM job)",
    "a death without a letter": """
        SELECT j.n FROM job AS j LEFT JOIN ending AS e ON e.n = j.n WHERE j.state = 'dead'
        AND (e.failure->>'reason_code' IS NULL OR e.triage->>'action' IS NULL
             OR NOT EXISTS (SELECT 1 FROM history AS h WHERE h.n = j.n))""",
    "a letter without a death": """
        SELECT j.n FROM job AS j JOIN ending AS e ON e.n = j.n WHERE e.triage IS NOT NULL AND j.state <> 'dead'""",
    "a running job that nobody holds": "SELECT n FROM job WHERE state = 'running' AND (worker IS NULL OR attempts < 1)",
    "an end without its time": """
        SELECT n FROM job WHERE (state IN ('completed', 'dead', 'cancelled')) <> (finished_at IS NOT NULL)""",
    "a keyed job without its key": """
        SELECT b.n FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.idempotency_key IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM idempotency AS k
                        WHERE k.queue = j.queue AND k.key = b.idempotency_key AND k.id = b.id)""",
    "an end that the journal does not tell": """
        WITH told (id) AS MATERIALIZED (
          SELECT id.value FROM journal, json_each(journal.entries) AS entry, json_each(entry.value->2) AS id
          WHERE entry.value->>0 IN ('dead_letter', 'completed'))
        SELECT b.id FROM job AS j JOIN body AS b ON b.n = j.n
        WHERE j.state IN ('dead', 'completed') AND b.id NOT IN (SELECT id FROM told)""",
}


class Found(NamedTuple):
    """One job as the file has it."""

    id: str
    state: str
    attempts: int
    token: int
    reason: str | None
    triage: str | None
    result: str | None
    lines: int
    payload: str

    @property
    def key(self) -> str:
        """What a test wrote into the payload to know the job by, outside the product."""
        return str(json.loads(self.payload)["key"])


def read(path: str | Path) -> tuple[dict[str, Found], list[str]]:
    """Open a file as a process after a crash would, and give its jobs by id and whatever is wrong with it."""
    files, connection = Files(str(path)), None
    try:
        connection = files.open()
        return _jobs(connection), flaws(connection)
    finally:
        files.close(connection)


def look(path: str | Path) -> tuple[dict[str, Found], list[str]]:
    """Do the same beside a store that is open."""
    with beside(path) as connection:
        return _jobs(connection), flaws(connection)


@contextmanager
def beside(path: str | Path) -> Iterator[apsw.Connection]:
    """Open a file that the product may have open too; whoever recovers it from a crash is waited for."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(10_000)
        yield connection


def _jobs(connection: apsw.Connection) -> dict[str, Found]:
    return {row[0]: Found(*row) for row in connection.execute(JOBS)}


def flaws(connection: apsw.Connection) -> list[str]:
    """Name what may never be in a file, whatever happened to it."""
    [(checked,)] = connection.execute("PRAGMA integrity_check(1)")
    found = [] if checked == "ok" else [f"integrity: {checked}"]
    for flaw, query in FLAWS.items():
        numbers = [n for (n,) in connection.execute(query)]
        if numbers:
            found.append(f"{flaw}: {numbers}")
    return found
