"""Scripts that write: a generator of statements, with what the store must know before it runs one.

A script is declared where it stands, with `@writes(...)`. It takes the items of all callers of one round and answers
one result for each. Other scripts call it as the generator it is; callers of the store hand it to `Store.write`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from standfast.job import NewJob
from standfast.store.steps import Round, Script

Item = TypeVar("Item")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


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
class Write(Generic[Item, Result_co]):
    """A writing script, and what the engine must know of it."""

    run: Callable[[Round, Sequence[Item]], Script[list[Result_co]]]
    name: str
    patience: Patience = Patience.CALLER
    room: int = 0
    """Free bytes that the disk must keep beside it; 0 is never refused for want of space."""
    reserve: int = 0
    """Bytes that each item will still need later, where it asks for room."""
    separate: bool = False
    """Whether it locks what all others use, and so gets a transaction of its own."""
    size: Callable[[Any], int] | None = None
    """Counts the work of one item, where that is more than one piece."""
    newcomers: Callable[[Any], Iterable[NewJob]] | None = None
    """Gives the new jobs of its items, whose threads are locked before any row."""
    gates: Callable[[Any], Script[list[str]]] | None = None
    """Names other threads that are locked before any row."""
    number: Callable[[Any], int] | None = None
    """Gives the number of the job that an item locks, where it is known beforehand."""
    leads: bool = False
    """Whether its caller may run the round itself: see `store.line`."""

    def __call__(self, round_: Round, items: Sequence[Item]) -> Script[list[Result_co]]:
        """Run inside another script."""
        return self.run(round_, items)


def writes(
    *,
    patience: Patience = Patience.CALLER,
    room: int = 0,
    reserve: int = 0,
    separate: bool = False,
    size: Callable[[Any], int] | None = None,
    newcomers: Callable[[Any], Iterable[NewJob]] | None = None,
    gates: Callable[[Any], Script[list[str]]] | None = None,
    number: Callable[[Any], int] | None = None,
    leads: bool = False,
) -> Callable[[Callable[[Round, Sequence[Item]], Script[list[Result]]]], Write[Item, Result]]:
    """Declare a script that writes; the options are those of `Write`."""

    def declare(run: Callable[[Round, Sequence[Item]], Script[list[Result]]]) -> Write[Item, Result]:
        return Write(run, run.__name__, patience, room, reserve, separate, size, newcomers, gates, number, leads)

    return declare


class Call(NamedTuple):
    """A script with the items of all its callers in a round, and their requests."""

    script: Write[Any, Any]
    items: Sequence[Any]
    requests: Sequence[Any] = ()


Feeds = Callable[[Round], list[Call]]
"""Gives the standing claims that a round brings work for."""


class Anchor(Protocol):
    """Where the links of the audit chain are noted outside of the store."""

    path: str | None
    problem: str | None
    """Why the last one could not be noted; None if it could."""

    def catch_up(self, ask: Callable[[Script[Any]], Any]) -> None:
        """Note what a store that was just opened has more; `ask` reads there."""

    def drop(self, heads: Sequence[Any]) -> None:
        """Note links that were committed."""

    def close(self) -> None:
        """Note what was handed over, and end."""


@dataclass(frozen=True)
class RoundScripts:
    """The scripts that an engine runs by itself, and the order of all others. The application gives them."""

    riders: Any
    """The wings that take part in every round."""
    order: tuple[Write[Any, Any], ...]
    """The turns of scripts in one transaction; what is not named comes first."""
    run: Callable[[Round, list[Call], Feeds | None], Script[list[list[Any]]]]
    """Runs the scripts of a transaction, and what comes before and after all of them; gives the results of each.

    Standing claims that it feeds are added to its calls.
    """
    claim: Write[Any, Any]
    contents: Callable[[], Script[dict[str, int]]]
    """Counts everything there is, for a backup."""
    anchor: Callable[[str | None], Anchor]
    """Opens the file outside; None where there is none."""

    @cached_property
    def places(self) -> dict[Any, int]:
        """Where each script stands in the order."""
        return {script.run: place for place, script in enumerate(self.order)}
