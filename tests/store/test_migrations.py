"""The numbered steps of a schema, as every dialect has them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from standfast.store.migrations import migrations


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_step_has_a_number_of_its_own_and_they_count_up(dialect):
    numbers = [step.number for step in migrations(dialect)]
    assert numbers[0] == 1
    assert all(earlier < later for earlier, later in pairwise(numbers))


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_later_step_lets_no_library_in_that_an_earlier_one_keeps_out(dialect):
    assert all(earlier.readable_by <= later.readable_by for earlier, later in pairwise(migrations(dialect)))
