"""What a URL names: a file, a store in memory, or a schema on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from standfast.clock import Clock
from standfast.errors import ConfigurationError
from standfast.store.engine import Engine
from standfast.store.finding import Finding
from standfast.store.scripts import RoundScripts
from standfast.store.sqlite import checkup
from standfast.store.sqlite.files import Files
from standfast.store.sqlite.sqlite_engine import SqliteEngine

MEMORY = ":memory:"


class Place(Protocol):
    """Where a store is, whether it is open or not."""

    @property
    def key(self) -> str | None:
        """What two URLs share that name the same store; None for a store in memory."""

    @property
    def away(self) -> str | None:
        """What a spool calls the store that it keeps jobs for; None for a store on this host, which needs none."""

    def engine(self, clock: Clock, scripts: RoundScripts) -> Engine[Any]:
        """Make the engine that opens it."""

    def exists(self) -> bool:
        """Tell whether there is a store to open; opening creates one that is not."""

    def checkup(self, *, room: int, full: bool) -> Iterable[Finding]:
        """Look at it without opening it for use; new work needs so many free bytes. `full` takes longer."""

    def schema_version(self) -> int:
        """Read the schema's number without bringing it forward."""


def place(url: str, audit_file: str | None = None, spool: str | None = None) -> Place:
    """Read `queue.db`, `sqlite:///rel.db`, `sqlite:////abs.db`, `:memory:` or `postgresql://…`.

    `audit_file` is where the heads of the audit chain are noted; a database file has its own beside it. `spool` names
    the file that keeps jobs for a server while it is away; beside it is noted whether this host ever reached it.
    """
    if url.startswith(("postgresql://", "postgres://")):
        return _postgres(url, audit_file, spool)
    return SqliteFile(sqlite_path(url))


def _postgres(url: str, audit_file: str | None, spool: str | None) -> Place:
    """Postgres's own modules are imported only here: the driver is an extra."""
    try:
        from standfast.store.postgres.place import PostgresSchema  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise ConfigurationError("postgresql:// needs an extra: pip install 'standfast[postgres]'") from error
    return PostgresSchema(url, audit_file, spool)


def sqlite_path(url: str) -> str:
    """Read the path a SQLite URL names."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        raise ConfigurationError(
            f"unknown store {parts.scheme}://; write sqlite:///file.db, a file name, or postgresql://host/database"
        )
    path = parts.path.removeprefix("/")
    if parts.netloc or not path:
        raise ConfigurationError(f"{url!r} names no file; write sqlite:///rel.db or sqlite:////abs.db")
    return path


class SqliteFile:
    """A database file, or a store in memory."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def key(self) -> str | None:
        """The file, whatever way leads to it."""
        return None if self._path == MEMORY else str(Path(self._path).resolve())

    @property
    def away(self) -> None:
        """Nothing: where the disk is gone, a spool is too."""

    def engine(self, clock: Clock, scripts: RoundScripts) -> SqliteEngine:
        """Make the engine that opens the file."""
        return SqliteEngine(Files(self.key or MEMORY), clock, scripts)

    def exists(self) -> bool:
        """Tell whether the file is there."""
        return self._path == MEMORY or Path(self._path).exists()

    def checkup(self, *, room: int, full: bool) -> Iterable[Finding]:
        """Look at the file."""
        return checkup.checkup(self._path, room=room, full=full)

    def schema_version(self) -> int:
        """Read the schema's number."""
        return checkup.schema_version(self._path)
