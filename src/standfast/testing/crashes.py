"""Kill a scenario at each of its steps, start it again, and check whether any effect was lost or doubled."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path

import msgspec

from standfast.errors import ConfigurationError
from standfast.testing.crash_child import UNSETTLED, CrashTask, Place, live
from standfast.testing.crash_report import CrashReport, Run, why_not_completed
from standfast.testing.fresh import fresh, kind, room
from standfast.testing.kill_steps import Step, Steps, read_steps
from standfast.testing.nursery import Child, Nursery, nursery
from standfast.testing.receiver import receiving
from standfast.testing.scenario import Scenario, name_of
from standfast.testing.verdict import Fate, Finding, Verdict, judge
from standfast.testing.world import happened

MOST_LIVES = 20
"""How often a run is started in total: handlers may end their process themselves."""
OVERTIME = 15.0
"""Seconds that a child gets beyond its own patience before it is killed."""
LINES_KEPT = 20
MOST_NEAR = 4
"""How many similar steps are named if the requested one does not exist."""


def crash_everywhere(
    scenario: type[Scenario],
    *,
    url: str | None = None,
    most: int = 100,
    only: str | None = None,
    patience: float = 30.0,
    parallel: int = 2,
) -> CrashReport:
    """Run a scenario in child processes, kill it at each of its steps, start it again, and report what it did.

    Steps are recorded by a run without a kill: each commit of the store, entering and leaving of a handler, and effect,
    before and after. Errors in that run are reported at once. Then each step gets a run of its own on a fresh store:
    SIGKILL there, a new process that works until everything is settled, and a verdict. Time in which nothing can happen
    passes at once, so leases and backoffs cost none.

    `url` names a PostgreSQL server, where each run gets a schema of its own; the default is SQLite files.
    `most` limits the runs: of more steps, that many are chosen evenly. `only` runs one step, by its name in a report.
    `patience` is the seconds that each process has to settle everything; `parallel` is how many runs go on at once.
    """
    name = name_of(scenario)
    wanted = None if only is None else [Step.read(only).name]
    with room(url) as directory, nursery(*needed(url), scenario.__module__) as children:
        kit = CrashKit(name, directory, url, children, patience)
        return kit.sweep(wanted, most, parallel)


def needed(url: str | None) -> tuple[str, ...]:
    """Return the modules that every child would otherwise import by itself."""
    driver = ("standfast.store.postgres.place",) if kind(url) == "PostgreSQL" else ()
    return (live.__module__, "standfast.wings.http.client", *driver)


def evenly(steps: Sequence[str], most: int) -> list[str]:
    """Choose at most this many, evenly from the first to the last."""
    if len(steps) <= most:
        return list(steps)
    return [steps[index * (len(steps) - 1) // max(1, most - 1)] for index in range(most)]


def _show(done: int, of: int, wrong: int) -> None:
    """Show the progress, on a terminal only."""
    if sys.stderr.isatty():
        end = "\n" if done == of else ""
        sys.stderr.write(f"\r\x1b[Kkilled {done} of {of}, {wrong} went wrong{end}")
        sys.stderr.flush()


class CrashKit:
    """Runs one scenario again and again, in children of a nursery that has loaded it."""

    def __init__(self, scenario: str, directory: Path, url: str | None, children: Nursery, patience: float) -> None:
        self._scenario = scenario
        self._directory = directory
        self._url = url
        self._children = children
        self._patience = patience

    def sweep(self, wanted: Sequence[str] | None, most: int, parallel: int) -> CrashReport:
        """Run it without a kill, then once for each step: the wanted ones, or at most `most` of all."""
        calm, steps = self.rehearse()
        chosen = evenly([step.name for step in steps], most) if wanted is None else wanted
        runs = [] if calm.verdict.wrong else self._each(chosen, parallel)
        if wanted is not None:
            self._check_names(runs, [step.name for step in steps])
        return CrashReport(self._scenario, kind(self._url), tuple(map(str, steps)), (calm, *runs))

    def _check_names(self, runs: Sequence[Run], known: Sequence[str]) -> None:
        """Refuse a name that no run has: nothing was killed there, which must not read as survived."""
        for run in runs:
            if run.step is not None and not run.reached and run.step not in known:
                near = get_close_matches(run.step, known, n=MOST_NEAR) or known[:MOST_NEAR]
                raise ConfigurationError(
                    f"only={run.step!r} is not a step of {self._scenario}, so nothing was killed; the nearest are "
                    f"{', '.join(map(repr, near))}, and report.steps lists all {len(known)}"
                )

    def _each(self, chosen: Sequence[str], parallel: int) -> list[Run]:
        runs: list[Run] = []
        with ThreadPoolExecutor(parallel, thread_name_prefix="crash") as pool:
            try:
                for run in pool.map(self.run, chosen):
                    runs.append(run)
                    _show(len(runs), len(chosen), sum(bool(each.verdict.wrong) for each in runs))
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # an interrupt need not wait for the rest
        return runs

    def rehearse(self) -> tuple[Run, list[Step]]:
        """Run it without a kill, and check that there is something to judge."""
        calm = self.run(None)
        place = Place(self._directory / "calm")
        if not place.jobs.exists():
            raise ConfigurationError(f"{self._scenario} does not run, even without a kill; it says:\n{calm.log}")
        if not calm.states:
            raise ConfigurationError(f"{self._scenario} enqueues nothing, so there is nothing to judge")
        nothing_due = all(fate.owes_nothing for fate in _fates(place))
        if not place.effects.exists() and not calm.verdict.wrong and not nothing_due:
            raise ConfigurationError(self._without_effect(calm))
        return calm, read_steps(place.steps(0))

    def _without_effect(self, calm: Run) -> str:
        """Say why there is nothing to judge: the jobs failed, or their handlers report no effects."""
        said = f"{self._scenario} has no effect, even without a kill"
        if calm.failures:
            return "\n".join([f"{said}, because its jobs did not complete:", *why_not_completed(calm.failures)])
        return f"{said}: have its handlers call world.happened(name, job)"

    def run(self, fatal: str | None) -> Run:
        """Run it once, killed at this step, on its own store."""
        directory = self._directory / re.sub(r"\W+", "-", fatal or "calm")
        directory.mkdir()
        place = Place(directory)
        with fresh(self._url, directory) as url:
            trouble = self._lives(directory, url, fatal)
        return self._judge(place, fatal, trouble)

    def _lives(self, directory: Path, url: str, fatal: str | None) -> str | None:
        """Start it until it ends by itself, the first time with a kill; return why it never did, or None."""
        place = Place(directory)
        doomed: Future[Child] = Future()
        steps = Steps(place.steps(0), fatal, partial(_kill, doomed))
        with receiving(place.effects, steps) as receiver:
            for life in range(MOST_LIVES):
                task = CrashTask(self._scenario, url, receiver, life, None if life else fatal, self._patience)
                with _ending(self._children.spawn(live, directory, msgspec.to_builtins(task))) as child:
                    if not life:
                        doomed.set_result(child)
                    if self._ends(child):
                        return None
        return f"was started {MOST_LIVES} times and did not come to its end"

    def _ends(self, child: Child) -> bool:
        try:
            return child.wait(self._patience + OVERTIME) in {0, UNSETTLED}
        except TimeoutError:
            return False

    def _judge(self, place: Place, fatal: str | None, trouble: str | None) -> Run:
        fates = _fates(place)
        verdict = judge(fates, happened(place.effects))
        if trouble is not None:
            verdict = Verdict(unsettled=(Finding("the scenario", trouble),))
        met = [step for step in read_steps(place.steps(0)) if step.name == fatal]
        return Run(
            fatal,
            verdict,
            reached=fatal is None or bool(met),
            note=met[0].note if met else "",
            states=Counter(fate.state for fate in fates),
            failures=Counter(fate.failure for fate in fates if fate.failure),
            log=_tail(place.log),
        )


def _fates(place: Place) -> list[Fate]:
    return msgspec.json.decode(place.jobs.read_bytes(), type=list[Fate]) if place.jobs.exists() else []


def _kill(doomed: Future[Child]) -> None:
    """Kill the sender of a request, and stop handling the request."""
    os.kill(doomed.result().pid, signal.SIGKILL)
    raise ConnectionAbortedError("its sender was killed")


@contextmanager
def _ending(child: Child) -> Iterator[Child]:
    try:
        yield child
    finally:
        child.kill()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LINES_KEPT:]) if log.exists() else ""
