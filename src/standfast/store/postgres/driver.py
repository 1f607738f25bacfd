"""Run scripts on a connection: execute what they yield, send them the rows."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from standfast.store.postgres.connection import Connection
from standfast.store.statements import Statement, load
from standfast.store.steps import Batch, Rows, Script, text

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")


def _for_psycopg(statement: Statement) -> Statement:
    sql = _PARAMETER.sub(r"%(\1)s", statement.sql.replace("%", "%%"))
    return msgspec.structs.replace(statement, sql=sql)


STATEMENTS: dict[str, Statement] = {name: _for_psycopg(statement) for name, statement in load("postgres").items()}


def drive(connection: Connection, script: Script) -> Any:
    """Run a script on a connection, inside the transaction it is in."""
    rows: Rows | None = None
    try:
        while True:
            name, parameters = script.send(rows)  # type: ignore[arg-type]
            rows = _execute(connection, STATEMENTS[name], parameters)
    except StopIteration as done:
        return done.value


def _execute(connection: Connection, statement: Statement, parameters: dict[str, Any] | Batch) -> Rows:
    named = parameters if isinstance(parameters, dict) else {"rows": text(parameters)}
    cursor = connection.execute(statement.sql, named)
    return cursor.fetchall() if cursor.description else [(cursor.rowcount,)]
