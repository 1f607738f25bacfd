"""Rows of a table in a SQLite file, read with Python's own library: the file belongs to another program."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from standfast.errors import ConfigurationError
from standfast.wings.imports.jsonl_reader import unstorable
from standfast.wings.imports.known_shapes import Profile, of_table
from standfast.wings.imports.words import BadRecord, Record, Source

EVENTS = "queued_events"
DEAD = "dead_letter_events"
KNOWN = (DEAD, EVENTS, "events")
"""The tables that are known. Letters come first: an event that is in both tables is a letter."""
SAME_IDS = {DEAD: EVENTS}
"""Tables whose rows were moved from another table."""
PATIENCE = 10.0
"""Seconds to wait for the other program's lock."""
ROWS = 500


class TableSource(NamedTuple):
    """A table, and what is known about its rows."""

    source: Source
    profile: Profile


def sqlite(path: str, tables: Sequence[str] = ()) -> list[TableSource]:
    """Return the tables of a file as sources: those that are named, else those that are known."""
    with _opened(path) as connection:
        found = _tables(path, connection)
    wanted = [*dict.fromkeys(tables)] or [each for each in KNOWN if each in found]
    missing = [each for each in wanted if each not in found]
    if missing or not wanted:
        named = ", ".join(sorted(found)) or "none"
        what = f"no table {missing[0]!r}" if missing else f"none of the tables {', '.join(KNOWN)}"
        raise ConfigurationError(f"{path} has {what}; its tables are: {named}; choose with --table NAME")
    return [_source(path, table) for table in wanted]


def _source(path: str, table: str) -> TableSource:
    source = Source(
        kind="sqlite",
        name=os.path.realpath(path),
        shown=f"{path} ({table})",
        read=partial(_records, path, table),
        count=partial(_count, path, table),
        rejects=f"{path}.{table}.rejects.jsonl",
        table=SAME_IDS.get(table, table),
    )
    return TableSource(source, of_table(table, dead=table == DEAD))


@contextmanager
def _opened(path: str) -> Iterator[sqlite3.Connection]:
    """Open a file read-only, with one snapshot of it as long as it is open."""
    if not Path(path).is_file():
        raise ConfigurationError(f"there is no file {path}; name the SQLite file of the old queue")
    try:
        connection = sqlite3.connect(
            f"{Path(path).resolve().as_uri()}?mode=ro", uri=True, timeout=PATIENCE, check_same_thread=False
        )
        with closing(connection):
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        raise ConfigurationError(
            f"cannot read {path}: {error}; name a SQLite file, or copy it with its -wal file first"
        ) from error


def _tables(path: str, connection: sqlite3.Connection) -> set[str]:
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}
    if {"job", "body", "ending"} <= found:
        raise ConfigurationError(f"{path} is a store of standfast; move it with: standfast promote, or dead export")
    return found


def _records(path: str, table: str) -> Iterator[Record | BadRecord]:
    with _opened(path) as connection:
        keys = [(place, name) for _, name, _, _, _, place in _columns(connection, table) if place]
        key = [name for _, name in sorted(keys)]
        connection.text_factory = bytes  # text that is not UTF-8 spoils only its own row
        rows = connection.execute(f"SELECT * FROM {_quoted(table)}")  # noqa: S608 - a name of this very file, quoted
        names = [each[0] for each in rows.description]
        number = 0
        while some := rows.fetchmany(ROWS):
            for row in some:
                number += 1
                yield _record(number, dict(zip(names, row, strict=True)), key)


def _columns(connection: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    return connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()


def _record(number: int, row: dict[str, Any], key: Sequence[str]) -> Record | BadRecord:
    try:
        plain = {column: value.decode() if isinstance(value, bytes) else value for column, value in row.items()}
    except UnicodeDecodeError as error:
        return BadRecord(number, f"row {number}", repr(row)[:2000], f"a column is no UTF-8 text: {error.reason}")
    own = [plain[name] for name in key]
    name = f"row {number}" + (f" ({', '.join(map(str, own))})" if own else "")
    raw = msgspec.json.encode(plain).decode()
    why = unstorable(plain)
    if why is not None:
        return BadRecord(number, name, raw, why)
    own_id = None if not own else own[0] if len(own) == 1 else msgspec.json.encode(own).decode()
    return Record(number, name, plain, raw, own_id=own_id if own_id is None else str(own_id), content=raw)


def _count(path: str, table: str) -> int:
    with _opened(path) as connection:
        [(count,)] = connection.execute(f"SELECT count(*) FROM {_quoted(table)}")  # noqa: S608 - likewise
    return int(count)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
