"""Workflows: their order, the graphs that are none, and what a waiting step waits for."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from standfast.failure import Class, Failure, Landed
from standfast.lifecycle import State
from standfast.wings.records.view import Blocker, waits_for
from standfast.wings.workflows.rules import Link, Plan, Refusal, layers, plan, reasons
from standfast.wings.workflows.words import Progress, Tally

BROKEN = Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="handler_refused", message="boom")


def test_steps_keep_their_order_where_it_is_one():
    found = plan([("a", []), ("c", ["a"]), ("b", ["a"]), ("d", ["b", "c", "b"])])
    assert found == Plan(["a", "c", "b", "d"], [[], [0], [0], [1, 2]])


def test_steps_that_name_later_ones_are_put_behind_them():
    found = plan([("d", ["b", "c"]), ("b", ["a"]), ("a", []), ("c", ["a"])])
    assert isinstance(found, Plan)
    places = {name: place for place, name in enumerate(found.order)}
    assert [sorted(found.order[each] for each in found.parents[places[name]]) for name in "abcd"] == [
        [],
        ["a"],
        ["a"],
        ["b", "c"],
    ]
    assert all(parent < place for place, parents in enumerate(found.parents) for parent in parents)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([], "at least one step"),
        ([("a", []), ("a", [])], "two steps are called 'a'"),
        ([("a", ["b"])], "step 'a' comes after 'b', and no step is called so"),
        ([("a", ["a"])], "wait for each other: a → a;"),
        ([("a", []), ("b", ["a", "d"]), ("c", ["b"]), ("d", ["c"]), ("e", ["d"])], "wait for each other: "),
    ],
)
def test_a_graph_that_is_none_is_refused(steps, said):
    found = plan(steps)
    assert isinstance(found, Refusal)
    assert said in found.why


def test_a_circle_is_named_in_the_order_it_would_run():
    found = plan([("b", ["a", "d"]), ("c", ["b"]), ("d", ["c"]), ("a", []), ("behind", ["d"])])
    assert isinstance(found, Refusal)
    circle = found.why.split(": ")[1].split(";")[0].split(" → ")
    assert circle[0] == circle[-1]
    assert sorted(circle[1:]) == ["b", "c", "d"]
    assert set(pairwise(circle)) == {("b", "c"), ("c", "d"), ("d", "b")}


def test_a_circle_of_many_is_told_in_a_few_words():
    many = 10_000
    found = plan([(str(n), [str((n - 1) % many)]) for n in range(many)])
    assert isinstance(found, Refusal)
    assert "10000 steps" in found.why
    assert len(found.why) < 300


LONG_SHAPES = [pytest.param(shape, marks=pytest.mark.long) for shape in ("backwards", "circle")]


@pytest.mark.parametrize("shape", ["chain", "wide", *LONG_SHAPES])
def test_planning_takes_a_time_that_grows_with_the_graph_and_no_faster(shape):
    def took(many: int) -> float:
        graphs = {
            "chain": [(str(n), [str(n - 1)] if n else []) for n in range(many)],
            "backwards": [(str(n), [str(n + 1)] if n < many - 1 else []) for n in range(many)],
            "wide": [("first", []), *((str(n), ["first"]) for n in range(many)), ("z", [str(n) for n in range(many)])],
            "circle": [(str(n), [str((n + 1) % many)]) for n in range(many)],
        }
        begin = time.process_time()
        plan(graphs[shape])
        return time.process_time() - begin

    small, big = min(took(1000) for _ in range(3)), min(took(20_000) for _ in range(3))
    assert big < 100 * max(small, 1e-4)  # twenty times the work; squared it would be four hundred


def test_a_workflow_is_completed_only_if_every_step_is():
    assert Tally(unfinished=2).progress == Progress.RUNNING
    assert Tally(unfinished=2, stopped=1, dropped=1).progress == Progress.STUCK
    assert Tally(unfinished=2, dropped=1).progress == Progress.RUNNING
    assert Tally().progress == Progress.COMPLETED
    assert Tally(dropped=1).progress == Progress.CANCELLED


@pytest.mark.parametrize(
    ("blockers", "said"),
    [
        ([], "waits for an earlier step of its workflow"),
        ([Blocker("b", State.RUNNING)], "waits for step b"),
        ([Blocker("b", State.RUNNING), Blocker("c", State.QUEUED)], "waits for steps b, c"),
        ([Blocker(name, State.QUEUED) for name in "abcdef"], "waits for steps a, b, c and more"),
        ([Blocker("b", State.DEAD, BROKEN)], "waits for step b, which died: handler_refused"),
        ([Blocker("b", State.HELD)], "waits for step b, which is held"),
        (
            [Blocker("a", State.RUNNING), Blocker("b", State.DEAD, BROKEN), Blocker("c", State.HELD)],
            "waits for steps that stopped: b, which died: handler_refused, c, which is held",
        ),
    ],
)
def test_what_a_step_waits_for_is_said_in_a_few_words(blockers, said):
    assert waits_for(blockers) == said


def test_what_waits_behind_a_waiting_step_waits_for_the_same():
    steps = [
        Link(1, [], Blocker("a", State.COMPLETED)),
        Link(2, [1], Blocker("b", State.DEAD, BROKEN)),
        Link(3, [1], Blocker("c", State.RUNNING)),
        Link(4, [2, 3], Blocker("d", State.WAITING)),
        Link(5, [4], Blocker("e", State.WAITING)),
        Link(6, [3], Blocker("f", State.WAITING)),
    ]
    died = "waits for step b, which died: handler_refused"
    assert reasons(steps) == {4: died, 5: died, 6: "waits for step c"}


def test_a_stopped_step_is_named_although_many_others_are_waited_for():
    running = [Link(n, [], Blocker(str(n), State.RUNNING)) for n in range(100)]
    stopped = Link(100, [], Blocker("last", State.DEAD, BROKEN))
    waiting = Link(101, list(range(101)), Blocker("all", State.WAITING))
    assert reasons([*running, stopped, waiting])[101].startswith("waits for step last, which died")


def test_a_step_lies_as_deep_as_the_longest_way_to_it():
    assert layers({"a": [], "b": ["a"], "c": ["a", "b"], "d": []}) == {"a": 0, "b": 1, "c": 2, "d": 0}
