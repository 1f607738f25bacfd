"""The files of one store: the database, its baton, its notifier, and the readers that run in parallel to the writer."""

from __future__ import annotations

import errno
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from standfast.clock import UNKNOWN_BOOT, Clock
from standfast.concurrency.threads import Threads
from standfast.errors import StoreDamaged, StoreUnavailable, WrongAddress
from standfast.store.hints import Hint
from standfast.store.sqlite.backup import Contents, back_up
from standfast.store.sqlite.disk import Disk
from standfast.store.sqlite.file_schema import fill_memory, migrate
from standfast.store.sqlite.handle import (
    check_engine_version,
    check_file_system,
    check_not_foreign,
    check_not_open_elsewhere,
    check_whole,
    claim_file,
    closed_on_failure,
    connect,
    create_file,
    let_go,
    rolled_back_on_failure,
)
from standfast.store.sqlite.neighbours import Baton, DatagramNotifier
from standfast.store.sqlite.promotion_mark import check_usable
from standfast.store.sqlite.wal import Wal
from standfast.store.sqlite.watch import Damage, Watch
from standfast.store.steps import Script

log = logging.getLogger("standfast.store")

Drive = Callable[[apsw.Connection, Script[Any]], Any]

READERS = 2
LONGEST_READ = 1.0
"""Seconds to wait for reads in progress before a damaged file is closed."""
NOT_WRITABLE = (PermissionError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError)
NO_DIRECTORY = (FileNotFoundError, FileExistsError, NotADirectoryError)
LAST_WRITTEN = """
SELECT max(at) FROM (
  SELECT max(at) AS at FROM upkeep UNION ALL SELECT max(beat_at) FROM worker
  UNION ALL SELECT * FROM (SELECT at FROM journal ORDER BY seq DESC LIMIT 1)
)
"""
"""The latest queue time in the file. The journal alone is not enough: all of it may have been pruned."""
_memory_names = itertools.count(1)


DAMAGED = "removed"
"""The name in `upkeep` under which a store notes, for health, when its file was removed, replaced or truncated."""


class Files:
    """One database file and its companion files, or one separate `:memory:` store."""

    def __init__(self, path: str, *, vfs: str | None = None) -> None:
        self.memory = path == ":memory:"
        self.path = path if self.memory else str(Path(path).resolve())
        self.notifier = None if self.memory else DatagramNotifier(self.path)
        self._location = f"file:/standfast-{next(_memory_names)}?vfs=memdb" if self.memory else self.path
        self._vfs = vfs
        self.baton: Baton | None = None
        self._anchor: apsw.Connection | None = None
        self._readers = Threads(READERS, "standfast-reader")
        self._reading = threading.Semaphore(READERS)
        self._own = threading.local()
        self._opened: list[apsw.Connection] = []
        self.disk = Disk(None if self.memory or vfs else self.path)
        self.watch = None if self.memory or vfs else Watch(self.path)
        self.wal = Wal(None if self.memory or vfs else self.path)
        self._mendable = False
        self._damage: StoreDamaged | None = None
        """What happened to the file while this process used it. It is not used again until the process is restarted."""

    @property
    def audit_path(self) -> str | None:
        """Where the heads of the audit chain are noted: next to the database, if that is a real file."""
        return None if self.memory or self._vfs else f"{self.path}-audit"

    def open(self) -> apsw.Connection:
        """Open the writer's connection to a file that is ours and has the newest schema."""
        check_engine_version()
        self._check_usable()
        if self.watch is not None and (damage := self.watch.lost()):
            raise self._stop(damage)
        with self.explaining():
            self._prepare()
            connection = connect(self._location, vfs=self._vfs, memory=self.memory)
            with closed_on_failure(connection):
                self._bring_forward(connection)
                if self.watch is not None:
                    self.watch.begin()
        return connection

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Turn errors during opening into errors that name the next step."""
        try:
            yield
        except apsw.NotADBError as error:
            raise WrongAddress(f"{self.path} is not a SQLite database; give standfast its own file") from error
        except (OSError, apsw.Error) as error:
            raise StoreUnavailable(
                f"cannot open {self.path}: {error}; nothing was written: {_step(error, Path(self.path).parent)}",
                definite=True,
            ) from error

    def _prepare(self) -> None:
        if self.memory and self._anchor is None:
            self._anchor = connect(self._location, memory=True)
            fill_memory(self._anchor)
        elif not self.memory and self.baton is None and self._vfs is None:
            path = Path(self.path)
            check_file_system(path.parent)
            check_not_open_elsewhere(path)
            check_whole(path)
            create_file(path)
            check_not_foreign(path)
            self.baton = Baton(f"{self.path}.turn")

    # --- damage

    def check_whole(self, connection: apsw.Connection) -> None:
        """Refuse to write to files that are not as they were. Runs at the beginning of a write transaction."""
        if self.watch is not None and (damage := self.watch.damaged(connection)):
            raise self._stop(damage)

    def check_in_place(self, *, committed: bool = False) -> None:
        """Refuse what was just committed, or is about to be read, if the names now lead to other files."""
        if self.watch is not None and (damage := self.watch.moved()):
            raise self._stop(damage).for_caller(definite=not committed)

    @property
    def is_damaged(self) -> bool:
        """Whether this process has found damage."""
        return self._damage is not None

    def _check_usable(self) -> None:
        if self._damage is not None:
            raise self._damage

    def _stop(self, damage: Damage) -> StoreDamaged:
        """Treat the file as lost from now on, and record that for the next process that opens it."""
        if self._damage is None:
            what = f"{damage.file} was {damage.what} while this process used it"
            self._damage = StoreDamaged(what, "put the file back or restore a backup, then restart this process")
            self._mendable = damage.mendable
            log.error("%s; jobs that were accepted may be lost, and no more are accepted", what)
            with suppress(OSError):
                Path(f"{self.path}-damaged").write_text(f"{what}\n")
        return self._damage

    def note_damage(self, connection: apsw.Connection, now: float) -> None:
        """Make health report what an earlier process found."""
        note = Path(f"{self.path}-damaged")
        if self.watch is None or not note.exists():
            return
        with self.explaining():
            connection.execute("INSERT OR REPLACE INTO upkeep (name, at) VALUES (?, ?)", (DAMAGED, now))
            note.unlink(missing_ok=True)

    def let_go(self, connection: apsw.Connection) -> None:
        """Close a handle without making damage worse: pages of a WAL that was cut must not get into the database.

        A deleted WAL still exists for processes that have it open: the last one to close it completes the database.
        """
        if self.watch is None:
            let_go(connection)
            return
        if self._damage is None and (damage := self.watch.moved()):
            self._stop(damage)
        spoiled = self._damage is not None and not self._mendable
        as_it_is = spoiled or self.watch.is_shorter()
        self.watch.database_only()  # first, because a reader may look while this closes
        let_go(connection, as_it_is=as_it_is)

    def relieve_wal(self, connection: apsw.Connection) -> None:
        """Keep the WAL small; called between two rounds."""
        if self.watch is not None:
            self.wal.relieve(connection, self.watch.wal_bytes)

    def let_go_of_all(self, writer: apsw.Connection) -> None:
        """Close every handle on a damaged file, the writer's last."""
        if self.pause(LONGEST_READ):
            self.resume()
        self.let_go(writer)

    def _bring_forward(self, connection: apsw.Connection) -> None:
        """Build the schema. Many processes may open a new file at once: the first to get the write lock builds it.

        Opening does not wait for a turn: it could wait forever behind a process that was frozen with the baton.
        """
        connection.execute("BEGIN IMMEDIATE")
        with rolled_back_on_failure(connection):
            claim_file(connection, self.path)
            migrate(connection, self.path)
        connection.execute("COMMIT")

    def listen(self, listener: Callable[[Hint], None]) -> None:
        """Listen for what other processes put into this store; a store in memory has no other processes."""
        if self.notifier is not None:
            self.notifier.listen(listener)

    def set_clock(self, connection: apsw.Connection, clock: Clock) -> float:
        """Return what must be added to the time since boot; decide it on the first open after a boot.

        Queue time continues where it stopped: it starts at wall time, but never before the last time that was written.
        """
        with self.explaining(), closed_on_failure(connection):
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute("SELECT offset FROM clock WHERE boot = ?", (clock.boot(),)).fetchone()
            [(last,)] = connection.execute(LAST_WRITTEN)
            fell = found is not None and clock.elapsed() + found[0] < (last or 0.0) - 1.0
            if found is None or (fell and clock.boot() == UNKNOWN_BOOT):
                found = (max(clock.wall(), last or 0.0) - clock.elapsed(),)
                row = (clock.boot(), found[0], clock.wall())
                connection.execute("INSERT OR REPLACE INTO clock (boot, offset, since) VALUES (?, ?, ?)", row)
            connection.execute("COMMIT")
        return float(found[0])

    def read(self, script: Script[Any], drive: Drive) -> Future[Any]:
        """Run a reading script on a reader's thread, in one snapshot."""
        return self._readers.submit(self._read, script, drive)

    def _read(self, script: Script[Any], drive: Drive) -> Any:
        with self._reading, self.wal.reading():
            try:
                connection = self._reader()
                connection.execute("BEGIN")
                with rolled_back_on_failure(connection):
                    check_usable(connection)
                    found = drive(connection, script)
                    connection.execute("COMMIT")
            except apsw.Error as error:
                self._drop_reader()
                raise StoreUnavailable(f"cannot read {self.path}: {error}; call again", definite=True) from error
        return found

    def back_up(self, path: str, contents: Contents) -> dict[str, int]:
        """Copy the store to a new file, as one of the readers, so that a fork waits until it is done."""
        self._check_usable()
        self.check_in_place()
        with self._reading, self.wal.reading(), closing(self._connect_reader()) as connection:
            check_usable(connection)
            return back_up(connection, path, contents)

    def _connect_reader(self) -> apsw.Connection:
        return connect(self._location, vfs=self._vfs, memory=self.memory, reader=True)

    def _reader(self) -> apsw.Connection:
        self._check_usable()
        self.check_in_place()
        connection: apsw.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._connect_reader()
            self._own.connection = connection
            self._opened.append(connection)
        return connection

    def _drop_reader(self) -> None:
        """Close this thread's handle: a read transaction that it may still hold would keep the WAL growing."""
        connection, self._own.connection = getattr(self._own, "connection", None), None
        if connection is not None:
            self._opened.remove(connection)
            let_go(connection)

    def pause(self, seconds: float) -> bool:
        """Close the readers' handles and let none open before `resume`; return False if a read takes too long."""
        taken = [self._reading.acquire(timeout=seconds) for _ in range(READERS)]
        if not all(taken):
            for _ in filter(None, taken):
                self._reading.release()
            return False
        for connection in self._opened:
            self.let_go(connection)
        self._opened.clear()
        self._own = threading.local()
        return True

    def resume(self) -> None:
        """Let the readers open the file again."""
        self._reading.release(READERS)

    def abandon(self) -> None:
        """Close the baton in a forked child: an inherited descriptor would keep it from other processes forever."""
        if self.baton is not None:
            self.baton.close()

    def close(self, writer: apsw.Connection | None) -> None:
        """Close every handle on the database, the writer's last, then the companion files."""
        self._readers.shutdown()
        for connection in (*self._opened, self._anchor, writer):
            if connection is not None:
                self.let_go(connection)
        if self.baton is not None:
            self.baton.close()
        if self.notifier is not None:
            self.notifier.close()


def _step(error: Exception, directory: Path) -> str:
    """Say what to do about a file that cannot be opened; calling again helps only if nothing must be fixed first."""
    if isinstance(error, NOT_WRITABLE) or getattr(error, "errno", None) == errno.EROFS:
        return f"let this user write the file and its directory {directory}, or name another place"
    if isinstance(error, NO_DIRECTORY):
        return f"{directory} cannot be made or entered; make it a directory, or name another place"
    return "call again"
