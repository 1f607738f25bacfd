"""Was an effect lost or doubled? What the store says of each job, compared with what really happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from standfast.lifecycle import State
from standfast.testing.world import Effect

VANISHED = "vanished"
"""The state reported for a job that was accepted but is not in the store."""


class Fate(msgspec.Struct, frozen=True):
    """What the store says became of a job."""

    id: str
    state: str
    settled: bool
    expects: list[Effect] = []
    noted: int = 0
    """How often its history says that a repeat may double its effects."""
    expected: str | None = None
    """The state in which it must end, if the scenario sets one."""
    failure: str = ""
    """Why it stopped, if it did not complete."""

    @property
    def ended_well(self) -> bool:
        """Whether it ended as it should, so that its effects must exist."""
        return self.state == (self.expected or State.COMPLETED)

    @property
    def owes_nothing(self) -> bool:
        """Whether the scenario sets its final state, and asks for no effect."""
        return self.expected is not None and not self.expects


class Finding(msgspec.Struct, frozen=True):
    """Something that is wrong, or that the record says may be."""

    about: str
    words: str

    def __str__(self) -> str:
        """Return the finding in words."""
        return f"{self.about} {self.words}"


class Verdict(msgspec.Struct, frozen=True):
    """The findings of one run."""

    lost: tuple[Finding, ...] = ()
    doubled: tuple[Finding, ...] = ()
    """Happened more often than asked for, and nothing in the job's history announces it."""
    recorded: tuple[Finding, ...] = ()
    """Happened again, as the job's history had said it may."""
    unsettled: tuple[Finding, ...] = ()
    unexpected: tuple[Finding, ...] = ()
    """Ended in another state than the scenario asks for."""

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """Every finding except what is on record."""
        return (*self.lost, *self.doubled, *self.unsettled, *self.unexpected)


def judge(fates: Sequence[Fate], effects: Mapping[Effect, int]) -> Verdict:
    """Compare the jobs with the effects. A dead or cancelled job owes nothing: it is visible, and its history explains.

    One that is meant to end so owes its effects.
    """
    expected = Counter(effect for fate in fates for effect in fate.expects)
    owed = Counter(effect for fate in fates if fate.ended_well for effect in fate.expects)
    noted: Counter[Effect] = Counter()
    for fate in fates:
        noted.update(dict.fromkeys(fate.expects, fate.noted))
    allowed = {effect: max(1, expected[effect]) for effect in effects}
    announced = {effect: allowed[effect] + noted[effect] for effect in effects}
    return Verdict(
        lost=(*_vanished(fates), *_missed(fates, owed, effects)),
        doubled=tuple(
            Finding(" ".join(effect), f"happened {times} times, and its job's history accounts for {announced[effect]}")
            for effect, times in effects.items()
            if times > announced[effect]
        ),
        recorded=tuple(
            Finding(" ".join(effect), f"happened {times} times, as its job's history had said it may")
            for effect, times in effects.items()
            if announced[effect] >= times > allowed[effect]
        ),
        unsettled=tuple(Finding(f"job {fate.id}", f"is still {fate.state}") for fate in fates if not fate.settled),
        unexpected=tuple(map(_otherwise, filter(_ends_otherwise, fates))),
    )


def _ends_otherwise(fate: Fate) -> bool:
    known = fate.settled and fate.state != VANISHED
    return known and fate.expected is not None and fate.state != fate.expected


def _otherwise(fate: Fate) -> Finding:
    why = f" ({fate.failure})" if fate.failure else ""
    return Finding(f"job {fate.id}", f"is {fate.state}{why}, and is expected to be {fate.expected}")


def _vanished(fates: Sequence[Fate]) -> list[Finding]:
    gone = "was accepted and is not in the store any more"
    return [Finding(f"job {fate.id}", gone) for fate in fates if fate.state == VANISHED]


def _missed(fates: Sequence[Fate], owed: Mapping[Effect, int], effects: Mapping[Effect, int]) -> Iterator[Finding]:
    states = {effect: fate.state for fate in fates if fate.ended_well for effect in fate.expects}
    for effect, times in owed.items():
        if effects.get(effect, 0) < times:
            yield Finding(" ".join(effect), f"is missing, and its job is {states[effect]}")
