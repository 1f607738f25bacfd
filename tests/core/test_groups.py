from __future__ import annotations

import pytest

from standfast.failure import Class, Failure, Landed
from standfast.wings.letters.grouping import Group, SeenLetter, add, died_again


def failure(message: str) -> Failure:
    return Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="denied", message=message)


def sighting(fingerprint: str, at: float, **more) -> SeenLetter:
    said = {"failure": failure(f"at {at:g}"), "id": f"job-{at:g}", "queue": "mail", "handler": "mail"}
    return SeenLetter(fingerprint=fingerprint, at=at, **{**said, **more})


def test_letters_of_one_fingerprint_are_one_group_whatever_their_order():
    for order in ([1.0, 3.0, 2.0], [3.0, 2.0, 1.0]):
        groups: dict[str, Group] = {}
        add(groups, [sighting("a", at, replays=int(at == 2), again=at == 2) for at in order])
        add(groups, [sighting("b", 9.0)])
        found = groups["a"]
        assert (found.count, found.first_seen, found.last_seen) == (3, 1.0, 3.0)
        assert (found.sample, found.failure.message) == ("job-3", "at 3")
        assert (found.replayed, found.regressed) == (1, 1)
        assert groups["b"].count == 1


@pytest.mark.parametrize(
    ("causes", "again"),
    [
        ([], False),
        (["a"], False),
        (["a", "a"], False),
        (["a", None], False),
        (["a", None, "a"], True),
        (["a", None, "b"], False),
        (["b", "a", None, "b"], False),
        (["a", None, "b", "a"], True),
        (["a", None, "b", None, "a"], True),
        ([None, None, "a"], False),
    ],
)
def test_a_letter_died_again_if_a_round_before_a_replay_ended_alike(causes, again):
    assert died_again(causes) is again
