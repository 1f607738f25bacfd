"""Where a store is, and the disk under it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from standfast.store.engine import Engine
from standfast.store.finding import Finding
from standfast.store.places import Place
from standfast.store.room import ROOM_TO_ACCEPT


class StoreLocation:
    """The file or the server of one store; what needs it open opens it."""

    def __init__(self, place: Callable[[], Place], engine: Callable[[], Engine[Any]]) -> None:
        self._place = place
        self._engine = engine

    def exists(self) -> bool:
        """Tell whether there is a store to open; opening creates one that is not."""
        return self._place().exists()

    def is_file(self, path: str) -> bool:
        """Tell whether a file is this store's own."""
        return self._place().key == str(Path(path).resolve())

    def is_server(self) -> bool:
        """Tell whether the store is on a server: there claims have a writer of their own."""
        return self._place().away is not None

    def checkup(self, *, full: bool = False) -> list[Finding]:
        """Look at the store without opening it for use."""
        return list(self._place().checkup(room=ROOM_TO_ACCEPT, full=full))

    def schema_version(self) -> int:
        """Read the schema's number without bringing it forward."""
        return self._place().schema_version()

    def free_bytes(self) -> int:
        """Give the disk space left where the store is."""
        return self._engine().free_bytes()

    def disk_low(self) -> bool:
        """Tell whether new work is refused for want of disk space."""
        return self.free_bytes() < self._engine().room_to_accept()

    def wal(self) -> tuple[int, list[str]]:
        """Give the size of the log that a file has beside it, and who keeps it from becoming smaller."""
        return self._engine().wal()

    def back_up(self, path: str) -> dict[str, int]:
        """Copy the store to a new file while it goes on; give what the copy holds."""
        return self._engine().back_up(path)
