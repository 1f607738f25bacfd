"""The spool's file: opened like the store's own, marked as a spool, and bound to the server that its jobs are for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from standfast.errors import ConfigurationError
from standfast.store.sqlite.handle import (
    check_engine_version,
    check_file_system,
    check_not_open_elsewhere,
    closed_on_failure,
    connect,
    create_file,
    glance,
    let_go,
    rolled_back_on_failure,
)

SPOOL_ID = 0x57A95B01
"""Marks a file as a spool, and identifies its layout: another layout gets another mark."""
LAYOUT = """
-- A number never comes twice: what one process deletes is never what another has put meanwhile.
CREATE TABLE entry (
  seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  id      TEXT NOT NULL UNIQUE,
  batch   INTEGER NOT NULL,
  job     TEXT NOT NULL,
  boot    TEXT NOT NULL,
  elapsed REAL NOT NULL,
  wall    REAL NOT NULL,
  unsure  INTEGER NOT NULL,
  tries   INTEGER NOT NULL DEFAULT 0,
  reason  TEXT NOT NULL
);
CREATE TABLE target (name TEXT NOT NULL);
"""

Answer = TypeVar("Answer")


def spool_path(named: str | None, target: str) -> Path:
    """Return the file for this server's schema: the given one, else one that all processes of the user share."""
    if named:
        return Path(named).expanduser()
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    name = hashlib.sha256(target.encode()).hexdigest()[:16]
    return Path(state).expanduser() / "standfast" / f"{name}.spool"


class SpoolFile:
    """One handle on the file, opened when it is needed. Only one thread at a time uses it."""

    def __init__(self, path: Path, target: str) -> None:
        self._path = path
        self._target = target
        self._connection: apsw.Connection | None = None
        self.doubtful = False
        """Whether the last transaction failed in its COMMIT, so that it may have landed."""

    def transact(self, work: Callable[[apsw.Connection], Answer]) -> Answer:
        """Do the work in one transaction, which is on disk when this returns. After an error the handle is dropped."""
        self.doubtful = False
        connection = self._connection or self._open()
        self._connection = None
        with closed_on_failure(connection):
            connection.execute("BEGIN IMMEDIATE")
            with rolled_back_on_failure(connection):
                done = work(connection)
            self.doubtful = True
            connection.execute("COMMIT")
            self.doubtful = False
        self._connection = connection
        return done

    def close(self) -> None:
        """Close the handle."""
        connection, self._connection = self._connection, None
        if connection is not None:
            let_go(connection)

    def _open(self) -> apsw.Connection:
        check_engine_version()
        check_file_system(self._path.parent)
        check_not_open_elsewhere(self._path)
        create_file(self._path)
        with glance(str(self._path)) as looked_at:
            self._is_ours(looked_at)
        connection = connect(str(self._path))
        with closed_on_failure(connection):
            self._lay_out(connection)
        return connection

    def _lay_out(self, connection: apsw.Connection) -> None:
        """Create the tables. Many processes may open a new file at once: the first to get the write lock does it."""
        connection.execute("BEGIN IMMEDIATE")
        with rolled_back_on_failure(connection):
            if not self._is_ours(connection):
                connection.execute(LAYOUT)
                connection.pragma("application_id", SPOOL_ID)
            self._bind(connection)
        connection.execute("COMMIT")

    def _is_ours(self, connection: apsw.Connection) -> bool:
        marked = connection.pragma("application_id")
        if marked == SPOOL_ID:
            return True
        if marked or connection.execute("SELECT count(*) FROM sqlite_schema").get:
            raise ConfigurationError(f"{self._path} is not a spool of this version; give the spool its own file")
        return False

    def _bind(self, connection: apsw.Connection) -> None:
        """Refuse to send one server's jobs to another. An empty spool may be bound to another server."""
        bound = connection.execute("SELECT name FROM target").get
        if bound == self._target:
            return
        if connection.execute("SELECT EXISTS (SELECT 1 FROM entry)").get:
            raise ConfigurationError(
                f"{self._path} holds jobs for {bound}, not for {self._target}; "
                "name another file as [store] spool, or go back to that server until it is empty"
            )
        connection.execute("DELETE FROM target")
        connection.execute("INSERT INTO target (name) VALUES (?)", (self._target,))
