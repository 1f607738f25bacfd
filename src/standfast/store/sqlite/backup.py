"""Copy a store through SQLite itself, while others go on writing; a copy is looked through before it counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import apsw

from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.store.sqlite.handle import check_owner, sync_directory

Contents = Callable[[apsw.Connection], dict[str, int]]
"""Reads what a store holds, to compare the copy with."""


def back_up(source: apsw.Connection, path: str, contents: Contents) -> dict[str, int]:
    """Copy a store, as it is at this moment, to a file that must not exist yet; give what the copy holds."""
    try:
        with new_file(path) as unfinished:
            return copy(source, unfinished, contents)
    except (OSError, apsw.Error) as error:
        raise StoreUnavailable(f"cannot back up to {path}: {error}; nothing was left there", definite=True) from error


def copy(source: apsw.Connection, path: str, contents: Contents) -> dict[str, int]:
    """Copy a store into an unused file, and compare.

    One read transaction is open all the while: writers go on, and what they write is not in the copy.
    """
    with closing(apsw.Connection(path)) as target:
        source.execute("BEGIN")
        held = contents(source)
        with target.backup("main", source, "main") as backup:
            backup.step()
        source.execute("COMMIT")
        target.pragma("journal_mode", "delete")  # a copy is one file, with nothing beside it
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
    """Give a place beside `path`; what is there at the end takes that name, unless anything went wrong."""
    final, unfinished = Path(path), Path(f"{path}.unfinished")
    check_free(final)
    for rest in (unfinished, *companion_files(unfinished)):
        rest.unlink(missing_ok=True)  # of one that was interrupted
    with ExitStack() as stack:
        stack.callback(unfinished.unlink, missing_ok=True)
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        yield str(unfinished)
        _name(unfinished, final)


def companion_files(path: Path) -> list[Path]:
    """Name the files SQLite and the engine put beside a database."""
    return [Path(f"{path}{suffix}") for suffix in ("-wal", "-shm", "-journal", ".turn", "-audit")]


def check_free(path: Path) -> None:
    """Refuse to overwrite a file, or to lay one between what is left of another."""
    for taken in (path, *companion_files(path)):
        if taken.exists():
            raise ConfigurationError(f"{taken} already exists, and nothing was overwritten; name another file")
    if not path.resolve().parent.is_dir():
        raise ConfigurationError(f"there is no directory {path.resolve().parent}; make it first")


def _name(unfinished: Path, final: Path) -> None:
    """Give a finished file its name, unless it was taken meanwhile, and put that on disk."""
    os.link(unfinished, final)
    sync_directory(final.resolve().parent)


@contextmanager
def opened(path: str) -> Iterator[apsw.Connection]:
    """Open a backup to read from; refuse what is none."""
    if not Path(path).is_file():
        raise ConfigurationError(f"there is no backup {path}")
    try:
        with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            if not check_owner(connection, path):
                raise ConfigurationError(f"{path} is empty; it is not a backup")
            yield connection
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise ConfigurationError(f"{path} is not a backup of a store, or it is damaged: {error}") from error
