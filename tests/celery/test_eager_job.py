"""`self.job` where no worker runs the task: in eager runs and in direct calls, as unit tests make them."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from standfast import Effect
from standfast.celery import Celery
from standfast.errors import ConfigurationError
from tests.doors.processes import PACKAGES


def exporting(app: Celery) -> Any:
    """Give a task as the page on moving from Celery has it: it says how far it is, and looks whether it should stop."""

    @app.task(bind=True)
    def export(self, rows):
        for number in range(rows):
            if self.job.cancelled:
                return "stopped"
            self.job.progress(number / rows, f"row {number}")
        return rows

    return export


def test_a_task_that_reports_progress_runs_eagerly(app):
    export = exporting(app)
    app.conf.task_always_eager = True
    assert export.delay(3).get() == 3
    assert (export.s(2) | export.s()).delay().get() == 2


def test_a_task_that_reports_progress_can_be_called_as_a_function(app):
    export = exporting(app)
    assert export.apply((3,)).get() == export(3) == export.run(3) == 3


def test_an_eager_run_has_one_job_whose_id_is_that_of_the_task(app):
    @app.task(bind=True)
    def ids(self):
        return self.job.id, self.request.id, self.job.handler, self.job.queue, self.job is self.job

    result = ids.apply()
    assert result.get() == (result.id, result.id, ids.name, "celery", True)


def test_an_eager_retry_does_not_repeat_a_step_that_was_completed(app):
    looked_up = []

    def look_up(item):
        looked_up.append(item)
        return 4

    @app.task(bind=True, autoretry_for=(ConnectionError,), max_retries=3)
    def order(self, item):
        price = self.job.step_sync("price", look_up, item)
        if self.job.attempt < 3:
            raise ConnectionError
        return price, self.job.attempt

    assert order.apply(("tea",)).get() == (4, 3)
    assert looked_up == ["tea"]


@pytest.mark.parametrize("effects", [[Effect("charge")], Effect("charge"), lambda _job: [Effect("charge")]])
def test_an_eager_run_has_the_effects_that_its_task_declares(app, effects):
    @app.task(bind=True, replay="manual", effects=effects)
    def charge(self, name):
        with self.job.effect(name) as effect:
            effect.record("paid")
        with self.job.effect(name) as again:
            return again.done, again.receipt

    assert charge.apply(("charge",)).get() == (True, "paid")
    with pytest.raises(ConfigurationError, match="does not declare an effect 'refund'"):
        charge.apply(("refund",)).get()


def test_an_effect_that_an_eager_attempt_did_not_finish_is_begun_again(app):
    @app.task(bind=True, replay="manual", effects=[Effect("charge")], autoretry_for=(ConnectionError,), max_retries=2)
    def charge(self):
        if self.job.attempt == 2:
            with suppress(ConnectionError), self.job.effect("charge"):
                raise ConnectionError
        with self.job.effect("charge") as effect:
            if self.job.attempt == 1:
                raise ConnectionError
            return self.job.attempt, effect.done

    assert charge.apply().get() == (2, False)


def test_a_task_that_another_task_calls_as_a_function_has_no_job_of_its_own_in_a_worker(app, work):
    export = exporting(app)

    @app.task
    def nightly():
        return export(3)

    result = nightly.delay()
    work()
    with pytest.raises(ConfigurationError, match=r"called as a function by the code of another job.*\.delay\(…\)"):
        result.get(1)


IN_A_PROCESS = """
    from standfast.celery import Celery
    app = Celery("isolated", broker="sqlite:///isolated.db")

    @app.task(bind=True)
    def export(self):
        self.job.progress(0.5)

    @app.task(time_limit=20, max_retries=0)
    def nightly():
        export()
"""


def test_nor_in_the_process_of_a_task_with_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "isolated.py").write_text(dedent(IN_A_PROCESS))
    program = """
        import asyncio
        from isolated import app, nightly
        async def main():
            waiting = nightly.delay()
            async with app.sf, app.sf.worker():
                print((await app.sf.wait(waiting.id, 20)).failure.message)
        asyncio.run(main())
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{PACKAGES}:{tmp_path}")
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=40, check=False
    )
    assert "task isolated.export was called as a function by the code of another job" in done.stdout, done.stderr
