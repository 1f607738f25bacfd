"""Chains, groups and chords on workflows."""

from __future__ import annotations

import asyncio

import pytest

from standfast.celery import Celery, chain, chord, group, signature
from standfast.celery.exceptions import ChordError
from standfast.errors import ConfigurationError


@pytest.fixture
def tasks(app: Celery):
    class Tasks:
        @staticmethod
        @app.task(name="add")
        def add(x, y=0):
            return x + y

        @staticmethod
        @app.task(name="total")
        def total(numbers, start=0):
            return sum(numbers) + start

        @staticmethod
        @app.task(name="hello")
        def hello():
            return "hello"

        @staticmethod
        @app.task(name="fail")
        def fail(*_args):
            raise ZeroDivisionError("no")

        @staticmethod
        @app.task(name="odd")
        def odd(*_args):
            return object()

    return Tasks


CANVASES = {
    "chain": (lambda t: chain(t.add.s(1, 2), t.add.s(10), t.add.s(100)), 113),
    "pipe": (lambda t: t.add.s(1, 2) | t.add.s(y=5), 8),
    "immutable": (lambda t: t.add.s(1, 2) | t.hello.si(), "hello"),
    "group": (lambda t: group(t.add.s(n, n) for n in range(3)), [0, 2, 4]),
    "group of chains": (lambda t: group(t.add.s(1, 1) | t.add.s(1), t.add.s(5)), [3, 5]),
    "chord": (lambda t: chord([t.add.s(n) for n in range(4)], t.total.s(start=100)), 106),
    "chord of one": (lambda t: chord([t.add.s(4)], t.total.s()), 4),
    "chord of none": (lambda t: chord([], t.total.s()), 0),
    "chord of groups": (lambda t: chord([group(t.add.s(1), t.add.s(2)) | t.total.s(), t.add.s(4)], t.total.s()), 7),
    "group then task": (lambda t: group(t.add.s(1), t.add.s(2)) | t.total.s(), 3),
    "task then group": (lambda t: chain(t.add.s(1, 1), group(t.add.s(10), t.add.s(20))), [12, 22]),
    "group then group": (lambda t: group(t.add.s(1), t.add.s(2)) | group(t.total.s(), t.total.s(10)), [3, 13]),
    "chain of chords": (lambda t: chord([t.add.s(1)], t.total.s()) | t.add.s(5), 6),
    "empty group": (lambda _: group([]), []),
    "by name": (lambda _: chain(signature("add", (1, 2)), signature("add", kwargs={"y": 4})), 7),
}


@pytest.mark.parametrize("name", CANVASES)
def test_results_pass_on_as_with_celery(tasks, work, name):
    make, expected = CANVASES[name]
    result = make(tasks).apply_async()
    work()
    assert result.get(timeout=1) == expected
    assert result.successful()
    assert make(tasks).apply().get() == expected


def test_a_whole_canvas_is_stored_or_nothing(app, tasks):
    with pytest.raises(ConfigurationError, match="countdown"):
        chain(tasks.add.s(1), tasks.add.s(2).set(countdown=5))()
    with pytest.raises(ConfigurationError, match=r"has task_id= .* result\.parent\.id"):
        chain(tasks.add.s(1).set(countdown=5, task_id="mine"), tasks.add.s(2))()
    with pytest.raises(ConfigurationError, match="task_queues"):
        chain(tasks.add.s(1), tasks.add.s(2).set(queue="nowhere"))()
    with pytest.raises(ConfigurationError):
        tasks.add.s(1) | 2
    assert app.sf.enqueue_sync("celery", {}, handler="add").outcome == "accepted"


def test_results_know_their_parents(tasks, work):
    result = chain(tasks.add.s(1, 2), tasks.add.s(10))()
    body = chord([tasks.add.s(1), tasks.add.s(2)])(tasks.total.s())
    work()
    assert (result.parent.get(1), result.get(1)) == (3, 13)
    assert (body.parent.get(1), body.parent.completed_count()) == ([1, 2], 2)


def test_a_chain_whose_link_failed_raises_its_exception_and_goes_on_after_a_replay(app, tasks, work):
    result = chain(tasks.fail.s(), tasks.add.s(1))()
    work()
    assert result.state == "PENDING"
    with pytest.raises(ZeroDivisionError):
        result.get(timeout=1)
    app.tasks["fail"].run = lambda: 41
    asyncio.run(app.sf.dead_letters.replay(result.parent.id, by="ann"))
    work()
    assert result.get(timeout=1) == 42


def test_a_chord_whose_header_failed_raises_a_chord_error(tasks, work):
    result = chord([tasks.add.s(1), tasks.fail.s()])(tasks.total.s())
    work()
    with pytest.raises(ChordError, match="ZeroDivisionError"):
        result.get(timeout=1)


def test_a_result_that_another_task_needs_must_be_json(tasks, work):
    result = chain(tasks.odd.s(), tasks.add.s(1))()
    work()
    assert result.parent.state == "FAILURE"


def test_options_of_a_canvas_reach_its_tasks(app, tasks):
    app.conf.task_queues = ["slow"]
    result = chain(tasks.add.s(1), tasks.add.s(2)).apply_async(queue="slow", countdown=60)
    assert (result.view.queue, result.parent.view.queue, result.parent.view.view) == ("slow", "slow", "scheduled")


def test_the_first_task_of_a_chain_may_have_a_countdown_of_its_own(tasks):
    result = chain(tasks.add.s(1).set(countdown=60, priority=2), tasks.add.s(2))()
    assert (result.parent.view.view, result.parent.view.priority, result.view.view) == ("scheduled", 2, "waiting")


def test_results_of_a_chord_come_in_its_order(app, tasks, work):
    @app.task(name="shown")
    def shown(numbers):
        return numbers

    result = chord([tasks.add.s(n) for n in range(12)])(shown.s())
    work()
    assert result.get(timeout=1) == list(range(12))


def test_a_chord_may_have_thousands_of_tasks(tasks):
    result = chord([tasks.add.s(n) for n in range(3000)])(tasks.total.s())
    assert len(result.parent) == 3000
    assert result.view.payload["takes"] == "*"
