"""The test kit: a store in memory, a clock that stands still, assertions about enqueued jobs, crashes at every step."""

from standfast.testing.crash_report import CrashReport
from standfast.testing.crashes import crash_everywhere
from standfast.testing.frozen_clock import FrozenClock
from standfast.testing.kit import assert_enqueued, drain, in_memory, memory
from standfast.testing.scenario import Scenario
from standfast.testing.world import World

__all__ = [
    "CrashReport",
    "FrozenClock",
    "Scenario",
    "World",
    "assert_enqueued",
    "crash_everywhere",
    "drain",
    "in_memory",
    "memory",
]
