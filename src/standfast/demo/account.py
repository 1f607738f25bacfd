"""Do the books balance? What was accepted, what the store says became of it, and what the receiver recorded.

The receiver is the judge: a job counts as completed only if its books show the effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from standfast.demo.books import Entry
from standfast.lifecycle import State
from standfast.views import JobView


class Ending(msgspec.Struct, frozen=True):
    """What the store says became of a job."""

    state: str
    repeats_noted: int = 0
    """How often the job's history says that a repeat may double the effect."""
    may_have_landed: bool = False
    """Whether the job's history says of any attempt that the effect may exist."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The final account, in jobs and in effects."""

    accepted: int
    completed: int
    dead: int
    lost: int
    """Accepted, and neither completed with an effect in the receiver's books nor dead."""
    requests: int
    effects: int
    recognised: int
    """Repeats that the receiver recognised by their key, and did not perform again."""
    doubled: int
    """Effects beyond the first of their job."""
    doubled_without_record: int
    dead_without_record: int
    """Dead jobs whose effect exists although their history says it cannot."""
    never_asked_for: int
    """Effects of jobs that were never enqueued."""

    @property
    def balances(self) -> bool:
        """Whether every accepted job is accounted for, and nothing else happened."""
        wrong = (self.lost, self.doubled_without_record, self.dead_without_record, self.never_asked_for)
        return self.accepted == self.completed + self.dead and not any(wrong)


def ending(job: JobView) -> Ending:
    """Summarise what the store says of a job."""
    return Ending(
        state=job.state,
        repeats_noted=sum(line.possible_duplicate for line in job.history),
        may_have_landed=any(line.landed == "maybe" for line in job.history),
    )


def settle(accepted: Sequence[str], endings: Mapping[str, Ending], entries: Sequence[Entry]) -> Account:
    """Compare the books. Jobs are matched by their keys, which the receiver sees, too."""
    effects = Counter(entry.key for entry in entries if entry.did == "effect")
    states = {key: endings[key].state for key in accepted if key in endings}
    done = [key for key, state in states.items() if state == State.COMPLETED]
    dead = [key for key, state in states.items() if state == State.DEAD]
    return Account(
        accepted=len(accepted),
        completed=len(done),
        dead=len(dead),
        lost=len(accepted) - len(dead) - sum(effects[key] > 0 for key in done),
        requests=len(entries),
        effects=effects.total(),
        recognised=sum(entry.did == "recognised" for entry in entries),
        doubled=effects.total() - len(effects),
        doubled_without_record=sum(_unrecorded(effects[key], endings.get(key)) for key in effects),
        dead_without_record=sum(effects[key] > 0 and not endings[key].may_have_landed for key in dead),
        never_asked_for=sum(effects[key] for key in effects.keys() - set(accepted)),
    )


def _unrecorded(effects: int, ending: Ending | None) -> int:
    """Count the doubled effects that the job's history does not announce."""
    return max(0, effects - 1 - (ending.repeats_noted if ending else 0))
