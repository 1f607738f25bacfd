"""Which job is claimed next, and how long the last one can wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.rules import QueueRules
from tests.claim_order import Candidate, effective, order

HOUR = 3600.0
NOW = 100 * HOUR
RULES = QueueRules(age_boost=2.0, age_boost_cap=20.0)

candidates = st.lists(
    st.builds(Candidate, n=st.integers(1, 10**6), priority=st.integers(-5, 50), ready_at=st.integers(0, 10**5)),
    unique_by=lambda job: job.n,
    max_size=40,
)


def numbers(jobs: list[Candidate]) -> list[int]:
    return [job.n for job in jobs]


@pytest.mark.parametrize(
    ("priority", "hours", "expected"),
    [(0, 0, 0), (5, 1, 7), (5, 2.5, 10), (0, 10, 20), (0, 500, 20), (-3, 1, -1), (7, -1, 7)],
)
def test_waiting_raises_priority_up_to_a_cap(priority, hours, expected):
    assert effective(priority, NOW - hours * HOUR, NOW, boost_per_hour=2.0, cap=20.0) == expected


def test_higher_effective_priority_first_then_longer_waiting_then_lower_number():
    waiting = [
        Candidate(4, 0, NOW),
        Candidate(3, 0, NOW),
        Candidate(5, 0, NOW - 1),
        Candidate(1, 9, NOW),
        Candidate(2, 8, NOW - HOUR),
    ]
    assert numbers(order(waiting, NOW, RULES, claims_so_far=0, wanted=5)) == [2, 1, 5, 3, 4]


def test_equal_effective_priority_goes_by_age():
    capped = [Candidate(1, 0, NOW - 50 * HOUR), Candidate(2, 0, NOW - 60 * HOUR)]
    traded = [Candidate(1, 2, NOW), Candidate(2, 0, NOW - HOUR)]
    assert numbers(order(capped, NOW, RULES, 0, 2)) == [2, 1]
    assert numbers(order(traded, NOW, RULES, 0, 2)) == [2, 1]


@pytest.mark.parametrize(
    ("claims_so_far", "wanted", "expected"),
    [
        (0, 9, [12, 11, 10, 9, 8, 7, 6, 5, 4]),
        (0, 10, [1, 12, 11, 10, 9, 8, 7, 6, 5, 4]),
        (8, 1, [12]),
        (9, 1, [1]),
        (10, 1, [12]),
        (9, 2, [1, 12]),
        (9, 11, [1, 2, 12, 11, 10, 9, 8, 7, 6, 5, 4]),
        (19, 12, [1, 2, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3]),
        (999_999, 1, [1]),
        (9, 0, []),
        (9, 100, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 11]),
    ],
)
def test_every_tenth_claim_takes_the_longest_waiting(claims_so_far, wanted, expected):
    """Number 1 waits longest and has the lowest priority, number 12 the reverse."""
    waiting = [Candidate(n, n * 100, NOW + n) for n in range(1, 13)]
    assert numbers(order(waiting, NOW + 100, RULES, claims_so_far, wanted)) == expected


def test_the_oldest_of_one_moment_is_the_lowest_number():
    assert numbers(order([Candidate(2, 0, NOW), Candidate(1, 0, NOW)], NOW, RULES, claims_so_far=9, wanted=1)) == [1]


@given(candidates, st.integers(0, 30), st.integers(0, 50))
def test_it_gives_as_many_as_wanted_each_once_and_from_those_waiting(waiting, claims_so_far, wanted):
    chosen = order(waiting, 10**5, RULES, claims_so_far, wanted)
    assert len(chosen) == min(wanted, len(waiting))
    assert set(numbers(chosen)) <= set(numbers(waiting))
    assert len(set(numbers(chosen))) == len(chosen)


@given(candidates, st.integers(0, 8))
def test_between_the_tenths_it_is_the_plain_order(waiting, claims_so_far):
    def key(job: Candidate) -> tuple[float, float, int]:
        boosted = effective(job.priority, job.ready_at, 10**5, RULES.age_boost, RULES.age_boost_cap)
        return -boosted, job.ready_at, job.n

    wanted = 9 - claims_so_far
    assert order(waiting, 10**5, RULES, claims_so_far, wanted) == sorted(waiting, key=key)[:wanted]


@given(candidates, st.integers(0, 100), st.lists(st.integers(1, 25), min_size=1, max_size=5))
def test_the_nth_longest_waiting_runs_within_ten_n_claims(waiting, claims_before, batches):
    """Whatever arrives: here each claim meets fresh work of far higher priority, as many as it wants."""
    places = {job.n: place for place, job in enumerate(sorted(waiting, key=lambda job: (job.ready_at, job.n)), start=1)}
    claimed: list[int] = []
    fresh = 10**7
    while places.keys() - set(claimed):
        wanted = batches[len(claimed) % len(batches)]
        rush = [Candidate(fresh + offset, 1000, 10**5) for offset in range(wanted)]
        chosen = order([*waiting, *rush], 10**5, RULES, claims_before + len(claimed), wanted)
        waiting = [job for job in waiting if job not in chosen]
        claimed += numbers(chosen)
        fresh += wanted
    for number, place in places.items():
        assert claimed.index(number) + 1 <= 10 * place
