"""A backend for Django's tasks does what Django expects of one: tasks are enqueued, run, looked up and refused."""

from __future__ import annotations

import asyncio
import pickle
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.test import override_settings
from django.utils import timezone

from standfast import PayloadRejected
from standfast.django.backend import StandfastBackend
from standfast.django.failing import tell_if_finished
from standfast.django.results import TaskFailed
from standfast.django.tasks_framework import (
    InvalidTask,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
    task_finished,
    task_started,
)
from standfast.testing import drain
from tests.frameworks import djangos
from tests.frameworks.djangos import default_task_backend, task
from tests.frameworks.shop import tasks

pytestmark = pytest.mark.usefixtures("backend")
on_one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
"""For what the store has no part in."""


def work() -> None:
    """Run what is due."""
    asyncio.run(drain(default_task_backend.sf))


def finished(result: TaskResult) -> TaskResult:
    work()
    result.refresh()
    return result


# --- enqueuing


def test_a_task_is_enqueued_and_run():
    result = tasks.add.enqueue(1, second=2)
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.READY, False, 0)
    assert (result.args, result.kwargs, result.backend) == ([1], {"second": 2}, "default")
    assert result.task == tasks.add
    assert timezone.now() - result.enqueued_at < timedelta(minutes=1)
    assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
    with pytest.raises(ValueError, match="not finished"):
        assert result.return_value
    finished(result)
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.SUCCESSFUL, True, 1)
    assert result.return_value == 3
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.errors == []
    assert tasks.CALLS == [(1, 2)]


@pytest.mark.parametrize("awaited", [False, True])
def test_coroutines_are_tasks_too(awaited):
    arguments = (2, 3)
    enqueue = async_to_sync(tasks.add_async.aenqueue) if awaited else tasks.add_async.enqueue
    assert finished(enqueue(*arguments)).return_value == 5


def test_a_task_is_run_from_a_process_that_never_imported_it_by_name():
    """A worker finds the function by its path, as any other process that has the project's code."""
    assert default_task_backend.sf.handler is not None
    result = tasks.send.enqueue("ann")
    assert finished(result).return_value == "sent to ann"


def test_arguments_are_kept_as_json():
    result = tasks.add.enqueue(1, second=2)
    assert asyncio.run(default_task_backend.sf.status(result.id)).labels == {"task": "tests.frameworks.shop.tasks.add"}
    with pytest.raises(TypeError, match="Unsupported type"):
        tasks.send.enqueue(object())
    with pytest.raises(ValueError, match="Unsupported value"):
        tasks.send.enqueue(b"\xff")


def test_results_are_kept_as_json():
    assert finished(tasks.return_text_as_bytes.enqueue()).return_value == {"words": ["one", "two"], "success": False}


def test_a_result_that_json_does_not_know_fails_the_task():
    result = tasks.return_nothing_json_knows.using(attempts=1).enqueue()
    assert finished(result).status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class is TypeError


def test_higher_priorities_run_first():
    for number, priority in enumerate((-100, 0, 100)):
        tasks.add.using(priority=priority).enqueue(number)
    work()
    assert [number for number, _ in tasks.CALLS] == [2, 1, 0]


def test_a_task_waits_until_its_time():
    later = timezone.now() + timedelta(hours=1)
    result = tasks.add.using(run_after=later).enqueue(1)
    assert finished(result).status == TaskResultStatus.READY
    assert default_task_backend.get_result(result.id).task.run_after == later
    assert finished(tasks.add.using(run_after=timezone.now() - timedelta(hours=1)).enqueue(2)).return_value == 2


def test_a_naive_time_is_in_djangos_zone_where_zones_are_off():
    with override_settings(USE_TZ=False, TIME_ZONE="America/New_York"):
        later = datetime(2040, 1, 1, 12)  # noqa: DTZ001 - this is what such a project writes
        result = tasks.add.using(run_after=later).enqueue(1)
        found = default_task_backend.get_result(result.id)
        assert timezone.is_naive(found.enqueued_at)
    job = asyncio.run(default_task_backend.sf.status(result.id))
    assert abs(job.due_at - datetime(2040, 1, 1, 17, tzinfo=UTC)) < timedelta(seconds=1)


def test_queues_are_queues_of_standfast():
    result = tasks.send.enqueue("ann")
    job = asyncio.run(default_task_backend.sf.status(result.id))
    assert (job.queue, job.priority, job.handler) == ("mail", 5, "django_task")


def test_the_same_key_enqueues_once():
    first = tasks.add.using(idempotency_key="order-7").enqueue(7)
    again = tasks.add.using(idempotency_key="order-7").enqueue(7)
    assert first.id == again.id
    work()
    assert tasks.CALLS == [(7, 0)]


# --- what is refused


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"priority": -101}, "whole number"),
        ({"priority": 101}, "whole number"),
        ({"priority": 3.1}, "whole number"),
        ({"queue_name": "unknown"}, "not valid for backend"),
        ({"run_after": datetime(2040, 1, 1)}, "aware datetime"),  # noqa: DTZ001 - what is refused
    ],
)
@on_one_engine
def test_what_no_backend_takes_is_refused(changes, words):
    with pytest.raises(InvalidTask, match=words):
        tasks.add.using(**changes)


@on_one_engine
def test_only_functions_of_modules_are_tasks():
    with pytest.raises(InvalidTask, match="module level"):
        task()(lambda: None)


@on_one_engine
def test_a_task_that_takes_its_context_has_a_place_for_it():
    with pytest.raises(InvalidTask, match="context"):
        task(takes_context=True)(tasks.add.func)


# --- results


def test_results_are_looked_up_by_id():
    result = tasks.add.enqueue(1)
    assert default_task_backend.get_result(result.id).task == result.task
    assert tasks.add.get_result(result.id).id == result.id
    assert async_to_sync(default_task_backend.aget_result)(result.id).id == result.id
    assert async_to_sync(tasks.add.aget_result)(result.id).args == [1]
    work()
    async_to_sync(result.arefresh)()
    assert result.return_value == 1


@pytest.mark.parametrize("unknown", ["", "1", "3f2b8c1e-0d5a-4e7b-9a61-7c0e5d2f8b14", "no such thing"])
def test_an_unknown_id_has_no_result(unknown):
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(unknown)
    with pytest.raises(TaskResultDoesNotExist):
        async_to_sync(default_task_backend.aget_result)(unknown)


def test_a_job_that_is_no_task_has_no_result():
    receipt = default_task_backend.sf.enqueue_sync("default", {"a": 1})
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(receipt.id)


def test_a_result_belongs_to_its_task():
    result = tasks.add.enqueue(1)
    with pytest.raises(Exception, match="Task does not match"):
        tasks.send.get_result(result.id)


def test_a_failed_task_is_tried_again_and_then_failed():
    result = tasks.decline.enqueue()
    assert finished(result).status == TaskResultStatus.FAILED
    assert (result.attempts, len(result.worker_ids)) == (3, 3)
    assert result.finished_at >= result.last_attempted_at >= result.started_at
    [error] = result.errors
    assert error.exception_class is tasks.DeclinedError
    assert "no money" in error.traceback
    with pytest.raises(ValueError, match="Task failed"):
        assert result.return_value


def test_between_two_attempts_a_task_is_ready():
    result = tasks.decline.using(queue_name="slow").enqueue()
    assert finished(result).status == TaskResultStatus.READY
    assert (result.attempts, result.finished_at, result.is_finished) == (1, None, False)
    assert result.errors[0].exception_class is tasks.DeclinedError


def test_an_async_task_fails_too():
    result = tasks.decline_async.using(attempts=1).enqueue()
    assert finished(result).errors[0].exception_class is tasks.DeclinedError


def test_a_task_says_that_repeating_cannot_help():
    result = tasks.decline_for_good.enqueue()
    assert finished(result).status == TaskResultStatus.FAILED
    assert result.attempts == 1


def test_a_cancelled_task_has_failed_without_an_exception():
    result = tasks.add.enqueue(1)
    asyncio.run(default_task_backend.sf.cancel(result.id))
    assert finished(result).status == TaskResultStatus.FAILED
    assert all(error.exception_class is TaskFailed for error in result.errors)


def test_a_task_may_snooze():
    result = tasks.snooze_once.enqueue()
    assert finished(result).return_value == "done"
    assert tasks.CALLS == ["asked", "asked"]


def test_a_task_that_this_code_does_not_have_is_tried_again_later(monkeypatch):
    result = tasks.add.enqueue(1)
    with monkeypatch.context() as patched:
        patched.delattr(tasks, "add")
        work()
    job = asyncio.run(default_task_backend.sf.status(result.id))
    assert (job.failure.cls, job.failure.landed) == ("transient", "no")
    assert "has no task tests.frameworks.shop.tasks.add" in job.failure.message


@pytest.mark.parametrize("payload", [None, 7, {}, {"task": "os.system", "args": [], "kwargs": {}, "why": "not"}])
@on_one_engine
def test_what_is_no_call_of_a_task_is_refused_whoever_enqueues_it(payload):
    with pytest.raises(PayloadRejected):
        default_task_backend.sf.enqueue_sync("default", payload, handler="django_task")


@pytest.mark.parametrize(("path", "backend"), [("os.system", "default"), ("tests.frameworks.shop.tasks.add", "other")])
def test_nothing_but_a_task_is_called(path, backend):
    call = {"task": path, "args": ["true"], "kwargs": {}, "backend": backend}
    receipt = default_task_backend.sf.enqueue_sync("default", call, handler="django_task", attempts=1)
    work()
    job = asyncio.run(default_task_backend.sf.status(receipt.id))
    assert (job.state, job.failure.landed, tasks.CALLS) == ("dead", "no", [])
    assert f"this worker has no task {path}" in job.failure.message


# --- context and signals


def test_a_task_sees_its_attempt():
    result = tasks.tell_attempt.enqueue(fails=1)
    assert finished(result).return_value == {"attempt": 2}
    assert [(1, "RUNNING", result.id), (2, "RUNNING", result.id)] == tasks.CALLS


def listening(signal: Any, heard: list[Any], name: str) -> Any:
    def hear(sender: type, task_result: TaskResult, **_: Any) -> None:
        heard.append((name, task_result.id, str(task_result.status), sender.__name__))

    signal.connect(hear)
    return hear


@pytest.mark.parametrize(("call", "ends"), [(tasks.add, "SUCCESSFUL"), (tasks.decline, "FAILED")])
def test_signals_tell_what_happens(call, ends):
    heard: list[Any] = []
    signals = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
    kept = [listening(signal, heard, name) for name, signal in signals.items()]
    result = call.using(attempts=2).enqueue(*([1] if call is tasks.add else []))
    work()
    runs = 1 if ends == "SUCCESSFUL" else 2
    sent = [("enqueued", "READY"), *[("started", "RUNNING")] * runs, ("finished", ends)]
    assert heard == [(name, result.id, status, "StandfastBackend") for name, status in sent]
    for signal, hear in zip(signals.values(), kept, strict=True):
        signal.disconnect(hear)


@on_one_engine
def test_a_late_hook_of_an_earlier_attempt_tells_no_second_end():
    result = tasks.decline.using(attempts=2).enqueue()
    work()
    heard: list[Any] = []
    hear = listening(task_finished, heard, "finished")
    for attempt in (1, 2):
        job: Any = SimpleNamespace(id=result.id, attempt=attempt)
        asyncio.run(tell_if_finished(default_task_backend.sf, StandfastBackend, job))
    assert heard == [("finished", result.id, "FAILED", "StandfastBackend")]
    task_finished.disconnect(hear)


# --- the ORM


def test_connections_are_closed_around_each_attempt():
    assert finished(tasks.use_the_database.enqueue()).return_value == 0
    [during], used = tasks.CALLS
    assert during.connection is None
    assert getattr(used, "closed", True)


def test_async_tasks_use_the_orm():
    assert finished(tasks.count_orders.enqueue()).return_value == 0
    [used] = tasks.CALLS
    assert used.connection is None


# --- settings


@on_one_engine
def test_several_threads_share_one_store():
    async def ask() -> Any:
        return await asyncio.gather(*(asyncio.to_thread(lambda: default_task_backend.sf) for _ in range(4)))

    assert {id(each) for each in asyncio.run(ask())} == {id(default_task_backend.sf)}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"uri": "queue.db"}, "did you mean 'url'"),
        ({"enqueue": "later"}, "known are transaction, on_commit, immediate"),
        ({"url": 7}, "Expected `str | null`"),
        ({"queues": ["mail"]}, "maps names to rules"),
        ({"url": "queue.db", "app": "shop.queue:sf"}, "leave 'url' out"),
    ],
)
@on_one_engine
def test_wrong_options_are_said_by_name(wrong, words):
    given = {"default": {"BACKEND": djangos.BACKEND, "OPTIONS": wrong}}
    with override_settings(TASKS=given), pytest.raises(ImproperlyConfigured, match=words.replace("|", r"\|")):
        assert default_task_backend.supports_defer


@on_one_engine
def test_manage_py_check_says_what_is_doubtful():
    given = {"default": {"BACKEND": djangos.BACKEND, "QUEUES": [], "OPTIONS": {"database": "other"}}}
    with override_settings(TASKS=given):
        assert [each.id for each in default_task_backend.check()] == ["standfast.E001", "standfast.W001"]
    assert list(default_task_backend.check()) == []
    assert [each for each in checks.run_checks() if str(each.id).startswith("standfast")] == []


@on_one_engine
def test_tasks_can_be_pickled_where_django_can():
    if hasattr(type(tasks.add), "_reconstruct"):
        assert pickle.loads(pickle.dumps(tasks.add)) == tasks.add  # noqa: S301 - our own bytes


@on_one_engine
def test_the_database_is_left_alone():
    assert connections["default"].in_atomic_block is False
