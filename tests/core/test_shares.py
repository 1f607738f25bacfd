"""How far queues are counted: about so many jobs in all, large queues share what small ones leave."""

from __future__ import annotations

import json

import pytest

from standfast.wings.health.counting import Count, count_each


def counted(true: dict[str, int], most: int, least: int = 1) -> tuple[dict[str, Count], int]:
    """Count as a store would; give the counts, and how many jobs were looked at."""
    looked, asking = 0, count_each("count", dict.fromkeys(true, least), most)
    rows = None
    try:
        while True:
            _, asked = asking.send(rows)  # type: ignore[arg-type]
            assert isinstance(asked, dict)
            rows = [(queue, min(true[queue], asked["most"])) for queue in json.loads(asked["queues"])]
            looked += sum(number for _, number in rows)
    except StopIteration as done:
        return done.value, looked


CASES = [
    ({}, 100, {}),
    ({"a": 0}, 100, {"a": (0, False)}),
    ({"a": 99}, 100, {"a": (99, False)}),
    ({"a": 100}, 100, {"a": (100, True)}),
    ({"a": 10_000}, 100, {"a": (100, True)}),
    ({"a": 10_000, "b": 10_000}, 100, {"a": (50, True), "b": (50, True)}),
    ({"a": 10_000, "b": 3}, 100, {"a": (97, True), "b": (3, False)}),
    ({"a": 60, "b": 3, "c": 0, "d": 0}, 100, {"a": (60, False), "b": (3, False), "c": (0, False), "d": (0, False)}),
]


@pytest.mark.parametrize(("true", "most", "found"), CASES)
def test_large_queues_share_what_small_ones_leave(true, most, found):
    assert counted(true, most)[0] == found


@pytest.mark.parametrize("queues", [1, 7, 200])
@pytest.mark.parametrize("large", [0, 1, 3])
def test_whatever_there_is_not_much_more_is_looked_at(queues, large):
    true = {f"queue-{n}": 10**9 if n < large else n for n in range(queues)}
    found, looked = counted(true, 30_000)
    assert looked <= 2 * 30_000
    assert all(count.more or count.number == true[queue] for queue, count in found.items())
    assert sum(count.more for count in found.values()) == min(large, queues)


def test_no_count_stops_before_its_queue_knows_what_it_must():
    found, _ = counted({f"queue-{n}": 500 for n in range(1000)}, most=100, least=101)
    assert {*found.values()} == {Count(101, more=True)}
    assert counted({"a": 90, "b": 500}, most=4, least=101)[0] == {
        "a": Count(90, more=False),
        "b": Count(101, more=True),
    }
