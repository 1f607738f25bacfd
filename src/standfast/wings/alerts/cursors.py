"""Where each sink is in the journal, and that it has a place there before anything is claimed.

A place begins when a process that names the sink publishes what it declares. So a letter of a worker's first second is
told like any other, also if that worker is killed before it could tell; and nothing from before is announced.
"""

from __future__ import annotations

from standfast.store.store import Store
from standfast.wings.alerts import scripts as alert_scripts
from standfast.wings.alerts.surfaces import Notify

ALERTS = "notify"
"""The one cursor of all surfaces."""


def of_subscriber(name: str) -> str:
    """Name the cursor of a subscriber."""
    return f"subscriber {name}"


class Cursors:
    """The cursors of the sinks that one process names. They are kept in the store, and shared with every process."""

    def __init__(self, store: Store, notify: Notify) -> None:
        self._store = store
        alerts = [ALERTS] if notify.surfaces else []
        self._names = alerts + [of_subscriber(each) for each in notify.subscribers]
        self._read: dict[str, int] = {}
        """How far this process has read ahead of what is written down."""

    def begin(self) -> None:
        """Begin at the end of the journal where nothing is begun yet. It may be another store than before."""
        self._read.clear()
        while self._names and not self._store.write(alert_scripts.begin, self._names).result():
            pass

    async def place(self, name: str) -> tuple[int, int]:
        """Give how far a cursor is written down, and how far this process has read."""
        written = await self._store.read(alert_scripts.followed(name))
        if written is None:  # the store was made anew, and nothing is published there yet
            self._read.pop(name, None)
            while not await self._store.write(alert_scripts.begin, [name]):
                pass
            return await self.place(name)
        return written, max(written, self._read.get(name, 0))

    def read_to(self, name: str, seq: int) -> None:
        """Note how far this process has read."""
        self._read[name] = seq
