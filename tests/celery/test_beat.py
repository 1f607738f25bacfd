"""The beat schedule, routes, settings from elsewhere, and tasks with a time limit."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from standfast.celery import Celery, chain
from standfast.celery.schedules import crontab
from standfast.errors import ConfigurationError
from standfast.testing import drain
from tests.doors.processes import PACKAGES


async def published(app: Celery) -> dict[str, dict[str, Any]]:
    async with app.sf, app.sf.worker():
        return {each["name"]: each for each in await app.sf.schedules.list()}


def make(url: str, schedule: dict[str, Any]) -> Celery:
    app = Celery("shop", broker=url, timezone="Europe/Berlin")

    @app.task(name="report", max_retries=7, queue="reports")
    def report(scope, day=None):
        return [scope, day]

    app.conf.beat_schedule = schedule
    return app


NIGHTLY = {"task": "report", "schedule": crontab(hour=2, minute=30), "args": ("all",), "kwargs": {"day": "mon"}}
OFTEN = {
    "task": "report",
    "schedule": timedelta(minutes=5),
    "args": ("few",),
    "options": {"queue": "slow", "priority": 3},
}


def test_workers_keep_the_beat_schedule_and_forget_what_is_gone_from_it(every_url):
    app = make(every_url, {"nightly": NIGHTLY, "often": OFTEN})
    app.conf.task_queues = ["slow"]
    found = asyncio.run(published(app))
    assert found.keys() == {"nightly", "often"}
    assert found["nightly"]["when"] == "every day at 02:30 Europe/Berlin"
    assert (found["nightly"]["queue"], found["nightly"]["handler"]) == ("reports", "report")
    assert found["nightly"]["payload"] == {"args": ["all"], "kwargs": {"day": "mon"}}
    assert (found["often"]["every"], found["often"]["queue"], found["often"]["options"]["priority"]) == (
        300.0,
        "slow",
        3,
    )
    again = asyncio.run(published(make(every_url, {"nightly": NIGHTLY})))
    assert again.keys() == {"nightly"}
    assert again["nightly"]["next_runs"] == found["nightly"]["next_runs"]


async def others(app: Celery) -> None:
    async with app.sf:
        await app.sf.schedules.add("by hand", "reports", every=60)


def test_schedules_of_others_are_left_alone(tmp_path):
    url = str(tmp_path / "q.db")
    asyncio.run(others(make(url, {})))
    assert asyncio.run(published(make(url, {}))).keys() == {"by hand"}


def test_periodic_tasks_are_added_once_the_app_is_configured(app):
    @app.on_after_configure.connect
    def setup(sender, **_):
        sender.add_periodic_task(10.0, hello.s("ann"), name="greet")
        sender.add_periodic_task(crontab(minute=0), hello.s("bob"))

    @app.task(name="hello")
    def hello(name):
        return name

    assert asyncio.run(published(app)).keys() == {"greet", "hello('bob')"}


@pytest.mark.parametrize(
    "entry",
    [
        {"task": "report"},
        {"task": "report", "schedule": "soon"},
        {"task": "report", "schedule": 60, "when": 1},
        {"task": "report", "schedule": 60, "options": {"expires": 5}},
    ],
)
def test_a_bad_entry_is_refused_where_it_is_set(tmp_path, entry):
    with pytest.raises(ConfigurationError):
        make(str(tmp_path / "q.db"), {"nightly": entry})


def test_routes_go_by_name_pattern_and_function(app):
    for name in ("mail.send", "images.small", "feed.read", "other"):
        app.task(name=name)(lambda: None)

    def router(name, *_args, **_options):
        return {"queue": "feeds"} if name.startswith("feed") else None

    app.conf.task_queues = ["feeds"]
    app.conf.task_routes = [{"mail.*": {"queue": "mail"}}, (re.compile(r"images\."), "images"), router]
    assert [app.tasks[name].delay().view.queue for name in ("mail.send", "images.small", "feed.read", "other")] == [
        *("mail", "images", "feeds", "celery")
    ]
    with pytest.raises(ConfigurationError, match=r"'routing_key', .* so write \{'queue': 'mail', 'priority': 3\}"):
        app.conf.task_routes = {"mail.*": {"queue": "mail", "routing_key": "mail.#", "priority": 3}}


def test_a_router_may_be_given_by_its_name(app):
    app.task(name="feed.read")(lambda: None)
    app.conf.update(task_queues=["feeds"], task_routes=f"{__name__}.to_feeds")
    assert app.tasks["feed.read"].delay().view.queue == "feeds"


def to_feeds(*_args: Any, **_options: Any) -> dict[str, str]:
    return {"queue": "feeds"}


def test_a_route_may_have_a_priority_which_the_task_and_the_call_override(app):
    app.task(name="mail.send")(lambda: None)
    app.task(name="mail.count", priority=5)(lambda: None)
    app.conf.task_routes = {"mail.*": {"queue": "mail", "priority": 3}, "clean": {"priority": 1}}
    app.task(name="clean")(lambda: None)
    assert [app.tasks[name].delay().view.priority for name in ("mail.send", "mail.count", "clean")] == [3, 5, 1]
    view = app.tasks["mail.send"].apply_async(priority=9).view
    assert (view.queue, view.priority) == ("mail", 9)
    assert chain(app.tasks["mail.send"].s(), app.tasks["mail.count"].si())().parent.view.priority == 3


def test_settings_come_from_objects_modules_and_namespaces(tmp_path):
    settings = SimpleNamespace(CELERY_TASK_DEFAULT_QUEUE="shop", CELERY_TASK_TRACK_STARTED=True, DEBUG=True)
    app = Celery("shop", broker=str(tmp_path / "q.db"))
    app.config_from_object(settings, namespace="CELERY")
    assert (app.conf.task_default_queue, app.conf["task_track_started"]) == ("shop", True)
    app.config_from_object(SimpleNamespace(timezone="Asia/Tokyo", print=print))
    assert app.conf.timezone == "Asia/Tokyo"
    with pytest.raises(ConfigurationError, match="did you mean"):
        app.config_from_object(SimpleNamespace(task_default_queu="shop"))


def test_modules_with_tasks_are_found_once_the_app_is_used(tmp_path, monkeypatch):
    for name in ("shoes", "hats"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    task = "from standfast.celery import shared_task\n@shared_task(name='{}')\ndef work():\n    return 1\n"
    (tmp_path / "shoes" / "tasks.py").write_text(task.format("sole"))
    (tmp_path / "extra.py").write_text(task.format("lace"))
    (tmp_path / "my_conf.py").write_text("task_default_queue = 'boots'\n")
    monkeypatch.syspath_prepend(tmp_path)
    app = Celery("shop", broker=str(tmp_path / "q.db"), include=["extra"])
    app.config_from_object("my_conf")
    app.autodiscover_tasks(["shoes", "hats"])
    assert app.tasks == {}
    view = app.send_task("sole").view
    assert view is not None
    assert (view.queue, set(app.tasks)) == ("boots", {"sole", "lace"})


def test_eager_apps_run_their_tasks_at_once(app):
    @app.task(bind=True)
    def add(self, x):
        assert self.request.is_eager
        return x + 1

    app.conf.task_always_eager = True
    assert add.delay(1).get() == 2
    assert (add.s(1) | add.s()).delay().get() == 3
    assert add.apply_async((1,)).state == "SUCCESS"


SLOW = """
    import time
    from standfast.celery import Celery
    app = Celery("slow", broker="sqlite:///slow.db")

    @app.task(time_limit=0.5, max_retries=0)
    def sleep(seconds):
        time.sleep(seconds)
        return "awake"
"""


def test_a_task_past_its_time_limit_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "slow.py").write_text(dedent(SLOW))
    program = """
        import asyncio
        from slow import app, sleep
        async def main():
            late, fine = sleep.delay(60), sleep.delay(0)
            async with app.sf, app.sf.worker():
                views = [await app.sf.wait(each.id, 20) for each in (late, fine)]
            print([(view.state.value, view.failure and view.failure.cause, view.result) for view in views])
        asyncio.run(main())
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{PACKAGES}:{tmp_path}")
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=40, check=False
    )
    assert done.stdout == "[('dead', 'timeout', None), ('completed', None, 'awake')]\n", done.stderr


def test_drain_runs_what_the_schedule_enqueued(tmp_path):
    app = make(str(tmp_path / "q.db"), {})

    async def run() -> Any:
        async with app.sf:
            receipt = await app.sf.enqueue("reports", {"args": ["all"]}, handler="report")
            await drain(app.sf)
            return await app.sf.result(receipt.id)

    assert asyncio.run(run()) == ["all", None]


SHARED = {
    "blog/__init__.py": "",
    "blog/app.py": """
        from standfast.celery import Celery
        app = Celery("blog", broker="sqlite:///blog.db")
        app.autodiscover_tasks(["blog"])
    """,
    "blog/tasks.py": """
        from standfast.celery import shared_task

        @shared_task(time_limit=20)
        def double(number):
            return number * 2
    """,
    "blog/__main__.py": """
        import asyncio
        from blog.app import app
        from blog.tasks import double
        async def main():
            waiting = double.delay(21)
            async with app.sf, app.sf.worker():
                print((await app.sf.wait(waiting.id, 20)).result)
        if __name__ == "__main__":
            asyncio.run(main())
    """,
    "alone.py": """
        import asyncio
        from standfast.celery import Celery
        from blog.tasks import double
        app = Celery("alone", broker="sqlite:///blog.db")
        async def main():
            waiting = double.delay(4)
            async with app.sf, app.sf.worker():
                print((await app.sf.wait(waiting.id, 20)).result)
        if __name__ == "__main__":
            asyncio.run(main())
    """,
}


@pytest.mark.parametrize(("program", "result"), [(["-m", "blog"], "42\n"), (["alone.py"], "8\n")])
def test_a_shared_task_may_have_a_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: list[str], result: str
):
    for name, text in SHARED.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{PACKAGES}:{tmp_path}")
    done = subprocess.run([sys.executable, *program], capture_output=True, text=True, timeout=40, check=False)
    assert done.stdout == result, done.stderr
