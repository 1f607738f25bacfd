"""A schema on a server, whether it is open or not."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
from psycopg.conninfo import conninfo_to_dict

from standfast.clock import Clock
from standfast.errors import StandfastError
from standfast.store.finding import Finding
from standfast.store.migrations import migrations
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import Connection, connect
from standfast.store.postgres.integrity import examine
from standfast.store.postgres.server import Server
from standfast.store.postgres.two_writers import TwoWriters
from standfast.store.reached_server import ReachedServer
from standfast.store.scripts import RoundScripts
from standfast.store.spoolfile import spool_path


class PostgresSchema:
    """One store on a PostgreSQL server."""

    def __init__(self, url: str, audit_file: str | None = None, spool: str | None = None) -> None:
        self._address = Address.read(url)
        self._audit_file = audit_file
        self._reached = ReachedServer(spool_path(spool, self.away), self.away)

    @property
    def key(self) -> str | None:
        """The server and the schema."""
        return f"{self._address.server} {self._address.schema}"

    @property
    def away(self) -> str:
        """The server, the database and the schema. The user and the way to connect may change."""
        given = conninfo_to_dict(self._address.server)
        host, port = (given.get(name) or os.environ.get(f"PG{name.upper()}") for name in ("host", "port"))
        database = given.get("dbname") or os.environ.get("PGDATABASE") or given.get("user")
        return f"{host or 'localhost'}:{port or 5432}/{database} (schema {self._address.schema})"

    def engine(self, clock: Clock, scripts: RoundScripts) -> TwoWriters:
        """Create the engine that connects to the server."""
        return TwoWriters(Server(self._address, self._reached), clock, scripts, self._audit_file)

    def exists(self) -> bool:
        """Assume that the store exists: only asking the server could tell, and using the store will."""
        return True

    def checkup(self, *, room: int, full: bool) -> Iterator[Finding]:  # noqa: ARG002 - the disk is the server's
        """Check the server; one that cannot be reached is a finding too."""
        try:
            with connect(self._address) as connection:
                [(version,)] = connection.execute("SHOW server_version")
                yield Finding("engine", f"PostgreSQL {version}")
                yield Finding("place", str(self._address))
                yield Finding("settings", "fsync and synchronous_commit are on, the server is no standby")
                version = _version(connection, self._address.schema)
                yield Finding("schema", str(version))
                yield Finding("disk", "the server's, which is not seen from here: it refuses what does not fit")
                if version == migrations("postgres")[-1].number:
                    yield _integrity(connection, self._address.schema, full=full)
        except (psycopg.Error, StandfastError) as error:
            yield Finding("engine", str(self._address), f"{str(error).strip()}")

    def schema_version(self) -> int:
        """Read the schema number; 0 if there is no schema yet."""
        with connect(self._address) as connection:
            return _version(connection, self._address.schema)


def _integrity(connection: Connection, schema: str, *, full: bool) -> Finding:
    try:
        return Finding("integrity", examine(connection, schema, full=full))
    except (psycopg.Error, StandfastError) as error:
        return Finding("integrity", "", str(error).strip())


def _version(connection: Connection, schema: str) -> int:
    [(table,)] = connection.execute("SELECT to_regclass(%s)", (f"{schema}.schema",))
    if table is None:
        return 0
    [(version,)] = connection.execute(f"SELECT version FROM {schema}.schema")  # noqa: S608 - the name was checked
    return int(version)
