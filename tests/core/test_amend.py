from __future__ import annotations

import pytest

from standfast.wings.letters.amend import MOST, changes, next_key


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"n": 1}, {"n": 2}, {"payload.n": [1, 2]}),
        ({"n": 1}, {"m": 1}, {"payload.m": ["nothing", 1], "payload.n": [1, "nothing"]}),
        ({"n": 1}, {"n": True}, {"payload.n": [1, True]}),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, {"payload.a.b[1]": [2, 3]}),
        ({"a": [1]}, {"a": [1, 2]}, {"payload.a": ["1 values", "2 values"]}),
        ("short", "x" * 41, {"payload": ["short", "text of 41 characters"]}),
        ({"to": "bob@example.org"}, {"to": None}, {"payload.to": ["***", None]}),
        ({"n": 1}, {"n": 1}, {}),
    ],
)
def test_what_changed_is_told_by_its_place(before, after, told):
    assert changes(before, after) == told


def test_many_changes_are_cut():
    told = changes({}, {f"n{number:03}": number for number in range(100)})
    assert len(told) == MOST + 1
    assert told["…"] == ["more", "more"]


@pytest.mark.parametrize(
    ("key", "generation", "then"),
    [("k", 0, "k~g1"), ("k~g1", 1, "k~g2"), ("k~g1", 0, "k~g1~g1"), ("k~g9", 9, "k~g10"), (None, 3, None)],
)
def test_every_generation_has_a_key_of_its_own(key, generation, then):
    assert next_key(key, generation) == then
