"""What the writer has read and knows to be so still: until another connection commits, or it changes that itself.

SQLite tells with one number whether another connection has committed. While that stands, statements that say
`remembered:` are answered from memory, the next job number is known, and so is the mark of a promotion.
"""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from standfast.store.steps import Rows, text

NEXT_NUMBERS = "next_numbers"


class Facts:
    """The writer's memory between its transactions."""

    def __init__(self) -> None:
        self._version = -1
        self._rows: dict[tuple[Any, ...], Rows] = {}
        self._last_number: int | None = None
        self.unmarked = False
        """Whether the store is known to be usable, and under no promotion."""

    def begin(self, connection: apsw.Connection) -> None:
        """Keep what is known if the last transaction was our own, and committed. Runs under the write lock."""
        if connection.data_version() != self._version:
            self.forget()
        self._version = -1  # what is read from here on counts only if it is committed

    def committed(self, connection: apsw.Connection) -> None:
        """Keep what is known beyond our own commit."""
        self._version = connection.data_version()

    def forget(self) -> None:
        """Know nothing."""
        self._rows.clear()
        self._last_number = None
        self.unmarked = False

    def rules_changed(self) -> None:
        """Forget what was read of rules: a statement of our own changed them."""
        self._rows.clear()

    def recall(self, name: str, parameters: dict[str, Any]) -> Rows | None:
        """Give what a statement answered before, if that is still so."""
        if name != NEXT_NUMBERS:
            return self._rows.get((name, *parameters.values()))
        if self._last_number is None:
            return None
        first = self._last_number + 1
        self._last_number += parameters["count"]
        return [(text([*range(first, self._last_number + 1)]),)]

    def remember(self, name: str, parameters: dict[str, Any], rows: Rows) -> None:
        """Keep what a statement answered."""
        if name != NEXT_NUMBERS:
            self._rows[(name, *parameters.values())] = rows
            return
        [(numbers,)] = rows
        self._last_number = msgspec.json.decode(numbers)[-1]
