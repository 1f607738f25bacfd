"""Test kit: a store in memory, a clock that stands still, and ways to run and look at what was enqueued."""

from standfast.testing.clock import FrozenClock
from standfast.testing.kit import assert_enqueued, drain, in_memory, memory

__all__ = ["FrozenClock", "assert_enqueued", "drain", "in_memory", "memory"]
