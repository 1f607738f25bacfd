"""The results of a sweep of crashes, for programs and for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, repeat

import msgspec

from standfast.testing.verdict import Finding, Verdict

CALM = "no kill"
MOST_SHOWN = 20
"""Runs shown in the table."""
MOST_REASONS = 5
"""How many reasons for incomplete jobs are shown."""


class Run(msgspec.Struct, frozen=True):
    """One run of the scenario: where it was killed, and the outcome."""

    step: str | None
    """The step at which it was killed; None for the run without a kill."""
    verdict: Verdict
    reached: bool = True
    """Whether the step occurred; timing may differ from the run in which it was recorded."""
    note: str = ""
    states: dict[str, int] = {}
    failures: dict[str, int] = {}
    """Why jobs did not complete, with the number of jobs for each reason."""
    log: str = ""
    """The last lines logged by its processes."""


class StepFinding(msgspec.Struct, frozen=True):
    """A finding, and the step after which it occurred."""

    step: str
    finding: Finding

    def __str__(self) -> str:
        """Return the step and the finding."""
        return f"{self.step}: {self.finding}"


class CrashReport(msgspec.Struct, frozen=True):
    """The result of `crash_everywhere`. `report.check()` raises with the table if something is wrong."""

    scenario: str
    store: str
    steps: tuple[str, ...]
    """Every step of the run without a kill."""
    runs: tuple[Run, ...]

    @property
    def lost(self) -> tuple[StepFinding, ...]:
        """Effects that are missing although their job is completed, and jobs that vanished."""
        return self._all(lambda verdict: verdict.lost)

    @property
    def doubled(self) -> tuple[StepFinding, ...]:
        """Effects that happened more often than asked for, without a note in their job's history."""
        return self._all(lambda verdict: verdict.doubled)

    @property
    def recorded(self) -> tuple[StepFinding, ...]:
        """Effects that were repeated as the job's history had announced: no fault, but worth knowing."""
        return self._all(lambda verdict: verdict.recorded)

    @property
    def unsettled(self) -> tuple[StepFinding, ...]:
        """Jobs that did not end in time."""
        return self._all(lambda verdict: verdict.unsettled)

    @property
    def unexpected(self) -> tuple[StepFinding, ...]:
        """Jobs that ended in another state than the scenario asks for."""
        return self._all(lambda verdict: verdict.unexpected)

    @property
    def clean(self) -> bool:
        """Whether nothing was lost or doubled without a record, and everything ended as expected."""
        return not (self.lost or self.doubled or self.unsettled or self.unexpected)

    def check(self) -> None:
        """Raise AssertionError with the table if something is wrong."""
        if not self.clean:
            raise AssertionError(str(self))

    def _all(self, part: Callable[[Verdict], tuple[Finding, ...]]) -> tuple[StepFinding, ...]:
        return tuple(StepFinding(run.step or CALM, finding) for run in self.runs for finding in part(run.verdict))

    def __str__(self) -> str:
        """Return the table."""
        return "\n".join([*self._summary(), *self._table()])

    __repr__ = __str__

    def _summary(self) -> Iterator[str]:
        killed = [run for run in self.runs if run.step is not None]
        which = "every one" if len(killed) == len(self.steps) else f"{len(killed)} of them"
        yield f"{self.scenario} on {self.store}: {len(self.steps)} steps, {which} with a run that was killed there"
        missed = sum(not run.reached for run in killed)
        if missed:
            yield f"{missed} of these steps did not come by again: their runs ended without a kill"
        yield (
            f"lost {len(self.lost)}, doubled without a record {len(self.doubled)}, "
            f"doubled on record {len(self.recorded)}, unsettled {len(self.unsettled)}"
            + (f", ended otherwise than expected {len(self.unexpected)}" if self.unexpected else "")
        )
        ends = sum((Counter(run.states) for run in self.runs), Counter[str]())
        yield "jobs ended: " + ", ".join(f"{state} {count}" for state, count in sorted(ends.items()))
        yield from why_not_completed(sum((Counter(run.failures) for run in self.runs), Counter[str]()))

    def _table(self) -> Iterator[str]:
        wrong = [run for run in self.runs if run.verdict.wrong]
        width = max((len(_where(run)) for run in wrong), default=0)
        for run in wrong[:MOST_SHOWN]:
            for where, line in zip(chain([_where(run)], repeat("")), self._lines(run), strict=False):
                yield f"  {where:{width}}  {line}"
        if len(wrong) > MOST_SHOWN:
            yield f"  and {len(wrong) - MOST_SHOWN} more: see report.runs"

    def _lines(self, run: Run) -> Iterator[str]:
        yield from map(str, run.verdict.wrong)
        if run.verdict.unsettled and run.log:
            yield f"its last words: {run.log.splitlines()[-1]}"
        if run.step is None:
            yield "it fails without any kill: fix that first"
        else:
            yield f'this one again: crash_everywhere({self.scenario.rpartition(":")[2]}, only="{run.step}")'


def why_not_completed(failures: Mapping[str, int]) -> list[str]:
    """Say why jobs did not complete, the most frequent reason first."""
    common = Counter(failures).most_common()
    more = [f"  and for {len(common) - MOST_REASONS} more reasons"] if len(common) > MOST_REASONS else []
    return [f"  {count} stopped by {why}" for why, count in common[:MOST_REASONS]] + more


def _where(run: Run) -> str:
    if run.step is None:
        return CALM
    return f"{run.step} ({run.note})" if run.note else run.step
