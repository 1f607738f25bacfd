"""The product's own nursery (`standfast.testing.nursery`), with the roles of these tests loaded before any is born."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from standfast.testing import nursery as kit
from standfast.testing.nursery import Child, Nursery, report, reported, until

__all__ = ["Child", "Nursery", "nursery", "report", "reported", "until", "until_none_is_left"]

STUCK = 60.0
"""Seconds in which no job ends, though workers are there, after which one is stuck."""


def nursery() -> AbstractContextManager[Nursery]:
    """Start the warm process; at the end, kill the children that are left."""
    return kit.nursery("tests.faults.roles")


def until_none_is_left(left: Callable[[], int]) -> None:
    """Wait as long as jobs end. How many are left depends on the machine: that they end does not."""
    before = left()

    def fewer() -> list[int]:
        now = left()
        return [now] if now < before else []

    while before:
        [before] = until(fewer, within=STUCK)
