"""Migrate a schema once, in whichever process is first; refuse a schema that is too new for this library."""

from __future__ import annotations

from standfast.store.migrations import Migration, migrations, missing
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import Connection, rolled_back_on_failure


def migrate(connection: Connection, address: Address) -> int:
    """Apply the missing steps; return the schema number. Many processes may open a new store at once.

    A store that lacks no steps is only read, so its user needs no right to create tables.
    """
    version, steps = _lacks(connection, address)
    if not steps:
        return version
    connection.execute(f"BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('standfast {address.schema}', 57))")
    with rolled_back_on_failure(connection):
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {address.schema}")
        connection.execute(f"SET LOCAL search_path TO {address.schema}")
        connection.execute("CREATE TABLE IF NOT EXISTS schema (version integer NOT NULL, readable_by integer NOT NULL)")
        # Every transaction reads this table first: open ones end before the first step, and new ones wait.
        connection.execute("LOCK TABLE schema IN ACCESS EXCLUSIVE MODE")
        version, steps = _lacks(connection, address)
        for migration in steps:
            connection.execute(migration.sql)
            connection.execute("DELETE FROM schema")
            connection.execute("INSERT INTO schema VALUES (%s, %s)", (migration.number, migration.readable_by))
            version = migration.number
        connection.execute("COMMIT")
    return version


def _lacks(connection: Connection, address: Address) -> tuple[int, list[Migration]]:
    """Read the schema number and the missing steps; refuse a schema that is too new for this library."""
    [(table,)] = connection.execute("SELECT to_regclass(%s)", (f"{address.schema}.schema",))
    found = None
    if table is not None:
        found = connection.execute(f"SELECT version, readable_by FROM {address.schema}.schema").fetchone()  # noqa: S608 - the name was checked
    version, readable_by = found or (0, 0)
    return int(version), missing(migrations("postgres"), int(version), int(readable_by), str(address))
