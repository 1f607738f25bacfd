"""Where wings join the life of a job: at each moment of a round, the functions that the spine calls.

The spine knows nothing else of any wing. `application/wings.py` lists which wing joins at which moment. The order
matters: on PostgreSQL it is the order in which rows are locked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.job import Claim, NewJob
from standfast.lifecycle import Transition
from standfast.store.steps import Round, Script

Marks = Mapping[int, Any]
"""What wings must know of a job's row, by its number: the limits it takes a place of, and its step of a workflow."""


Answers = dict[str, Any]
"""A Receipt, a Conflict or a Full, by id, for each new job that already has its answer."""


class KnownQueue(NamedTuple):
    """The rules of a queue that matter for new jobs. All are None for a queue that was never declared."""

    priority: int | None = None
    max_age: float | None = None
    max_depth: int | None = None


Queues = Mapping[str, KnownQueue]


class FollowUps(NamedTuple):
    """Moves that follow from others: `made` by a wing's own statement already, or `decided` and not applied yet."""

    made: Sequence[Transition] = ()
    decided: Sequence[Transition] = ()


class Riders(msgspec.Struct, frozen=True, kw_only=True):
    """The functions of wings, by the moment they are called."""

    shortcuts: bool = True
    """Whether plain jobs skip all wings. A test switches this off and checks that the result is the same."""
    names: Callable[[Round, Sequence[NewJob], Sequence[str]], Script[None]] | None = None
    """Lock the threads of these new jobs, and these other names, before any row is touched."""

    # --- a job comes in

    expects: tuple[Callable[[Round, Sequence[NewJob]], Script[None]], ...] = ()
    """Before any row is touched: lock the names that these new jobs need."""
    accepts: tuple[Callable[[Round, Sequence[NewJob], Queues, Answers], Script[None]], ...] = ()
    """Before new jobs are stored: answer those that must not be stored, such as duplicates."""
    makes_room: tuple[Callable[[Sequence[NewJob], Queues, Answers], Script[Sequence[NewJob]]], ...] = ()
    """Return the new jobs that their queues have room for; answer the others."""
    takes_in: Callable[[Round, NewJob, Queues], Script[Any]] | None = None
    """Store a new job that has a thread; return its answer."""
    refuses: tuple[Callable[[Answers], Script[None]], ...] = ()
    """Undo what was taken for new jobs that were refused in the end."""

    # --- a job is claimed

    opens: tuple[Callable[[Round, Collection[str]], Script[None]], ...] = ()
    """Open the gates whose time has come, for these queues."""
    joins: tuple[Callable[[Round, int], Script[int]], ...] = ()
    """Make due jobs of threads claimable, up to a number; return how many there were."""
    admits: Callable[..., Script[Any]] | None = None
    """Claim from a queue that has a limit, a rate, a gate, a breaker or a probe."""
    brings: tuple[Callable[[list[Claim]], Script[list[Claim]]], ...] = ()
    """Fill in the fields of claims that belong to wings."""
    informs: Callable[[], Script[Any]] | None = None
    """Return the policy in force, for a worker that knows an older one."""

    # --- a job moves

    locks: tuple[Callable[[Round, Sequence[Transition]], Script[None]], ...] = ()
    """Before any row is touched: lock the names that these moves need."""
    revises: tuple[Callable[[list[Transition]], Script[list[Transition]]], ...] = ()
    """Once the jobs are locked: change decisions that were overtaken, for example by a cancellation."""
    guards: tuple[Callable[[Sequence[Transition]], Script[Collection[int]]], ...] = ()
    """Return the positions of moves whose reason is gone: they do not land."""
    writes: tuple[Callable[[Round, Sequence[Transition]], Script[None]], ...] = ()
    """Write a wing's own rows for these moves."""
    follows: tuple[Callable[[Round, Sequence[Transition], Marks], Script[FollowUps | None]], ...] = ()
    """Return the moves that follow from these."""

    # --- the round ends

    settles: tuple[Callable[[Round], Script[None]], ...] = ()
    """After every lock that may have to wait, before any claim, and again when the round closes."""
    closes: tuple[Callable[[Round], Script[None]], ...] = ()
    """At the very end of the transaction."""
