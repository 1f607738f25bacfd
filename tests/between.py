"""Put a test between the callers of one script and the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from standfast.concurrency.flows import Answer
from standfast.store.scripts import Write
from standfast.store.store import Store

Around = Callable[[Sequence[Any], Answer[Any]], Awaitable[Any]]
"""Gets the items that were handed in, and the store's answer, not asked for yet; gives what is answered."""


def between(
    where: Store | type[Store], script: Write[Any, Any], around: Around, patch: Callable[..., None] = setattr
) -> None:
    """Have whatever is handed in for a script pass through `around`."""
    write, write_all = where.write, where.write_all

    def one(*given: Any) -> Any:
        answer: Any = write(*given)
        return around([given[-1]], answer) if given[-2] is script else answer

    def several(*given: Any) -> Any:
        answer: Any = write_all(*given)
        return around(given[-1], answer) if given[-2] is script else answer

    patch(where, "write", one)
    patch(where, "write_all", several)
