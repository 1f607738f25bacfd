"""Scripts that write: a generator of statements, with what the store must know before it runs them.

A script is declared where it is defined, with `@writes(...)`. It takes the items of all callers of one round, and
returns one result for each. Other scripts call it as a generator; callers of the store pass it to `Store.write`.
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
"""Returns the number of the job that an item is about, if the item has it as `n`."""


class Patience(Enum):
    """How long a caller waits before it is told that the store did not answer."""

    CALLER = "caller"
    """As long as for every ordinary call."""
    LONG = "long"
    """Longer: it is one large transaction."""
    ENDLESS = "endless"
    """Until it is written, because it must not be lost."""


@dataclass(frozen=True, eq=False, slots=True)
class Write(Generic[Item, Result_co]):
    """A writing script, and what the engine must know about it."""

    run: Callable[[Round, Sequence[Item]], Script[list[Result_co]]]
    name: str
    patience: Patience = Patience.CALLER
    room: int = 0
    """Free bytes that must remain on the disk; a script with 0 is never refused for lack of space."""
    reserve: int = 0
    """Bytes that each item will still need later, if the script asks for room."""
    separate: bool = False
    """Whether it locks what all others use, and so gets a transaction of its own."""
    size: Callable[[Any], int] | None = None
    """Counts the pieces of work in one item, if there can be more than one."""
    newcomers: Callable[[Any], Iterable[NewJob]] | None = None
    """Returns the new jobs in its items; their threads are locked before any row."""
    gates: Callable[[Any], Script[list[str]]] | None = None
    """Returns the names of other threads that are locked before any row."""
    number: Callable[[Any], int] | None = None
    """Returns the number of the job that an item locks, if it is known beforehand."""
    leads: bool = False
    """Whether its caller may run the round itself: see `store.waiting_requests`."""

    def __call__(self, round_: Round, items: Sequence[Item]) -> Script[list[Result_co]]:
        """Run as part of another script."""
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
    """A script with the items of all its callers in a round, and the requests they came in."""

    script: Write[Any, Any]
    items: Sequence[Any]
    requests: Sequence[Any] = ()


Feeds = Callable[[Round], list[Call]]
"""Returns the standing claims for which a round has work."""


class Anchor(Protocol):
    """Notes the links of the audit chain outside the store."""

    path: str | None
    problem: str | None
    """Why the last link could not be noted; None if it could."""

    def catch_up(self, ask: Callable[[Script[Any]], Any]) -> None:
        """Note the links that a store has and this does not; `ask` reads from the store, which has just been opened."""

    def drop(self, heads: Sequence[Any]) -> None:
        """Note links that were committed."""

    def close(self) -> None:
        """Note everything that was handed over, then stop."""


@dataclass(frozen=True)
class RoundScripts:
    """The scripts that an engine runs itself, and the order of all others. The application supplies them."""

    riders: Any
    """The wings that take part in every round."""
    order: tuple[Write[Any, Any], ...]
    """The order of scripts in one transaction; scripts that are not listed come first."""
    run: Callable[[Round, list[Call], Feeds | None], Script[list[list[Any]]]]
    """Runs the scripts of a transaction, and what comes before and after all of them; returns the results of each.

    Standing claims that it serves are added to its calls.
    """
    claim: Write[Any, Any]
    contents: Callable[[], Script[dict[str, int]]]
    """Counts everything in the store, for a backup."""
    anchor: Callable[[str | None], Anchor]
    """Opens the anchor's file outside the store; the path is None if there is none."""

    @cached_property
    def places(self) -> dict[Any, int]:
        """The position of each script in the order."""
        return {script.run: place for place, script in enumerate(self.order)}
