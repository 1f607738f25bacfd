"""Check a database file without using it: what it is, where it is, who may read it, and whether it would open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw

from standfast.errors import ConfigurationError, StandfastError, StoreUnavailable, WrongAddress
from standfast.portable import user_name
from standfast.printable import data_size
from standfast.store.consistency import CONSISTENT, INCONSISTENT, check_consistent
from standfast.store.finding import Finding
from standfast.store.sqlite.file_schema import migrations
from standfast.store.sqlite.handle import (
    SETTINGS,
    check_engine_version,
    check_file_system,
    check_owner,
    connect,
    glance,
)

OTHERS = 0o077
"""The permission bits of everyone but the owner."""


def checkup(path: str, *, room: int, full: bool = False) -> Iterator[Finding]:
    """Make every possible check; a check that cannot be made is itself a finding.

    `room` is how many free bytes new work needs; `full` also compares every index with its table.
    """
    yield _look("engine", _engine, Path(path))
    if path == ":memory:":
        return
    yield _look("file", _file, Path(path))
    yield _look("file system", lambda file: check_file_system(file.parent), Path(path))
    yield _look("disk", lambda file: _disk(file, room), Path(path))
    yield _look("permissions", _permissions, Path(path))
    if Path(path).exists():
        yield _look("schema", _schema, Path(path))
        yield _look("settings", _settings, Path(path))
        yield _look("integrity", lambda file: _integrity(file, full=full), Path(path))


def schema_version(path: str) -> int:
    """Read the schema number; 0 for a file that does not exist or is still empty."""
    if path == ":memory:" or not Path(path).exists():
        return 0
    try:
        with glance(path) as connection:
            ours = check_owner(connection, path)
            return int(connection.execute("SELECT version FROM schema").get) if ours else 0
    except apsw.NotADBError as error:
        raise WrongAddress(f"{path} is not a SQLite database; give standfast its own file") from error
    except apsw.Error as error:
        raise StoreUnavailable(f"cannot read {path}: {error}; nothing was written", definite=True) from error


def _look(name: str, check: Callable[[Path], str], path: Path) -> Finding:
    try:
        return Finding(name, check(path))
    except (StandfastError, OSError, apsw.Error) as error:
        return Finding(name, "", str(error))


def _engine(_path: Path) -> str:
    return f"SQLite {check_engine_version()} through apsw {apsw.apsw_version()}"


def _file(path: Path) -> str:
    if path.is_dir():
        raise ConfigurationError(f"{path.resolve()} is a directory; name a file")
    if not path.exists():
        return f"{path.resolve()} is not there yet; the first use creates it"
    return f"{path.resolve()}, {data_size(path.stat().st_size)}"


def _disk(path: Path, room: int) -> str:
    free = shutil.disk_usage(_nearest(path.parent)).free
    if free < room:
        raise ConfigurationError(f"{data_size(free)} are free, and new work needs {data_size(room)}; free some space")
    return f"{data_size(free)} free"


def _permissions(path: Path) -> str:
    found = path if path.exists() else _nearest(path.parent)
    for needed in {found, _nearest(path.parent)}:
        if not os.access(needed, os.R_OK | os.W_OK):
            raise ConfigurationError(f"{needed} cannot be written by {user_name()}; SQLite needs file and directory")
    mode = found.stat().st_mode & 0o777
    if path.is_file() and mode & OTHERS:
        raise ConfigurationError(f"{path} has mode {mode:04o}, so others can read payloads; run: chmod 600 {path}")
    return f"{mode:04o}, uid {found.stat().st_uid}" if path.exists() else f"{found} can be written"


def _nearest(directory: Path) -> Path:
    """Return the directory, or the nearest one above it that exists."""
    return next(place for place in (directory, *directory.resolve().parents) if place.exists())


def _schema(path: Path) -> str:
    return f"{schema_version(str(path))}; this library knows {migrations()[-1].number}"


def _integrity(path: Path, *, full: bool) -> str:
    """Let SQLite read the whole file, and check that our own tables agree with each other."""
    if not schema_version(str(path)):
        return "nothing to check yet"
    check = "integrity_check" if full else "quick_check"
    with closing(connect(str(path), reader=True)) as connection:
        found = [text for (text,) in connection.execute(f"PRAGMA {check}(10)")]
        if found != ["ok"]:
            raise ConfigurationError(
                f"{check} found damage: {'; '.join(found)}; stop every process and restore a backup (standfast restore)"
            )
        check_consistent(dict(connection.execute(INCONSISTENT)))
    return f"{check} found nothing, and {CONSISTENT}" + ("" if full else "; --full also compares indexes with tables")


def _settings(path: Path) -> str:
    if not schema_version(str(path)):
        return "none yet"
    with closing(connect(str(path), reader=True)) as connection:
        return ", ".join(f"{name}={connection.pragma(name)}" for name in SETTINGS)
