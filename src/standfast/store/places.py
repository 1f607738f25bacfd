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
        """What all URLs of the same store have in common; None for a store in memory."""

    @property
    def away(self) -> str | None:
        """A spool's name for the store that it keeps jobs for; None for a store on this host, which needs no spool."""

    def engine(self, clock: Clock, scripts: RoundScripts) -> Engine[Any]:
        """Create the engine that opens the store."""

    def exists(self) -> bool:
        """Return whether there is a store to open; opening creates a missing one."""

    def checkup(self, *, room: int, full: bool) -> Iterable[Finding]:
        """Check the store without opening it; `room` is how many free bytes new work needs. `full` takes longer."""

    def schema_version(self) -> int:
        """Read the schema number without migrating the schema."""


def place(url: str, audit_file: str | None = None, spool: str | None = None) -> Place:
    """Read `queue.db`, `sqlite:///rel.db`, `sqlite:////abs.db`, `:memory:` or `postgresql://…`.

    `audit_file` is where the heads of the audit chain are noted; a database file has its own next to it. `spool` names
    the file that keeps jobs for a server while it is away; a note next to it says if this host ever reached the server.
    """
    if url.startswith(("postgresql://", "postgres://")):
        return _postgres(url, audit_file, spool)
    return SqliteFile(sqlite_path(url))


def _postgres(url: str, audit_file: str | None, spool: str | None) -> Place:
    """Import PostgreSQL's own modules only here: the driver is an extra."""
    try:
        from standfast.store.postgres.place import PostgresSchema  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise ConfigurationError("postgresql:// needs an extra: pip install 'standfast[postgres]'") from error
    return PostgresSchema(url, audit_file, spool)


def sqlite_path(url: str) -> str:
    """Read the path that a SQLite URL names."""
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
        """The file's resolved path, whichever way the URL leads to it."""
        return None if self._path == MEMORY else str(Path(self._path).resolve())

    @property
    def away(self) -> None:
        """None: if the disk is gone, so is a spool on it."""

    def engine(self, clock: Clock, scripts: RoundScripts) -> SqliteEngine:
        """Create the engine that opens the file."""
        return SqliteEngine(Files(self.key or MEMORY), clock, scripts)

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self._path == MEMORY or Path(self._path).exists()

    def checkup(self, *, room: int, full: bool) -> Iterable[Finding]:
        """Check the file."""
        return checkup.checkup(self._path, room=room, full=full)

    def schema_version(self) -> int:
        """Read the schema number."""
        return checkup.schema_version(self._path)
