"""The product's own nursery (`standfast.testing.nursery`), with the roles of these tests loaded before any is born."""

from __future__ import annotations

from contextlib import AbstractContextManager

from standfast.testing import nursery as kit
from standfast.testing.nursery import Child, Nursery, report, reported, until

__all__ = ["Child", "Nursery", "nursery", "report", "reported", "until"]


def nursery() -> AbstractContextManager[Nursery]:
    """Start the warm process; at the end, kill the children that are left."""
    return kit.nursery("tests.faults.roles")
