"""Where wings join the life of a job: the moments of a round, each with the functions that have a part in it.

The spine calls them and knows nothing else of any wing. `application/wings.py` says which wing joins at which moment,
and in which order: on PostgreSQL that order is an order of locks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.job import Claim, NewJob
from standfast.lifecycle import Transition
from standfast.store.steps import Round, Script

Marks = Mapping[int, Any]
"""By number, what a job's row says to wings: the places it takes of limits, and its step of a workflow."""


Answers = dict[str, Any]
"""A Receipt, a Conflict or a Full for each newcomer that has its answer, by id."""


class KnownQueue(NamedTuple):
    """What the store knows of a queue that its newcomers must know. Nothing, of a queue that was never declared."""

    priority: int | None = None
    max_age: float | None = None
    max_depth: int | None = None


Queues = Mapping[str, KnownQueue]


class FollowUps(NamedTuple):
    """Moves that follow from others: those that a wing's own statement made, and those that are still to be applied."""

    made: Sequence[Transition] = ()
    decided: Sequence[Transition] = ()


class Riders(msgspec.Struct, frozen=True, kw_only=True):
    """What wings do at each moment of a round."""

    shortcuts: bool = True
    """Whether plain jobs pass all of them by; a test switches this off, and holds both ways equal."""
    names: Callable[[Round, Sequence[NewJob], Sequence[str]], Script[None]] | None = None
    """Lock the threads of these newcomers, with these other names, before any row is touched."""

    # --- a job comes in

    expects: tuple[Callable[[Round, Sequence[NewJob]], Script[None]], ...] = ()
    """Before any row is touched: lock the names that these newcomers need."""
    accepts: tuple[Callable[[Round, Sequence[NewJob], Queues, Answers], Script[None]], ...] = ()
    """Before newcomers are stored: answer those that are not to be."""
    makes_room: tuple[Callable[[Sequence[NewJob], Queues, Answers], Script[Sequence[NewJob]]], ...] = ()
    """Give those newcomers that their queues have room for; answer the others."""
    takes_in: Callable[[Round, NewJob, Queues], Script[Any]] | None = None
    """Store a newcomer that has a thread; give its answer."""
    refuses: tuple[Callable[[Answers], Script[None]], ...] = ()
    """Give back what newcomers had taken that were refused."""

    # --- a job is claimed

    opens: tuple[Callable[[Round, Collection[str]], Script[None]], ...] = ()
    """Open the gates whose time has come, for these queues."""
    joins: tuple[Callable[[Round, int], Script[int]], ...] = ()
    """Make claimable what became due and has a say of its own in that, up to a number; give how many there were."""
    admits: Callable[..., Script[Any]] | None = None
    """Claim from a queue that something may hold back: a limit, a rate, a gate, a breaker, a probe."""
    brings: tuple[Callable[[list[Claim]], Script[list[Claim]]], ...] = ()
    """Complete what claims carry."""
    informs: Callable[[], Script[Any]] | None = None
    """Give the policy in force to a worker that knows an older one."""

    # --- a job moves

    locks: tuple[Callable[[Round, Sequence[Transition]], Script[None]], ...] = ()
    """Before any row is touched: lock the names that these moves need."""
    revises: tuple[Callable[[list[Transition]], Script[list[Transition]]], ...] = ()
    """Once the jobs are locked: decide otherwise where a decision was overtaken."""
    guards: tuple[Callable[[Sequence[Transition]], Script[Collection[int]]], ...] = ()
    """Give the places in the sequence of moves whose grounds are gone: they do not land."""
    writes: tuple[Callable[[Round, Sequence[Transition]], Script[None]], ...] = ()
    """Write what these moves leave behind, in their transaction."""
    follows: tuple[Callable[[Round, Sequence[Transition], Marks], Script[FollowUps | None]], ...] = ()
    """Give the moves that follow from these, which were made now."""

    # --- the round ends

    settles: tuple[Callable[[Round], Script[None]], ...] = ()
    """After every lock that is waited for, before any claim, and again when the round closes."""
    closes: tuple[Callable[[Round], Script[None]], ...] = ()
    """At the very end of the transaction."""
