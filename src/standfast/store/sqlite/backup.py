"""Copy a store through SQLite itself while other processes keep writing; a copy is checked before it counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import apsw

from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.store.sqlite.handle import check_owner, sync_directory

Contents = Callable[[apsw.Connection], dict[str, int]]
"""Reads what a store holds, for comparison with the copy."""


def back_up(source: apsw.Connection, path: str, contents: Contents) -> dict[str, int]:
    """Copy a store, as it is now, to a file that must not exist yet; return what the copy holds."""
    try:
        with new_file(path) as unfinished:
            return copy(source, unfinished, contents)
    except (OSError, apsw.Error) as error:
        raise StoreUnavailable(f"cannot back up to {path}: {error}; nothing was left there", definite=True) from error


def copy(source: apsw.Connection, path: str, contents: Contents) -> dict[str, int]:
    """Copy a store into an unused file, and compare the two.

    One read transaction stays open meanwhile: writers continue, and what they write is not in the copy.
    """
    with closing(apsw.Connection(path)) as target:
        source.execute("BEGIN")
        held = contents(source)
        with target.backup("main", source, "main") as backup:
            backup.step()
        source.execute("COMMIT")
        target.pragma("journal_mode", "delete")  # a copy is one file, without companions
        _check(target, held, contents)
    return held


def _check(target: apsw.Connection, held: dict[str, int], contents: Contents) -> None:
    found = target.pragma("integrity_check")
    if found != "ok":
        raise StoreUnavailable(f"the copy is damaged: {found}; it was deleted, try again elsewhere", definite=True)
    if contents(target) != held:
        raise StoreUnavailable("the copy differs from the store; it was deleted: try again", definite=True)


@contextmanager
def new_file(path: str) -> Iterator[str]:
    """Yield a temporary path next to `path`; if the block succeeds, the file is renamed to `path`."""
    final, unfinished = Path(path), Path(f"{path}.unfinished")
    check_free(final)
    for rest in (unfinished, *companion_files(unfinished)):
        rest.unlink(missing_ok=True)  # left by an interrupted backup
    with ExitStack() as stack:
        stack.callback(unfinished.unlink, missing_ok=True)
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        yield str(unfinished)
        _name(unfinished, final)


def companion_files(path: Path) -> list[Path]:
    """Return the files that SQLite and the engine put next to a database."""
    return [Path(f"{path}{suffix}") for suffix in ("-wal", "-shm", "-journal", ".turn", "-audit")]


def check_free(path: Path) -> None:
    """Refuse to overwrite a file, or to put one among another's leftover companion files."""
    for taken in (path, *companion_files(path)):
        if taken.exists():
            raise ConfigurationError(f"{taken} already exists, and nothing was overwritten; name another file")
    if not path.resolve().parent.is_dir():
        raise ConfigurationError(f"there is no directory {path.resolve().parent}; make it first")


def _name(unfinished: Path, final: Path) -> None:
    """Give a finished file its name, unless that was taken meanwhile, and sync the name to disk."""
    os.link(unfinished, final)
    sync_directory(final.resolve().parent)


@contextmanager
def opened(path: str) -> Iterator[apsw.Connection]:
    """Open a backup for reading; refuse any other file."""
    if not Path(path).is_file():
        raise ConfigurationError(f"there is no backup {path}")
    try:
        with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            if not check_owner(connection, path):
                raise ConfigurationError(f"{path} is empty; it is not a backup")
            yield connection
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise ConfigurationError(f"{path} is not a backup of a store, or it is damaged: {error}") from error
