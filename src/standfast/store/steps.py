"""The steps that a script is made of, and the round it runs in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import msgspec

from standfast.lifecycle import NoticeKind

encode = msgspec.json.encode

Rows = list[tuple[Any, ...]]
Batch = Sequence[tuple[Any, ...]]
Step = tuple[str, dict[str, Any] | Batch]
"""A statement's name with its parameters, or with a batch of rows."""
T = TypeVar("T")
Script = Generator[Step, Rows, T]
"""Yields statements, receives the rows of each, and returns a value at the end. It does no I/O of its own."""


class RoundState(ABC):
    """What a wing keeps during a transaction. `Round.state` creates it when it is first asked for."""

    @abstractmethod
    def absorb(self, other: Self) -> None:
        """Take over what was kept by a part of the transaction."""


StateT = TypeVar("StateT", bound=RoundState)


class Round(msgspec.Struct, eq=False):
    """One transaction: its time, its notices, and the queues that it brings work to.

    `riders` are the wings that take part in it. `late` marks a part of a transaction whose jobs were accepted earlier,
    at the part's time; other jobs may have been stored since.
    """

    now: float
    skew: float
    boot: str
    riders: Any = None
    late: bool = False
    notices: defaultdict[tuple[NoticeKind, str], list[str]] = msgspec.field(default_factory=partial(defaultdict, list))
    """What happened, by kind and queue, to which jobs: for the journal and the counters."""
    work: dict[str, float] = {}
    """Queues that have work, and after how many seconds, so that workers wake in time."""
    claims_frozen: bool = False
    """Whether nothing may be claimed, because the store is about to move."""
    starts_left: int | None = None
    """How many jobs may be started, if the disk sets a limit: the outcome of each must still fit."""
    gates: set[str] = set()
    """The names that this transaction has locked."""
    jobs: set[int] = set()
    """The numbers of the jobs its scripts will lock. The first script that locks any locks all of them, in order."""
    locked: set[int] = set()
    """The numbers of the jobs that it has locked."""
    audit_links: list[Any] = []
    """The links that it wrote to the audit chain; they are anchored after the commit."""
    states: dict[type[RoundState], RoundState] = {}
    """What wings keep in this transaction. If there is nothing, they have nothing to settle."""

    def state(self, kind: type[StateT]) -> StateT:
        """Return what a wing keeps in this transaction."""
        found = self.states.get(kind)
        if found is None:
            found = self.states[kind] = kind()
        return found  # type: ignore[return-value]

    def part(self, now: float, *, late: bool = False) -> Round:
        """Begin a part of this transaction that may be undone, or has its own time; see `absorb`."""
        part = Round(now, self.skew, self.boot, self.riders, late=late)
        part.gates = self.gates
        return part

    def due_at(self, delay: float, at: float | None) -> float:
        """Return the queue time a newcomer is due at; `at` is wall time, and a time in the past is now."""
        return self.now + delay if at is None else max(self.now, at - self.skew)

    def note_work(self, queue: str, delay: float) -> None:
        """Note that a queue has work after `delay` seconds, so that workers wake in time."""
        if delay < self.work.get(queue, 9e99):
            self.work[queue] = max(0.0, delay)

    def absorb(self, part: Round) -> None:
        """Take over the notices, the work and the wings' states of a part of this transaction."""
        for what, ids in part.notices.items():
            self.notices[what] += ids
        for queue, delay in part.work.items():
            self.note_work(queue, delay)
        for kind, kept in part.states.items():
            self.state(kind).absorb(kept)


def lock_jobs(round_: Round, numbers: Iterable[int]) -> Script[None]:
    """Lock these jobs until the commit, together with all others that this transaction will lock, in one order."""
    wanted = {*numbers, *round_.jobs} - round_.locked
    if wanted:
        yield "lock_jobs", {"numbers": text(sorted(wanted))}
        round_.locked |= wanted


def text(value: Any) -> str:
    """Encode a batch as the one JSON text that is passed to the engine."""
    return encode(value).decode()
