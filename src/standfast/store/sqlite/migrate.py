"""Bring a file's schema forward, once, whoever comes first; refuse what is newer than this library can read."""

from __future__ import annotations

import re
from importlib.resources import files

import apsw
import msgspec

from standfast.errors import ConfigurationError

_NUMBERED = re.compile(r"(\d{4})_\w+\.sql")
_READABLE = re.compile(r"^-- readable by: (\d+)$", re.MULTILINE)


class Migration(msgspec.Struct, frozen=True):
    """One numbered step. `readable_by` is the oldest schema number whose library may go on using the file."""

    number: int
    sql: str
    readable_by: int


def migrations() -> list[Migration]:
    """Read the numbered files, oldest first."""
    found = []
    for file in (files("standfast.store.sqlite") / "migrations").iterdir():
        match = _NUMBERED.fullmatch(file.name)
        if match:
            sql = file.read_text(encoding="utf-8")
            readable = _READABLE.search(sql)
            number = int(match[1])
            found.append(Migration(number, sql, int(readable[1]) if readable else number))
    return sorted(found, key=lambda migration: migration.number)


def migrate(connection: apsw.Connection, path: str) -> int:
    """Apply what is missing, inside the caller's write transaction; give the schema's number."""
    known = migrations()
    newest = known[-1].number
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema (version INTEGER NOT NULL, readable_by INTEGER NOT NULL) STRICT"
    )
    version, readable_by = connection.execute("SELECT version, readable_by FROM schema").fetchone() or (0, 0)
    if readable_by > newest:
        raise ConfigurationError(
            f"{path} has schema {version}, which needs a library that knows schema {readable_by}; "
            f"this one knows {newest}: upgrade standfast"
        )
    for migration in known:
        if migration.number > version:
            connection.execute(migration.sql)
            connection.execute("DELETE FROM schema")
            connection.execute("INSERT INTO schema VALUES (?, ?)", (migration.number, migration.readable_by))
            version = migration.number
    return version
