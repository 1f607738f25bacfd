"""Numbered steps that bring a store's schema up to date, in the same form for every dialect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import accumulate
from pathlib import Path

import msgspec

from standfast.errors import ConfigurationError, SchemaTooNew

_NUMBERED = re.compile(r"(\d{4})_\w+\.sql")
_READABLE = re.compile(r"^-- readable by: (\d+)$", re.MULTILINE)


class NewerSchema(ConfigurationError):
    """The store is too new for this library."""

    def __init__(self, readable_by: int, message: str) -> None:
        super().__init__(message)
        self.readable_by = readable_by


class Migration(msgspec.Struct, frozen=True):
    """One numbered step. `readable_by` is the oldest schema number whose library may still use the store."""

    number: int
    sql: str
    readable_by: int


@cache
def migrations(dialect: str) -> Sequence[Migration]:
    """Read the numbered files of `store/<dialect>/migrations`, oldest first, and once: they ship with the library."""
    found = []
    for file in (Path(__file__).parent / dialect / "migrations").iterdir():
        match = _NUMBERED.fullmatch(file.name)
        if match:
            sql = file.read_text(encoding="utf-8")
            readable = _READABLE.search(sql)
            number = int(match[1])
            found.append(Migration(number, sql, int(readable[1]) if readable else number))
    return list(accumulate(sorted(found, key=lambda migration: migration.number), _never_less_strict))


def _never_less_strict(before: Migration, after: Migration) -> Migration:
    """Lock out every library that an earlier step locks out: the store's row has only the number of its last step."""
    return msgspec.structs.replace(after, readable_by=max(before.readable_by, after.readable_by))


def check_readable(dialect: str, readable_by: int, store: str) -> None:
    """Refuse to continue with a store that a newer library has meanwhile migrated further than this one can read."""
    newest = migrations(dialect)[-1].number
    if readable_by > newest:
        raise SchemaTooNew(
            f"a newer version of standfast has changed {store} to a schema that needs a library that knows schema "
            f"{readable_by}, and this process knows {newest}",
            "upgrade standfast here and restart this process",
        )


@contextmanager
def reopening(dialect: str, store: str) -> Iterator[None]:
    """Explain why a process cannot reopen its store: a schema that has become too new is not an outage."""
    try:
        yield
    except NewerSchema as error:
        check_readable(dialect, error.readable_by, store)


def missing(known: Sequence[Migration], version: int, readable_by: int, store: str) -> list[Migration]:
    """Return the steps that a store of this version lacks; refuse a store that this library is too old for."""
    newest = known[-1].number
    if readable_by > newest:
        raise NewerSchema(
            readable_by,
            f"{store} has schema {version}, which needs a library that knows schema {readable_by}; "
            f"this one knows {newest}: upgrade standfast",
        )
    return [migration for migration in known if migration.number > version]
