"""The location of a store, and the disk under it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from standfast.store.engine import Engine
from standfast.store.finding import Finding
from standfast.store.places import Place
from standfast.store.room import ROOM_TO_ACCEPT


class StoreLocation:
    """The file or the server of one store; methods that need the store open will open it."""

    def __init__(self, place: Callable[[], Place], engine: Callable[[], Engine[Any]]) -> None:
        self._place = place
        self._engine = engine

    def exists(self) -> bool:
        """Return whether there is a store to open; opening creates a missing one."""
        return self._place().exists()

    def is_file(self, path: str) -> bool:
        """Return whether a file is this store's own."""
        return self._place().key == str(Path(path).resolve())

    def is_server(self) -> bool:
        """Return whether the store is on a server; there, claims have a writer of their own."""
        return self._place().away is not None

    def checkup(self, *, full: bool = False) -> list[Finding]:
        """Check the store without opening it for use."""
        return list(self._place().checkup(room=ROOM_TO_ACCEPT, full=full))

    def schema_version(self) -> int:
        """Read the schema number without migrating the schema."""
        return self._place().schema_version()

    def free_bytes(self) -> int:
        """Return the free disk space where the store is."""
        return self._engine().free_bytes()

    def disk_low(self) -> bool:
        """Return whether new work is refused for lack of disk space."""
        return self.free_bytes() < self._engine().room_to_accept()

    def wal(self) -> tuple[int, list[str]]:
        """Return the size of the log that a file has next to it, and what keeps it from shrinking."""
        return self._engine().wal()

    def back_up(self, path: str) -> dict[str, int]:
        """Copy the store to a new file while it is in use; return what the copy holds."""
        return self._engine().back_up(path)
