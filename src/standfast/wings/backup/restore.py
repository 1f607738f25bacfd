"""Makes a store from a backup. It gets its name only once it is whole, and once nothing in it runs by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from standfast.errors import ConfigurationError
from standfast.store.places import sqlite_path
from standfast.store.sqlite import backup
from standfast.store.sqlite.holders import users_of
from standfast.store.sqlite.sqlite_engine import drive
from standfast.store.store import Store
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision
from standfast.wings.letters import insert_dead
from standfast.wings.letters.insert_dead import RestoredHold
from standfast.wings.records import reads
from standfast.wings.tokens import session_scripts

StoreAt = Callable[[str], Store]
"""Returns the store of a URL, not yet open."""


def restore(url: str, path: str, holding: RestoredHold | None, decided: Decision, store_at: StoreAt) -> dict[str, int]:
    """Restore a backup to a store that must not exist yet; return what the backup holds.

    Decisions made since the backup are missing in its audit chain: a link of its own says why.
    """
    target = sqlite_path(url)
    if target == ":memory:":
        raise ConfigurationError("a backup is restored to a file; name one")
    if users := users_of(str(Path(target).resolve())):
        raise ConfigurationError(f"{target} is in use by {', '.join(users)}; stop that first, nothing was changed")
    Path(target).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with backup.opened(path) as source, backup.new_file(target) as unfinished:
        held = backup.copy(source, unfinished, lambda connection: drive(connection, reads.contents()))
        _settle(store_at(unfinished), unfinished, holding, decided)
    return held


def _settle(store: Store, path: str, holding: RestoredHold | None, decided: Decision) -> None:
    """Open the copy once: migrate its schema, hold the jobs that would run, and sign every browser out."""
    store.open()
    try:
        while holding is not None and store.write(insert_dead.hold_restored, holding).result():
            pass  # in bites, so that no transaction grows without bound
        store.write(session_scripts.close_all, None).result()
        store.write(audit.note, decided).result()
    finally:
        store.close()
        for rest in backup.companion_files(Path(path)):
            rest.unlink(missing_ok=True)
