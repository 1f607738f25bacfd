"""Scripts that write: a generator of statements, with what the store must know before it runs one.

A script is declared where it stands, with `@writes(...)`. It takes the items of all callers of one round and answers
one result for each. Other scripts call it as the generator it is; callers of the store hand it to `Store.write`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, Generic, TypeVar

from standfast.job import NewJob
from standfast.store.steps import Round, Script

Item = TypeVar("Item")
Result = TypeVar("Result")


number_of: Callable[[Any], int] = attrgetter("n")
"""Gives the number of the job that an item is about, where it has that as `n`."""


class Patience(Enum):
    """How long a caller waits for the store before it is told that the store did not answer."""

    CALLER = "caller"
    """As long as every call does."""
    LONG = "long"
    """Longer: it is one large transaction."""
    ENDLESS = "endless"
    """Until it is written: it must not be lost."""


@dataclass(frozen=True, eq=False, slots=True)
class Write(Generic[Item, Result]):
    """A writing script, and what the engine must know of it."""

    run: Callable[[Round, Sequence[Item]], Script[list[Result]]]
    name: str
    patience: Patience = Patience.CALLER
    room: int = 0
    """Free bytes that the disk must keep beside it; 0 is never refused for want of space."""
    reserve: int = 0
    """Bytes that each item will still need later, where it asks for room."""
    apart: bool = False
    """Whether it locks what all others use, and so gets a transaction of its own."""
    size: Callable[[Any], int] | None = None
    """Counts the work of one item, where that is more than one piece."""
    newcomers: Callable[[Any], Iterable[NewJob]] | None = None
    """Gives the new jobs of its items, whose threads are locked before any row."""
    gates: Callable[[Any], Script[list[str]]] | None = None
    """Names other threads that are locked before any row."""
    number: Callable[[Any], int] | None = None
    """Gives the number of the job that an item locks, where it is known beforehand."""

    def __call__(self, round_: Round, items: Sequence[Item]) -> Script[list[Result]]:
        """Run inside another script."""
        return self.run(round_, items)


def writes(
    *,
    patience: Patience = Patience.CALLER,
    room: int = 0,
    reserve: int = 0,
    apart: bool = False,
    size: Callable[[Any], int] | None = None,
    newcomers: Callable[[Any], Iterable[NewJob]] | None = None,
    gates: Callable[[Any], Script[list[str]]] | None = None,
    number: Callable[[Any], int] | None = None,
) -> Callable[[Callable[[Round, Sequence[Item]], Script[list[Result]]]], Write[Item, Result]]:
    """Declare a script that writes; the options are those of `Write`."""

    def declare(run: Callable[[Round, Sequence[Item]], Script[list[Result]]]) -> Write[Item, Result]:
        return Write(run, run.__name__, patience, room, reserve, apart, size, newcomers, gates, number)

    return declare
