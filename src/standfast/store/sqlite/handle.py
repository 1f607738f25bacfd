"""Open a connection that can be trusted: settings are set and read back, and foreign files are refused."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import apsw

from standfast.errors import ConfigurationError, WrongAddress

log = logging.getLogger("standfast.store")

APPLICATION_ID = 0x57A9DFA5
"""Marks a file as ours ("standfast")."""

BUSY_SECONDS = 2.0
"""How long one BEGIN waits for another process before the round is tried again."""

LARGEST_WAL = 64 << 20
"""The size in bytes above which a WAL is cut when it is overwritten; a usual one has a quarter of that."""

SETTINGS: dict[str, str | int] = {
    "synchronous": 3,
    "journal_mode": "wal",
    "foreign_keys": 1,
    "trusted_schema": 0,
    "mmap_size": 0,
    "secure_delete": 1,
    "cache_size": -8192,
    "wal_autocheckpoint": 4000,
    "journal_size_limit": LARGEST_WAL,
}
"""What every connection must answer when it is asked, in the order in which it is set.

`synchronous` 3 is EXTRA. NORMAL loses acknowledged jobs. Under FULL, a power cut can bring back the rollback journal of
the switch to WAL, which empties the database that the WAL belongs to. In WAL mode, EXTRA costs no more than FULL.
"""

NOT_KEPT_BY_MEMORY = frozenset({"journal_mode", "mmap_size"})

NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "ncpfs")

_SAFE_SINCE = {(3, 44): 6, (3, 50): 7}
_SAFE_FROM = (3, 51, 3)


def check_engine_version(version: str | None = None) -> str:
    """Refuse a version of SQLite that can lose fsynced commits when one connection writes while another checkpoints."""
    version = version or apsw.sqlite_lib_version()
    major, minor, patch = (int(part) for part in (version + ".0.0").split(".")[:3])
    line = _SAFE_SINCE.get((major, minor))
    if (major, minor, patch) >= _SAFE_FROM or (line is not None and patch >= line):
        return version
    raise ConfigurationError(f"SQLite {version} can lose acknowledged work; install apsw 3.54 or newer")


def check_file_system(path: Path, mounts: str | None = None) -> str:
    """Return the kind of file system; refuse a network one, because its locks and fsync cannot be relied on."""
    table = mounts if mounts is not None else _mounts()
    home = path.resolve()
    best, kind = "", ""
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        mount = left.split()[4].replace("\\040", " ")
        if home.is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, right.split()[0]
    if kind.startswith(NETWORK_FILE_SYSTEMS):
        raise ConfigurationError(f"{path} is on a network file system ({kind}); use a local disk, or postgresql://")
    return kind


def _mounts() -> str:
    table = Path("/proc/self/mountinfo")
    return table.read_text() if table.exists() else ""


def check_not_open_elsewhere(path: Path) -> None:
    """Refuse a file that other code in this process has open: two SQLite libraries drop each other's locks."""
    ours = {f"{path}{suffix}" for suffix in ("", "-wal", "-shm")}
    table = Path("/proc/self/fd")
    for descriptor in table.iterdir() if table.exists() else ():
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue  # closed in the meantime
        if target in ours:
            raise ConfigurationError(
                f"{target} is already open in this process by other means (an ORM, sqlite3, a plain open()); "
                "close that first: two handles on one file drop each other's locks"
            )


def check_whole(path: Path) -> None:
    """Refuse a database that lacks one of its files: SQLite would continue without the jobs that were in it.

    A WAL never has content before its database has, not even after a power cut, and its index is created after it and
    deleted before it.
    """
    wal, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    if _size(wal) and not _size(path):
        raise ConfigurationError(
            f"{path} is missing, and {wal}, which may hold accepted jobs, is there: put {path.name} back, or move "
            f"{wal.name} away to begin a new store"
        )
    before = _inode(index)
    if before and not wal.exists() and _inode(index) == before:
        raise ConfigurationError(
            f"{wal} is missing, and {index} is there: it was deleted, and accepted jobs may be lost; put it back, "
            f"or delete {index.name} too, to go on without what it held"
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _inode(path: Path) -> int:
    return path.stat().st_ino if path.exists() else 0


def create_file(path: Path) -> None:
    """Create the file for its owner only, before SQLite sees it."""
    _make_directory(path.parent)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return


def _make_directory(path: Path) -> None:
    """Make a directory that survives a power cut: SQLite syncs what is inside it, but not the directory's own name."""
    new = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in new:
        sync_directory(each.parent)


def sync_directory(path: Path) -> None:
    """Sync the names in a directory to disk."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def connect(location: str, *, vfs: str | None = None, memory: bool = False, reader: bool = False) -> apsw.Connection:
    """Open one connection, and read every setting back."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI | (apsw.SQLITE_OPEN_CREATE if memory else 0)
    connection = apsw.Connection(location, flags=flags, vfs=vfs)
    with closed_on_failure(connection):
        _check_writable(connection)
        connection.set_busy_handler(patience())
        _keep_plans(connection)
        _apply_settings(connection, memory=memory)
        if reader:
            connection.pragma("query_only", 1)
    return connection


def _check_writable(connection: apsw.Connection) -> None:
    """Refuse a read-only file: SQLite opens it nevertheless, and leaves a WAL behind that cannot be written."""
    if connection.readonly("main"):
        raise apsw.ReadOnlyError("the file is read-only")


def _keep_plans(connection: apsw.Connection) -> None:
    """Plan each statement once. Otherwise SQLite replans for every new value, at five times the statement's cost."""
    if not connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1):
        raise ConfigurationError("SQLite does not keep its query plans; install apsw 3.54 or newer")


@contextmanager
def closed_on_failure(connection: apsw.Connection) -> Iterator[None]:
    """Close the connection unless the block succeeds."""
    with ExitStack() as stack:
        stack.callback(let_go, connection)
        yield
        stack.pop_all()


def let_go(connection: apsw.Connection, *, as_it_is: bool = False) -> None:
    """Close a handle for good. What cannot be put in order now is put in order when the file is next opened.

    `as_it_is` leaves the files untouched, for cases in which a last checkpoint could spoil them.
    """
    try:
        if as_it_is:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close(True)  # noqa: FBT003 - apsw's own signature
    except apsw.Error as error:
        log.warning("a handle was closed in disorder: %s", error)


@contextmanager
def rolled_back_on_failure(connection: apsw.Connection) -> Iterator[None]:
    """Roll back the open transaction unless the block succeeds."""
    with ExitStack() as stack:
        stack.callback(roll_back, connection)
        yield
        stack.pop_all()


def roll_back(connection: apsw.Connection) -> None:
    """Roll back the open transaction, if there is one."""
    if connection.in_transaction:  # some errors make SQLite roll back on its own
        connection.execute("ROLLBACK")


def _apply_settings(connection: apsw.Connection, *, memory: bool) -> None:
    for name, wanted in SETTINGS.items():
        if memory and name in NOT_KEPT_BY_MEMORY:
            continue
        _set(connection, name, wanted)
        got = connection.pragma(name)
        if got != wanted:
            raise ConfigurationError(
                f"SQLite answers {name}={got!r} where {wanted!r} was set; this file cannot be used"
            )


def _set(connection: apsw.Connection, name: str, wanted: str | int) -> None:
    """Set one setting. SQLite does not wait for the switch to WAL if many open a new file at once: try again here."""
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.pragma(name, wanted)
        except apsw.BusyError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.001)
        else:
            return


def patience(longest: float | None = None) -> Callable[[int], bool]:
    """Return a busy handler that waits in small steps: the lock's holder is committing, and done in a millisecond."""
    waited_since = 0.0

    def wait(tries: int) -> bool:
        nonlocal waited_since
        now = time.monotonic()
        waited_since = now if tries == 0 else waited_since
        time.sleep(0.0002)
        return now - waited_since < (BUSY_SECONDS if longest is None else longest)

    return wait


@contextmanager
def glance(path: str) -> Iterator[apsw.Connection]:
    """Open a file for one read transaction, without setting anything: a journal mode would persist in the file."""
    with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        _check_writable(connection)
        connection.set_busy_handler(patience())
        with connection:
            yield connection


def check_not_foreign(path: Path) -> None:
    """Refuse another program's database before changing it."""
    with glance(str(path)) as connection:
        check_owner(connection, str(path))


def claim_file(connection: apsw.Connection, path: str) -> None:
    """Mark a new file as ours; refuse another program's. Runs inside a write transaction."""
    if not check_owner(connection, path):
        connection.pragma("application_id", APPLICATION_ID)


def check_owner(connection: apsw.Connection, path: str) -> bool:
    """Return whether a file is marked as ours; refuse another program's."""
    marked = connection.pragma("application_id")
    if marked == APPLICATION_ID:
        return True
    if marked or connection.execute("SELECT count(*) FROM sqlite_schema").get:
        raise WrongAddress(f"{path} is another program's database; give standfast its own file")
    return False
