"""Put a test between the callers of one script and the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any

from standfast.concurrency.flows import Answer, run_sync
from standfast.store.scripts import Write
from standfast.store.store import Store

Around = Callable[[Sequence[Any], Answer[Any]], Coroutine[Any, Any, Any]]
"""Gets the items that were handed in, and the store's answer, not asked for yet; gives what is answered."""


class Passed(Answer[Any]):
    """What a test answers in place of the store."""

    def __init__(self, answering: Coroutine[Any, Any, Any]) -> None:
        self._answering = answering

    def start(self) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._answering)

    def wait_on_loop(self) -> Generator[Any, Any, Any]:
        return self._answering.__await__()

    def result(self) -> Any:
        return run_sync(self._answering)


def between(
    where: Store | type[Store], script: Write[Any, Any], around: Around, patch: Callable[..., None] = setattr
) -> None:
    """Have whatever is handed in for a script pass through `around`."""
    write, write_all = where.write, where.write_all

    def one(*given: Any) -> Any:
        answer: Any = write(*given)
        return Passed(around([given[-1]], answer)) if given[-2] is script else answer

    def several(*given: Any) -> Any:
        answer: Any = write_all(*given)
        return Passed(around(given[-1], answer)) if given[-2] is script else answer

    patch(where, "write", one)
    patch(where, "write_all", several)
