"""Where each sink is in the journal. Its cursor is created before anything is claimed.

A cursor begins when a process that names the sink publishes what it declares. So a letter of a worker's first second
is announced like any other, even if that worker is killed before it could announce it; older letters are not announced.
"""

from __future__ import annotations

from standfast.store.store import Store
from standfast.wings.alerts import scripts as alert_scripts
from standfast.wings.alerts.surfaces import Notify

ALERTS = "notify"
"""The one cursor of all surfaces."""


def of_subscriber(name: str) -> str:
    """Return the name of a subscriber's cursor."""
    return f"subscriber {name}"


class Cursors:
    """The cursors of the sinks that one process names. They are kept in the store and shared by all processes."""

    def __init__(self, store: Store, notify: Notify) -> None:
        self._store = store
        alerts = [ALERTS] if notify.surfaces else []
        self._names = alerts + [of_subscriber(each) for each in notify.subscribers]
        self._read: dict[str, int] = {}
        """How far this process has read ahead of the stored cursor."""

    def begin(self) -> None:
        """Create missing cursors at the end of the journal. The store may be another one than before."""
        self._read.clear()
        while self._names and not self._store.write(alert_scripts.begin, self._names).result():
            pass

    async def place(self, name: str) -> tuple[int, int]:
        """Return the position of a stored cursor, and how far this process has read."""
        written = await self._store.read(alert_scripts.followed(name))
        if written is None:  # the store was recreated, and nothing is published there yet
            self._read.pop(name, None)
            while not await self._store.write(alert_scripts.begin, [name]):
                pass
            return await self.place(name)
        return written, max(written, self._read.get(name, 0))

    def read_to(self, name: str, seq: int) -> None:
        """Note how far this process has read."""
        self._read[name] = seq
