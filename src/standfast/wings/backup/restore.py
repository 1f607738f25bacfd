"""Make a store of a backup. It appears under its name only once it is whole, and once nothing in it runs by itself."""

from __future__ import annotations

from pathlib import Path

from standfast.errors import ConfigurationError
from standfast.store.places import sqlite_path
from standfast.store.sqlite import backup
from standfast.store.sqlite.engine import drive
from standfast.store.sqlite.holders import users_of
from standfast.store.store import Store
from standfast.wings.audit.words import Decision
from standfast.wings.jobs import reads
from standfast.wings.letters.births import Holding


def restore(url: str, path: str, holding: Holding | None, decided: Decision) -> dict[str, int]:
    """Restore a backup to a store that must not exist yet; give what the backup holds.

    What was decided since the backup is missing in its chain: a link of its own says why.
    """
    target = sqlite_path(url)
    if target == ":memory:":
        raise ConfigurationError("a backup is restored to a file; name one")
    if users := users_of(str(Path(target).resolve())):
        raise ConfigurationError(f"{target} is in use by {', '.join(users)}; stop that first, nothing was changed")
    Path(target).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with backup.opened(path) as source, backup.new_file(target) as unfinished:
        held = backup.copy(source, unfinished, lambda connection: drive(connection, reads.contents()))
        _settle(unfinished, holding, decided)
    return held


def _settle(path: str, holding: Holding | None, decided: Decision) -> None:
    """Open the copy once: bring its schema forward, hold what would run, and sign every browser out."""
    store = Store(path)
    store.open()
    try:
        while holding is not None and store.hold_restored_blocking(holding):
            pass  # in bites, so that no transaction grows without bound
        store.browser_sessions.close_all_blocking()
        store.trail.add_blocking([decided])
    finally:
        store.close()
        for rest in backup.beside(Path(path)):
            rest.unlink(missing_ok=True)
