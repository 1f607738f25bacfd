"""Migrate a file's schema once, in whichever process is first; refuse a schema that is too new for this library."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache

import apsw

from standfast.store.migrations import Migration, missing
from standfast.store.migrations import migrations as of_dialect
from standfast.store.sqlite.handle import claim_file


def migrations() -> Sequence[Migration]:
    """Read the numbered steps of SQLite's schema, oldest first."""
    return of_dialect("sqlite")


def migrate(connection: apsw.Connection, path: str) -> int:
    """Apply the missing steps inside the caller's write transaction; return the schema number."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema (version INTEGER NOT NULL, readable_by INTEGER NOT NULL) STRICT"
    )
    version, readable_by = connection.execute("SELECT version, readable_by FROM schema").fetchone() or (0, 0)
    for migration in missing(migrations(), version, readable_by, path):
        connection.execute(migration.sql)
        connection.execute("DELETE FROM schema")
        connection.execute("INSERT INTO schema VALUES (?, ?)", (migration.number, migration.readable_by))
        version = migration.number
    return int(version)


def fill_memory(target: apsw.Connection) -> None:
    """Copy an empty store with the newest schema into a new one in memory, in a tenth of the time of the steps.

    Test suites create a store for each test.
    """
    with closing(apsw.Connection(":memory:")) as source:
        source.deserialize("main", _empty_store(tuple(migrations())))
        with target.backup("main", source, "main") as copying:
            copying.step()


@lru_cache(maxsize=1)
def _empty_store(_steps: Sequence[Migration]) -> bytes:
    """Return the image of the empty store that these steps create."""
    with closing(apsw.Connection(":memory:")) as connection:
        claim_file(connection, ":memory:")
        migrate(connection, ":memory:")
        return connection.serialize("main")
