"""Makes a store from a backup. It gets its name only once it is whole, and once nothing in it happens by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from standfast.errors import ConfigurationError
from standfast.store.places import sqlite_path
from standfast.store.sqlite import backup
from standfast.store.sqlite.holders import users_of
from standfast.store.sqlite.sqlite_engine import drive
from standfast.store.store import Store
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision
from standfast.wings.backup import scripts
from standfast.wings.backup.scripts import Authority, RestoredHold, RestoredPause
from standfast.wings.records import reads
from standfast.wings.tokens import session_scripts

StoreAt = Callable[[str], Store]
"""Returns the store of a URL, not yet open."""


class RestoreOptions(NamedTuple):
    """How jobs are held, if they are; whether every token is revoked; and the decision for the audit chain."""

    holding: RestoredHold | None
    revoke_tokens: bool
    decided: Decision


class Restored(NamedTuple):
    """What a backup holds, what was done to it, and what is valid again."""

    contents: dict[str, int]
    replays_taken_back: int
    revoked_tokens: int
    authority: Authority


def restore(url: str, path: str, options: RestoreOptions, store_at: StoreAt) -> Restored:
    """Restore a backup to a store that must not exist yet; return what the backup holds, and what was done to it.

    Decisions made since the backup are missing in its audit chain: a link of its own says why.
    """
    target = sqlite_path(url)
    if target == ":memory:":
        raise ConfigurationError("a backup is restored to a file; name one")
    if users := users_of(str(Path(target).resolve())):
        raise ConfigurationError(f"{target} is in use by {', '.join(users)}; stop that first, nothing was changed")
    Path(target).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with backup.opened(path) as source, backup.new_file(target) as unfinished:
        contents = backup.copy(source, unfinished, lambda connection: drive(connection, reads.contents()))
        return _settled(contents, store_at(unfinished), unfinished, options)


def _settled(contents: dict[str, int], store: Store, path: str, options: RestoreOptions) -> Restored:
    """Open the copy once: migrate its schema, stop what would happen by itself, and sign every browser out."""
    store.open()
    try:
        while options.holding is not None and store.write(scripts.hold_restored, options.holding).result():
            pass  # in bites, so that no transaction grows without bound
        store.write(scripts.pause_restored, RestoredPause(jobs_held=options.holding is not None)).result()
        taken_back = _take_back_replays(store)
        store.write(session_scripts.close_all, None).result()
        revoked = _revoke_tokens(store, options)
        store.write(audit.note, options.decided).result()
        return Restored(contents, taken_back, revoked, store.read(scripts.authority(store.now())).result())
    finally:
        store.close()
        for rest in backup.companion_files(Path(path)):
            rest.unlink(missing_ok=True)


def _take_back_replays(store: Store) -> int:
    """Leave to a person every letter that would be replayed automatically; return how many there were."""
    number = 0
    while taken_back := store.write(scripts.take_back_replays, scripts.BITE).result():
        number += taken_back
    return number


def _revoke_tokens(store: Store, options: RestoreOptions) -> int:
    return store.write(scripts.revoke_tokens, options.decided.by or "").result() if options.revoke_tokens else 0
