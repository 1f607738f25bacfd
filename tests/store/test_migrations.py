"""The numbered steps of a schema, as every dialect has them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from standfast.store.migrations import migrations


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_the_steps_are_numbered_without_a_gap(dialect):
    numbers = [step.number for step in migrations(dialect)]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_later_step_lets_no_library_in_that_an_earlier_one_keeps_out(dialect):
    assert all(earlier.readable_by <= later.readable_by for earlier, later in pairwise(migrations(dialect)))
