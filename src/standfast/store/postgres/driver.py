"""Run scripts on a connection: execute what they yield, send them the rows."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from standfast.store.postgres.connection import Connection
from standfast.store.postgres.session import Numbered
from standfast.store.statements import Statement, load
from standfast.store.steps import Batch, Rows, Script, text

T = TypeVar("T")

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")


def _for_psycopg(statement: Statement) -> Statement:
    sql = _PARAMETER.sub(r"%(\1)s", statement.sql.replace("%", "%%"))
    return msgspec.structs.replace(statement, sql=sql)


def _for_libpq(name: str, statement: Statement) -> Numbered:
    names = list(dict.fromkeys(_PARAMETER.findall(statement.sql)))
    sql = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement.sql)
    return Numbered(name, sql.encode(), tuple(names), statement.answers)


_LOADED = load("postgres")
STATEMENTS: dict[str, Statement] = {name: _for_psycopg(statement) for name, statement in _LOADED.items()}
NUMBERED: dict[str, Numbered] = {name: _for_libpq(name, statement) for name, statement in _LOADED.items()}


def drive(connection: Connection, script: Script[T]) -> T:
    """Run a script on a connection, inside the transaction it is in."""
    try:
        name, parameters = next(script)
        while True:
            name, parameters = script.send(_execute(connection, name, parameters))
    except StopIteration as done:
        result: T = done.value
        return result


def _execute(connection: Connection, name: str, parameters: dict[str, Any] | Batch) -> Rows:
    named = parameters if isinstance(parameters, dict) else {"rows": text(parameters)}
    session = connection.session
    if session is None:
        cursor = connection.execute(STATEMENTS[name].sql, named)
        return cursor.fetchall() if cursor.description else [(cursor.rowcount,)]
    statement = NUMBERED[name]
    if statement.answers:
        return session.ask(statement, named)
    session.tell(statement, named)
    return []
