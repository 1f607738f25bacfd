"""The hooks of a task's own class: each is called once for what became of an attempt, whatever ended it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from standfast import Permanent, Transient, no_backoff
from standfast.celery import Celery, Task, shared_task
from standfast.errors import ConfigurationError
from tests.doors.processes import PACKAGES


class Declined(Permanent):
    """A refusal of the application's own."""


class Told(Task):
    """Keeps what its hooks were called with."""

    told: list[tuple[Any, ...]]

    def __init__(self) -> None:
        super().__init__()
        self.told = []

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        about = (task_id == self.request.id, args, kwargs, einfo.traceback.splitlines()[-1])
        self.told.append(("failed", exc, *about))

    def on_retry(self, exc, task_id, args, kwargs, einfo):  # noqa: ARG002 - Celery's signature
        self.told.append(("again", exc))

    def after_return(self, status, retval, task_id, args, kwargs, einfo):  # noqa: ARG002, PLR0917 - Celery's signature
        self.told.append((status, retval))


@pytest.mark.parametrize(
    "error", [Permanent("no"), Declined("no"), ValueError("no")], ids=lambda each: type(each).__name__
)
def test_on_failure_is_called_once_whatever_the_task_raised(app, work, error):
    @app.task(base=Told)
    def charge(card, amount):  # noqa: ARG001 - what the hook is told
        raise error

    charge.delay("77", amount=3)
    work()
    failed, returned = charge.told
    assert failed[:5] == ("failed", error, True, ["77"], {"amount": 3})
    assert failed[5].endswith(f"{type(error).__name__}: no")
    assert returned == ("FAILURE", error)


def test_transient_is_a_retry_until_no_attempt_is_left(app, work):
    errors = [Transient("not now"), Transient("not now either")]
    left = list(errors)

    @app.task(base=Told, max_retries=1)
    def charge():
        raise left.pop(0)

    app.sf.queue("celery", backoff=no_backoff())
    charge.delay()
    work()
    assert [each[:2] for each in charge.told] == [("again", errors[0]), ("failed", errors[1]), ("FAILURE", errors[1])]


def test_a_task_that_is_left_to_a_person_has_failed_for_good(app, work):
    @app.task(base=Told, autoretry_for=(OSError,), replay="manual")
    def pay():
        raise OSError("did it arrive?")

    pay.delay()
    work()
    assert [each[0] for each in pay.told] == ["failed", "FAILURE"]


def test_a_payload_that_is_no_call_fails_with_a_hook(app, work):
    @app.task(base=Told, name="shop.add")
    def add(_x):
        raise AssertionError

    bad = {"args": [{"__type__": "decimal", "__value__": "many"}]}
    app.sf.enqueue_sync("celery", bad, handler="shop.add")
    work()
    assert [each[0] for each in add.told] == ["failed", "FAILURE"]


def test_the_task_class_of_an_app_is_the_base_of_tasks_declared_afterwards(app, work):
    def charge():
        raise ValueError("no")

    before = app.task(charge, name="before")
    app.Task = Told
    after, own, shared = app.task(charge, name="after"), app.task(charge, base=Task, name="own"), shared_task(charge)
    assert [type(each) for each in (before, after, own, shared)] == [Task, Told, Task, Told]
    after.delay()
    work()
    assert [each[0] for each in after.told] == ["failed", "FAILURE"]


@pytest.mark.parametrize("given", [Told, f"{__name__}:Told", f"{__name__}.Told"])
def test_an_app_may_be_made_with_its_task_class(tmp_path, given):
    made = Celery("shop", broker=str(tmp_path / "shop.db"), task_cls=given)
    assert isinstance(made.task(print, name="print"), Told)


def test_a_base_that_is_no_task_class_is_refused(app):
    class Foreign:
        """Extends Celery's own Task, whose import was not changed."""

    with pytest.raises(ConfigurationError, match=r"standfast\.celery\.Task"):
        app.Task = Foreign
    with pytest.raises(ConfigurationError, match=r"standfast\.celery\.Task"):
        app.task(print, base=Foreign)


LIMITED = """
    import time
    from pathlib import Path
    from standfast.celery import Celery, Task
    app = Celery("limited", broker="sqlite:///limited.db")

    class Declined(Exception):
        def __init__(self, message, code):
            super().__init__(message, code)
            self.code = code

    class Alerting(Task):
        def on_failure(self, exc, task_id, args, kwargs, einfo):
            told = (self.request.id == task_id, args, type(exc).__name__, exc, getattr(exc, "code", ""))
            with Path("failed").open("a") as file:
                print(*told, file=file)

    @app.task(base=Alerting, time_limit=0.5, max_retries=0)
    def sleep(seconds):
        time.sleep(seconds)

    @app.task(base=Alerting, time_limit=20, max_retries=0)
    def decline(code):
        raise Declined("no", code)
"""


def test_a_task_with_a_time_limit_has_its_hooks_called_in_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "limited.py").write_text(dedent(LIMITED))
    program = """
        import asyncio
        from limited import app, sleep, decline
        async def main():
            results = [sleep.delay(60), decline.delay(51)]
            async with app.sf, app.sf.worker():
                for each in results:
                    error = await asyncio.to_thread(each.get, 20, propagate=False)
                    print(type(error).__name__, str(error), error.args)
        asyncio.run(main())
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{PACKAGES}:{tmp_path}")
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=40, check=False
    )
    late = "the attempt took longer than its timeout"
    assert done.stdout.splitlines()[:1] == [f"TimeLimitExceeded {late} {(late,)}"], done.stderr
    assert sorted((tmp_path / "failed").read_text().splitlines()) == sorted(
        [f"True [60] TimeLimitExceeded {late} ", "True [51] Declined ('no', 51) 51"]
    )
