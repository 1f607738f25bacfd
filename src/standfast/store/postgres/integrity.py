"""Ask a server whether our tables are sound."""

from __future__ import annotations

import psycopg

from standfast.store.consistency import CONSISTENT, INCONSISTENT, check_consistent
from standfast.store.postgres.connection import LONGEST_CALL, Connection, rolled_back_on_failure

CHECKER = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'amcheck'"
INDEXES = """
SELECT c.oid::bigint FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
WHERE c.relnamespace = %s::regnamespace AND a.amname = 'btree' AND i.indisvalid
"""


def examine(connection: Connection, schema: str, *, full: bool) -> str:
    """Compare our tables with each other and let the server check their indexes; return what was checked."""
    try:
        _compare(connection, schema)
        tables = CONSISTENT
    except psycopg.OperationalError:
        return f"not checked: the server did not answer within {LONGEST_CALL:.0f} s"
    return f"{tables}; {_indexes(connection, schema, full=full)}"


def _compare(connection: Connection, schema: str) -> None:
    connection.execute("BEGIN READ ONLY")
    with rolled_back_on_failure(connection):
        connection.execute(f"SET LOCAL search_path TO {schema}")
        check_consistent(dict(connection.execute(INCONSISTENT).fetchall()))
        connection.execute("COMMIT")


def _indexes(connection: Connection, schema: str, *, full: bool) -> str:
    """Check each index in a call of its own, so that none takes longer than any other call may."""
    found = connection.execute(CHECKER).fetchone()
    if found is None:
        return "indexes were not checked, because the server lacks amcheck (CREATE EXTENSION amcheck)"
    indexes = connection.execute(INDEXES, (schema,)).fetchall()
    try:
        for (index,) in indexes:
            connection.execute(f"SELECT {found[0]}.bt_index_check(%s::oid::regclass, %s)", (index, full))
    except (psycopg.OperationalError, psycopg.errors.InsufficientPrivilege) as error:
        return f"indexes were not checked: {str(error).strip()}"
    return f"amcheck found nothing in {len(indexes)} indexes" + (" and their tables" if full else "")
