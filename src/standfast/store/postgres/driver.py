"""Run scripts on a connection: execute the statements they yield, and send them their rows."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from standfast.store.postgres.assumptions import NEXT_NUMBERS, Assumptions, Checked, checked
from standfast.store.postgres.connection import Connection
from standfast.store.postgres.session import PARAMETER, Numbered, numbered
from standfast.store.statements import Statement, load
from standfast.store.steps import Batch, Rows, Script, text

T = TypeVar("T")


def _for_psycopg(statement: Statement) -> Statement:
    sql = PARAMETER.sub(r"%(\1)s", statement.sql.replace("%", "%%"))
    return msgspec.structs.replace(statement, sql=sql)


_LOADED = load("postgres")
STATEMENTS: dict[str, Statement] = {name: _for_psycopg(statement) for name, statement in _LOADED.items()}
NUMBERED: dict[str, Numbered] = {name: numbered(name, statement) for name, statement in _LOADED.items()}
AT_ONCE = {"complete_jobs": "complete_jobs_at_once", "insert_bodies": "insert_bodies_at_once"}
"""What is sent in place of a statement if a check follows."""
CHECKED: dict[str, Checked] = {
    name: each for name, said in _LOADED.items() if (each := checked(name, said, _LOADED.get(AT_ONCE.get(name, ""))))
}


def drive(connection: Connection, script: Script[T]) -> T:
    """Run a script on a connection, inside its open transaction."""
    try:
        name, parameters = next(script)
        while True:
            name, parameters = script.send(_execute(connection, name, parameters))
    except StopIteration as done:
        result: T = done.value
        return result


def _execute(connection: Connection, name: str, parameters: dict[str, Any] | Batch) -> Rows:
    named = as_crossing(parameters)
    session = connection.session
    if session is None:
        cursor = connection.execute(STATEMENTS[name].sql, named)
        return cursor.fetchall() if cursor.description else [(cursor.rowcount,)]
    statement = NUMBERED[name]
    if session.assumptions is not None:
        rows = _assumed(session.assumptions, name, parameters, named)
        if rows is not None:
            return rows
    if statement.answers:
        return session.ask(statement, named)
    session.tell(statement, named)
    return []


def as_crossing(parameters: dict[str, Any] | Batch) -> dict[str, Any]:
    """Return the parameters to send: a batch or an array of numbers becomes JSON text."""
    if not isinstance(parameters, dict):
        return {"rows": text(parameters)}
    numbers = parameters.get("numbers")
    return {**parameters, "numbers": text(numbers)} if type(numbers) is list else parameters


def _assumed(known: Assumptions, name: str, parameters: dict[str, Any] | Batch, named: dict[str, Any]) -> Rows | None:
    """Answer a statement by assumption, if one can be made; else return None."""
    statement = CHECKED.get(name)
    if statement is not None:
        same = _LOADED[name].assumes == "same"
        return known.answer(statement, named) if same else known.written(statement, parameters, named)
    if name == NEXT_NUMBERS:
        return known.numbers(NUMBERED[name], named["count"])
    if _LOADED[name].changes_rules:
        known.forget_rules()
    return None
