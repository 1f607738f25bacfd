"""Tasks through a store: arguments, retries, states, hooks and ids."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from standfast import Cancel, Effect, Permanent
from standfast.celery import Celery, Task, celery_app, chain, current_app, group, shared_task
from standfast.celery.exceptions import (
    Ignore,
    MaxRetriesExceededError,
    Reject,
    TaskFailure,
    TaskRevokedError,
    TimeoutError,  # noqa: A004 - Celery's name
)
from standfast.celery.result import AsyncResult
from standfast.errors import ConfigurationError, IdempotencyConflict, PayloadRejected
from standfast.testing import drain, in_memory


class OutOfStock(Exception):
    """An exception of the application's own."""


def test_a_task_is_on_disk_at_once_and_gives_its_result(app, work):
    @app.task
    def add(x, y):
        return x + y

    result = add.delay(2, y=3)
    assert (result.state, result.ready(), result.result) == ("PENDING", False, None)
    work()
    assert (result.state, result.get(1), result.successful()) == ("SUCCESS", 5, True)
    assert AsyncResult(result.id).get(1) == 5
    assert add(2, 3) == 5


def test_control_revokes_one_task_or_several(every_url):
    app = Celery("shop", broker=every_url)
    wait = app.task(lambda: None)
    one, two, three = (wait.apply_async(countdown=60) for _ in range(3))
    app.control.revoke(one.id, terminate=True, signal="SIGKILL")
    app.control.terminate([two.id])
    assert [each.state for each in (one, two, three)] == ["REVOKED", "REVOKED", "PENDING"]
    asyncio.run(app.sf.close())


def test_a_task_that_was_revoked_while_it_ran_ends_as_what_it_says(app):
    @app.task(bind=True)
    def copy(self, how):
        self.AsyncResult(self.request.id).revoke()
        while not self.job.cancelled:
            time.sleep(0.01)
        if how == "ignore":
            raise Ignore
        return Cancel("stopped at row 5") if how == "cancel" else "done"

    results = {how: copy.delay(how) for how in ("ignore", "cancel", "return")}
    with app.sf.sync.worker():
        assert results["return"].get(20) == "done"
        for each in results.values():
            each.get(20, propagate=False)
    assert {how: each.state for how, each in results.items()} == {
        "ignore": "REVOKED",
        "cancel": "REVOKED",
        "return": "SUCCESS",
    }


def test_current_app_is_the_app_that_was_made_last(app, tmp_path):
    @app.task(name="add")
    def add(x, y):
        return x + y

    assert current_app.tasks["add"] is add
    assert AsyncResult(current_app.send_task("add", (1, 2)).id, app=current_app).state == "PENDING"
    current_app.conf.timezone = "Asia/Tokyo"
    assert app.conf.timezone == "Asia/Tokyo"
    later = Celery("later", broker=str(tmp_path / "later.db"))
    assert current_app.main == "later"
    assert repr(current_app) == repr(later)


def test_wrong_arguments_are_refused_where_they_are_given(app):
    @app.task(bind=True)
    def add(self, x):
        return self, x

    with pytest.raises(TypeError):
        add.delay()
    with pytest.raises(TypeError):
        add.delay(1, 2)


def test_dates_decimals_and_uuids_pass_through_as_they_do_with_celery(app, work):
    given = [date(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.10"), UUID(int=7), b"\xff", {"a": (1, 2)}]

    @app.task
    def echo(*args):
        assert list(args) == [*given[:5], {"a": [1, 2]}]
        return list(args)

    result = echo.delay(*given)
    work()
    assert result.get(1) == [*given[:5], {"a": [1, 2]}]


@pytest.mark.parametrize("given", [object(), {1: 2}, {3, 4}])
def test_what_is_not_json_is_refused_and_pickle_is_named(app, given):
    @app.task
    def show(what):
        return what

    with pytest.raises(PayloadRejected, match=r"nothing was written"):
        show.delay([given])


def test_retry_runs_again_with_the_number_of_the_retry(app, work):
    seen = []

    @app.task(bind=True, max_retries=2)
    def flaky(self):
        seen.append((self.request.retries, self.request.id))
        if self.request.retries < 2:
            raise self.retry(exc=OutOfStock("tea"), countdown=0)
        return "sold"

    result = flaky.delay()
    work()
    assert result.get(1) == "sold"
    assert seen == [(0, result.id), (1, result.id), (2, result.id)]


def test_retries_wait_as_long_as_they_ask(app, work):
    @app.task(bind=True, default_retry_delay=3600)
    def later(self):
        raise self.retry()

    result = later.delay()
    work()
    view = result.view
    assert result.state == "RETRY"
    assert [round(line.delay or 0) for line in view.history] == [3600]


def test_what_no_retry_helped_is_a_letter_and_raises_its_own_exception(app, work):
    told: list[object] = []

    class Told(Task):
        def on_failure(self, exc, task_id, args, kwargs, einfo):  # noqa: ARG002 - Celery's signature
            told.append((type(exc).__name__, args, "OutOfStock" in einfo.traceback))

        def on_retry(self, exc, task_id, args, kwargs, einfo):  # noqa: ARG002 - Celery's signature
            told.append("again")

    @app.task(base=Told, bind=True, max_retries=1)
    def flaky(self, item):
        raise self.retry(exc=OutOfStock(item), countdown=0)

    result = flaky.delay("tea")
    work()
    assert told == ["again", ("OutOfStock", ["tea"], True)]
    with pytest.raises(OutOfStock, match="tea"):
        result.get(1)
    failure = result.view.failure
    assert (result.state, failure.reason_code, failure.landed) == ("FAILURE", "max_attempts", "maybe")
    assert result.traceback.splitlines()[1].endswith("in flaky")
    assert result.traceback.endswith("OutOfStock: tea")


def test_a_task_class_may_wrap_every_run_as_the_pages_of_flask_do(app, work, tmp_path):
    open_contexts: list[str] = []

    class InContext(Task):
        def __call__(self, *args, **kwargs):
            open_contexts.append(self.name)
            try:
                return super().__call__(*args, **kwargs)
            finally:
                open_contexts.pop()

    app.Task = InContext
    Celery("other", broker=str(tmp_path / "other.db"))
    app.set_default()

    @shared_task(bind=True, name="show")
    def show(self, *, deeper=True):
        return [self.request.id, list(open_contexts), show(deeper=False) if deeper else None]

    result = show.delay()
    work()
    assert result.get(1) == [result.id, ["show"], [None, ["show", "show"], None]]
    assert show.apply().get()[1:] == [["show"], [None, ["show", "show"], None]]
    assert open_contexts == []
    assert current_app.main == "shop"


def test_a_shared_task_that_was_declared_before_the_app_has_the_apps_class(monkeypatch, tmp_path):
    monkeypatch.setattr(celery_app, "APPS", [])

    class Kind(Task):
        max_retries = 7

        def __init__(self):
            super().__init__()
            self.seen: list[str] = []

        def __call__(self, *args, **kwargs):
            self.seen.append("called")
            return super().__call__(*args, **kwargs)

    @shared_task(bind=True, default_retry_delay=9)
    def early(self):
        return type(self).__name__

    @shared_task(base=Task, name="plain")
    def plain():
        return "plain"

    made = Celery("shop", broker=str(tmp_path / "shop.db"), task_cls=Kind)
    result = early.delay()
    asyncio.run(drain(made.sf))
    assert (result.get(1), early.seen, early.max_retries, early.default_retry_delay) == ("Kind", ["called"], 7, 9)
    assert type(plain) is Task
    asyncio.run(made.sf.close())


class Widget:
    """As a Django model, it has an exception of its own."""

    class DoesNotExist(Exception):
        """There is none."""


def test_an_exception_of_a_class_comes_back_as_itself(app, work):
    @app.task
    def find():
        raise Widget.DoesNotExist("no widget 9")

    result = find.delay()
    work()
    with pytest.raises(Widget.DoesNotExist, match="no widget 9"):
        result.get(1)


def test_a_task_run_here_has_its_functions_name_and_may_throw(app):
    @app.task
    def add(x, y):
        return x + y

    assert add.__name__ == "add"
    assert add.apply((1, 2), throw=True).get() == 3
    assert add.apply((1, "x")).failed()
    with pytest.raises(TypeError):
        add.apply((1, "x"), throw=True)
    assert [len(each.tasks) for each in (chain(add.s(1, 2), add.s(3)), group(add.s(1, 2)))] == [2, 1]


class Declined(Exception):
    """An exception with two arguments, both of which it keeps."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, code)
        self.code = code


class Refused(Exception):
    """An exception with two arguments, of which it keeps one."""

    def __init__(self, message: str, _code: int) -> None:
        super().__init__(message)


@pytest.mark.parametrize(
    ("error", "args"),
    [
        (OutOfStock("no tea"), ("no tea",)),
        (OutOfStock("no tea (at all)"), ("no tea (at all)",)),
        (OutOfStock(), ()),
        (KeyError("tea"), ("tea",)),
        (KeyError(7), (7,)),
        (Declined("no money", 51), ("no money", 51)),
        (Refused("no card", 51), ("no card",)),
    ],
    ids=repr,
)
def test_the_exception_of_a_task_comes_back_with_its_class_and_arguments(app, work, error, args):
    @app.task(bind=True, replay="manual", effects=[Effect("charge")])
    def charge(self):
        with self.job.effect("charge"):
            raise error

    result = charge.delay()
    work()
    again = result.get(1, propagate=False)
    assert "begun, and not known to be done: charge" in result.view.failure.message
    assert (type(again), again.args, str(again)) == (type(error), args or ("",), str(error))
    assert getattr(again, "code", None) == getattr(error, "code", None)


def test_retry_without_an_exception_ends_with_celerys_own(app, work):
    @app.task(bind=True, max_retries=0)
    def flaky(self):
        raise self.retry(countdown=0)

    result = flaky.delay()
    work()
    with pytest.raises(MaxRetriesExceededError):
        result.get(1)


def test_an_exception_that_nothing_asked_to_retry_is_not_retried(app, work):
    @app.task
    def charge(card):
        raise ValueError(card)

    result = charge.delay("77")
    work()
    assert isinstance(result.get(1, propagate=False), ValueError)
    assert (result.view.attempts, result.view.failure.cls, result.view.failure.landed) == (1, "permanent", "maybe")


def test_autoretry_repeats_what_it_names_and_nothing_else(app, work):
    tried = []

    @app.task(
        autoretry_for=(OSError,),
        dont_autoretry_for=(PermissionError,),
        retry_kwargs={"max_retries": 2},
        retry_backoff=True,
    )
    def read(kind):
        tried.append(kind)
        raise {"gone": ConnectionError, "denied": PermissionError, "wrong": ValueError}[kind](kind)

    read.retry_jitter = False
    read.retry_backoff_max = 0
    results = [read.delay(kind) for kind in ("gone", "denied", "wrong")]
    work()
    assert (tried.count("gone"), tried.count("denied"), tried.count("wrong")) == (3, 1, 1)
    assert [each.state for each in results] == ["FAILURE"] * 3


@pytest.mark.parametrize(("retries", "seconds"), [(0, 2), (1, 4), (3, 16), (9, 100), (5000, 100)])
def test_backoff_doubles_up_to_its_cap(app, retries, seconds):
    from standfast.celery.autoretry import backoff  # noqa: PLC0415 - only here

    @app.task(retry_backoff=2, retry_backoff_max=100, retry_jitter=False)
    def read():
        pass

    assert backoff(read, retries, 0.5) == seconds
    read.retry_jitter = True
    assert [backoff(read, retries, roll) for roll in (0.0, 0.999999)] == [0, seconds]


def test_a_task_can_ignore_reject_and_speak_standfasts_words(app, work):
    raised = {"ignore": Ignore(), "reject": Reject("no"), "permanent": Permanent("no", reason_code="denied")}

    @app.task
    def do(what):
        raise raised[what]

    ignored, rejected, permanent = [do.delay(what) for what in raised]
    work()
    assert [each.state for each in (ignored, rejected, permanent)] == ["REVOKED", "FAILURE", "FAILURE"]
    assert permanent.view.failure.reason_code == "denied"
    with pytest.raises(TaskRevokedError):
        ignored.get(1)


def test_options_of_a_call_are_those_of_a_job(app):
    @app.task(priority=3)
    def add(x):
        return x

    app.conf.task_queues = ["other"]
    eta = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    view = add.apply_async((1,), countdown=3600, priority=7, queue="other", expires=7200).view
    assert (view.queue, view.priority, view.view) == ("other", 7, "scheduled")
    assert 7190 < (view.expires_at - view.created_at).total_seconds() < 7210
    for given in (eta, eta.replace(tzinfo=None)):
        assert abs(add.apply_async((1,), eta=given).view.due_at - eta) < timedelta(milliseconds=1)
    assert add.delay(1).view.priority == 3


def test_an_own_task_id_is_a_key_that_runs_once(app, work):
    ran = []

    @app.task(bind=True)
    def report(self, day):
        ran.append(self.request.id)
        return day

    first, second = [report.apply_async(("mon",), task_id="report-mon") for _ in range(2)]
    work()
    assert (first.id, ran) == (second.id, ["report-mon"])
    assert (AsyncResult("report-mon").get(1), AsyncResult("report-mon").state) == ("mon", "SUCCESS")
    assert AsyncResult("report").state == "PENDING"
    with pytest.raises(IdempotencyConflict):
        report.apply_async(("tue",), task_id="report-mon")


def test_a_revoked_task_does_not_run(app, work):
    @app.task
    def add(x):
        raise AssertionError(x)

    result = add.delay(1)
    result.revoke()
    work()
    assert result.state == "REVOKED"


def test_an_expired_task_is_revoked(app):
    @app.task(expires=60)
    def add():
        raise AssertionError

    async def run() -> str:
        async with in_memory(app.sf) as clock:
            result = add.delay()
            clock.advance("2m")
            await drain(app.sf)
            return str(result.state)

    assert asyncio.run(run()) == "REVOKED"


def test_a_result_that_does_not_come_in_time_is_a_timeout(app):
    @app.task
    def add(x):
        return x

    with pytest.raises(TimeoutError):
        add.delay(1).get(timeout=0.02)
    with pytest.raises(TimeoutError):
        AsyncResult("never-heard-of").get(timeout=0.02)


def test_a_result_that_is_not_json_says_so(app, work):
    @app.task
    def made():
        return object()

    @app.task(ignore_result=True)
    def unwanted():
        return object()

    result, other = made.delay(), unwanted.delay()
    work()
    assert result.state == "SUCCESS"
    with pytest.raises(TaskFailure, match="not JSON"):
        result.get(1)
    assert (other.get(1), other.view.warning) == (None, None)


def test_a_dict_that_names_an_error_is_a_result(app, work):
    @app.task
    def answer():
        return {"error": "none of your business", "success": False}

    result = answer.delay()
    work()
    assert result.get(1)["success"] is False


def test_waiting_for_a_task_inside_a_task_is_refused(app, work):
    @app.task
    def inner():
        return 1

    @app.task
    def outer():
        return inner.delay().get(timeout=1)

    result = outer.delay()
    work()
    with pytest.raises(RuntimeError, match="chain or a chord"):
        result.get(1)


def test_shared_tasks_belong_to_the_app_that_was_made_last(tmp_path):
    @shared_task(name="shared.add")
    def add(x):
        return x + 1

    app = Celery("later", broker=str(tmp_path / "later.db"))
    assert add.app is app
    assert app.task_named("shared.add") is add
    view = add.delay(1).view
    assert view is not None
    assert view.handler == "shared.add"


def test_a_task_can_be_sent_by_its_name_alone(app, work):
    @app.task(name="shop.add")
    def add(x):
        return x + 1

    result = app.send_task("shop.add", (1,))
    work()
    assert result.get(1) == 2
    assert app.send_task("elsewhere.task", queue="theirs").view.queue == "theirs"


def test_a_task_that_is_an_object_is_registered(app, work):
    class Add(Task):
        name = "shop.Add"

        def run(self, x):
            return x + self.request.retries

    add = app.register_task(Add())
    result = add.delay(4)
    work()
    assert result.get(1) == 4


def test_a_payload_that_is_no_call_is_refused(app):
    @app.task(name="shop.add")
    def add():
        raise AssertionError

    receipt = app.sf.enqueue_sync("celery", {"args": []}, handler="shop.add")
    bad = app.sf.enqueue_sync("celery", "garbage", handler="shop.other")
    assert receipt.outcome == bad.outcome == "accepted"
    with pytest.raises(PayloadRejected):
        app.sf.enqueue_sync("celery", {"surprise": 1}, handler="shop.add")


def test_a_value_that_is_not_what_it_says_dies_unrun(app, work):
    @app.task(name="shop.add")
    def add(_x):
        raise AssertionError

    bad = {"args": [{"__type__": "decimal", "__value__": "many"}]}
    receipt = app.sf.enqueue_sync("celery", bad, handler="shop.add")
    work()
    assert app.AsyncResult(receipt.id).view.failure.reason_code == "schema_invalid"


def test_a_task_that_must_not_run_twice_is_left_to_a_person(app, work):
    @app.task(autoretry_for=(OSError,), replay="manual")
    def pay():
        raise OSError("did it arrive?")

    result = pay.delay()
    work()
    assert (result.view.attempts, result.view.failure.reason_code) == (1, "unknown_commit_state")


def test_a_task_that_is_declared_again_takes_the_place_of_the_former(app, work):
    for answer in (1, 2):
        again = app.task(name="answer")(lambda answer=answer: answer)
        _ = app.sf
    result = again.delay()
    work()
    assert result.get(1) == 2


def test_threads_that_call_first_at_the_same_time_share_one_store(app, work):
    tasks = [app.task(name=f"task{number}", queue=f"queue{number % 4}")(lambda x: x) for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda task: task.delay(1), tasks))
    work()
    assert [each.get(1) for each in results] == [1] * 40


def test_a_task_may_have_its_own_timeout_or_none(app, work):
    took: dict[str, float | None] = {}

    def note(self):
        took[self.name] = self.job.timeout

    given: dict[str, dict[str, Any]] = {"usual": {}, "long": {"timeout": "2h"}, "endless": {"timeout": None}}
    tasks = [app.task(note, bind=True, name=name, **options) for name, options in given.items()]
    for task in tasks:
        task.delay()
    work()
    assert (took["usual"], took["long"]) == (900, 7200)
    assert (took["endless"] or 0) > 9 * 365 * 86400
    with pytest.raises(ConfigurationError, match="not both"):
        app.task(time_limit=5, timeout=9)


def test_rules_for_a_queue_of_the_app_leave_those_of_its_tasks_as_they_are(app):
    app.task(lambda: None, name="flaky", max_retries=7)
    app.conf.result_expires = 60
    rules = app.sf.queue("celery", timeout=None)
    assert (rules.timeout, rules.attempts, rules.keep_completed) == (None, 8, 60)
