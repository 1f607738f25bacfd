"""Migrate a file's schema once, whichever process is first; refuse what is newer than this library can read."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from standfast.store.migrations import Migration, missing
from standfast.store.migrations import migrations as of_dialect


def migrations() -> Sequence[Migration]:
    """Read the numbered steps of SQLite's schema, oldest first."""
    return of_dialect("sqlite")


def migrate(connection: apsw.Connection, path: str) -> int:
    """Apply what is missing, inside the caller's write transaction; give the schema's number."""
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
