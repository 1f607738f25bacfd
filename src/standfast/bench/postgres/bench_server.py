"""The measured server: the bench's own databases on it, and its relevant settings.

The only module of the bench that uses psycopg.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from standfast.bench import bench_place as place
from standfast.errors import ConfigurationError

OURS = {"schema", "listen", "prepare"}
"""Parameters of the URL that belong to standfast; all others are libpq's."""
SETTINGS = (
    *("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method"),
    *("shared_buffers", "max_wal_size", "max_connections", "autovacuum"),
)
PREFIX = "standfast_bench_"
"""The prefix by which databases of a killed run can be found, and dropped by hand."""
CONNECT_SECONDS = 5
LOCAL = ("", "localhost", "127.0.0.1", "::1")


class Server:
    """A server on which this user may create databases."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        self._parts = parts
        self._prepares = given.get("prepare", "yes")
        self._query = {name: value for name, value in given.items() if name not in OURS}
        self._url = self._named(parts.path.lstrip("/") or self._query.get("dbname", ""))
        self.product_options = {"prepare": self._prepares}
        """Options that standfast's URLs have beyond the peers'. The peers' drivers prepare statements, too."""

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yield the URL of an empty database, and drop it afterwards, closing open connections."""
        name = f"{PREFIX}{secrets.token_hex(6)}"
        known = sql.Identifier(name)
        self._execute(
            sql.SQL("CREATE DATABASE {}").format(known),
            sql.SQL("ALTER DATABASE {} SET synchronous_commit = 'on'").format(known),
        )
        try:
            yield self._named(name)
        finally:
            self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(known))

    def for_product(self, url: str) -> str:
        """Return the URL of a database in the form that standfast reads."""
        joint = "&" if urlsplit(url).query else "?"
        return f"{url}{joint}{urlencode(self.product_options)}"

    def describe(self) -> dict[str, Any]:
        """Return version and settings, and the data directory if this user may know it."""
        with self._connected() as connection:
            settings = {name: _setting(connection, name) for name in SETTINGS}
            directory = _setting(connection, "data_directory")
            version = _setting(connection, "server_version")
            near = connection.info.host in LOCAL or connection.info.host.startswith("/")
        kind = place.file_system(Path(directory))["kind"] if directory and near else None
        return {"version": version, "settings": settings, "data_directory": directory, "file_system": kind}

    def _named(self, database: str) -> str:
        query = urlencode({name: value for name, value in self._query.items() if name != "dbname"}, safe="/:,")
        return urlunsplit(self._parts._replace(path=f"/{database}", query=query))

    def _execute(self, *statements: sql.Composed) -> None:
        with self._connected() as connection:
            for statement in statements:
                connection.execute(statement)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with psycopg.connect(self._url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
                yield connection
        except psycopg.Error as error:
            why = str(error).strip()
            raise ConfigurationError(f"bench needs a server on which it may create databases: {why}") from error


def analyze(url: str) -> None:
    """Update the planner's statistics, as on a server that has been running for a while."""
    with psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
        connection.execute("ANALYZE")


def _setting(connection: psycopg.Connection[Any], name: str) -> str | None:
    """Read a setting; None if this user may not."""
    row = connection.execute("SELECT current_setting(name) FROM pg_settings WHERE name = %s", (name,)).fetchone()
    return None if row is None else str(row[0])
