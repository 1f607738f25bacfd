"""What you write for the crash kit: what runs, what is enqueued, and which effects each job must have."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from standfast.application import Standfast
from standfast.errors import ConfigurationError
from standfast.testing.world import Effect, World
from standfast.views import JobView


class Scenario:
    """A class at the top level of a module: child processes import it by name, and create it without arguments."""

    effects: tuple[str, ...] = ()
    """The names of the effects that each job must have if it ended as expected."""
    expected: str | None = None
    """The state in which each job must end, such as "dead" for jobs that are meant to die. None asks for no state: a
    job is completed and must have had its effects, or it is a letter, which is visible and owes nothing."""

    def build(self, world: World) -> Standfast:
        """Return the queue with its rules and handlers: a new one, or your application's own.

        Whatever store it names, the kit puts it on a fresh one.
        """
        raise NotImplementedError

    async def enqueue(self, sf: Standfast, world: World) -> None:
        """Enqueue the jobs. After a crash on the way, this is called again, so give each job an idempotency key."""
        raise NotImplementedError

    def ends(self, job: JobView) -> str | None:
        """Return the state in which a job must end, if not all end alike; None allows any state."""
        del job
        return self.expected

    def expects(self, job: JobView) -> Iterable[Effect]:
        """Return the name and key of each effect that a job must have if it ended as expected."""
        return [(name, job.idempotency_key or job.id) for name in self.effects]


def name_of(scenario: type[Scenario]) -> str:
    """Return the name by which child processes find a scenario."""
    if not (isinstance(scenario, type) and issubclass(scenario, Scenario)):
        raise ConfigurationError(f"a scenario is a class that extends standfast.testing.Scenario, not {scenario!r}")
    name = f"{scenario.__module__}:{scenario.__qualname__}"
    if "<locals>" in name or scenario.__module__ == "__main__":
        raise ConfigurationError(
            f"child processes cannot import {name}: move the class to the top of a module that can be imported"
        )
    checks_ends = scenario.expected is not None or scenario.ends is not Scenario.ends
    if not checks_ends and not scenario.effects and scenario.expects is Scenario.expects:
        raise ConfigurationError(
            f'{name} names no effects, so none could be missed: say effects = ("ticket",), write expects(job), '
            'or say expected = "dead" if its jobs are meant to die'
        )
    return name


def load_scenario(name: str) -> Scenario:
    """Import and create a scenario."""
    module, _, qualname = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    made: Scenario = found()
    return made
