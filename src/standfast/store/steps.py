"""The steps a script is made of, and the round it runs in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from standfast.wings.audit.words import Decision, Head
from standfast.wings.limits.holds import HoldRequest
from standfast.wings.limits.words import Word
from standfast.wings.workflows.words import Tally

_encode = msgspec.json.encode

Rows = list[tuple[Any, ...]]
Batch = Sequence[tuple[Any, ...]]
Step = tuple[str, dict[str, Any] | Batch]
"""A statement's name with its parameters, or with a batch of rows."""
T = TypeVar("T")
Script = Generator[Step, Rows, T]
"""Statements to run, each answered with its rows, and at the end a value: no I/O of its own."""


class End(NamedTuple):
    """An end of a job that had passed gates, or that depends on something with a breaker."""

    n: int
    id: str
    queue: str
    places: list[str]
    dependency: str | None = None
    word: Word | None = None
    waits: bool = False
    """Whether it goes back to wait for the dependency."""
    hold: HoldRequest | None = None


class Round:
    """One transaction: its time, what it tells, and which queues it gives work to.

    `late` is a part of one, whose jobs were accepted at its time, earlier than what others may have stored since.
    """

    def __init__(self, now: float, skew: float, boot: str, *, late: bool = False) -> None:
        self.now = now
        self.skew = skew
        self.boot = boot
        self.late = late
        self.told: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        """What happened, by kind and queue, to which jobs: for the journal and the counters."""
        self.work: dict[str, float] = {}
        self.starts_nothing = False
        """Whether nothing may be claimed, because the store is about to move."""
        self.starts_left: int | None = None
        """How many jobs may be started, where the disk sets a limit: the outcome of each must still fit."""
        self.gates: set[str] = set()
        """The threads this transaction has locked."""
        self.jobs: set[int] = set()
        """The numbers of the jobs that its scripts will lock: the first that locks any locks all of them, in order."""
        self.locked: set[int] = set()
        """Those it has locked."""
        self.ends: list[End] = []
        """What ended attempts took of gates and say about what they depend on: given back before this closes."""
        self.starts: list[Callable[[Round], Script[Any]]] = []
        """What waits for nobody and comes when every script has its locks: calls, which start what they brought."""
        self.tallies: dict[str, Tally] = {}
        """By how many the steps of workflows changed: counted before this closes, after every job is locked."""
        self.mends = False
        """Whether the gates are compared with what runs before this closes."""
        self.decisions: list[Decision] = []
        """What is chained with this transaction; see `audit.record`."""
        self.heads: list[Head] = []
        """The links it wrote to the chain, to be anchored once it is committed."""

    def due_at(self, delay: float, at: float | None) -> float:
        """Give the queue time a newcomer is due at; `at` is wall time, and a time in the past is now."""
        return self.now + delay if at is None else max(self.now, at - self.skew)

    def work_in(self, queue: str, delay: float) -> None:
        """Note that a queue has work after so many seconds, so that workers wake in time."""
        if delay < self.work.get(queue, 9e99):
            self.work[queue] = max(0.0, delay)

    def startable(self, wanted: int) -> int:
        """Give how many of so many jobs may be started."""
        return wanted if self.starts_left is None else min(wanted, self.starts_left)

    def started(self, number: int) -> None:
        """Count what was started."""
        if self.starts_left is not None:
            self.starts_left -= number

    def tally(self, workflow: str, changed: Tally) -> None:
        """Note by how many the steps of a workflow changed."""
        self.tallies[workflow] = self.tallies.get(workflow, Tally()).plus(changed)

    def absorb(self, other: Round) -> None:
        """Make one's own what a part of this transaction told and gave."""
        for what, ids in other.told.items():
            self.told[what] += ids
        for queue, delay in other.work.items():
            self.work_in(queue, delay)
        self.ends += other.ends
        self.decisions += other.decisions
        for workflow, changed in other.tallies.items():
            self.tally(workflow, changed)


def lock_jobs(round_: Round, numbers: Iterable[int]) -> Script[None]:
    """Keep jobs as they are until the commit, with all others that this transaction will lock, in one order."""
    wanted = {*numbers, *round_.jobs} - round_.locked
    if wanted:
        yield "lock_jobs", {"numbers": text(sorted(wanted))}
        round_.locked |= wanted


def text(value: Any) -> str:
    """Encode a batch as the one JSON text that crosses into the engine."""
    return _encode(value).decode()
