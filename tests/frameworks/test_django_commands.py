"""`manage.py standfast …`, the application that workers load, and a queue that tasks share with handlers."""

from __future__ import annotations

import asyncio
import sys

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.core.management import ManagementUtility
from django.test import override_settings

from standfast import Standfast
from standfast.cli.embedded import with_application
from standfast.django import project, task_store
from standfast.testing import drain
from tests.frameworks import djangos
from tests.frameworks.djangos import default_task_backend
from tests.frameworks.shop import tasks

SHARED: list[Standfast] = []


def __getattr__(name: str) -> Standfast:
    """Have `shared` be a queue of the test's own, found by its path."""
    if name != "shared":
        raise AttributeError(name)
    return SHARED[0]


@pytest.fixture
def engine() -> str:
    """Keep to files: commands are the same on both engines."""
    return "sqlite"


@pytest.fixture
def manage(monkeypatch, backend):
    """Run `manage.py`; give its exit code."""
    monkeypatch.setenv("STANDFAST_URL", backend.sf.settings.url.value)  # so that what commands set is put back
    monkeypatch.setenv("PYTHONPATH", "")

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["manage.py", *arguments])
        with pytest.raises(SystemExit) as ended:
            ManagementUtility(sys.argv).execute()
        return int(ended.value.code or 0)

    return run


def test_every_command_of_standfast_is_there(manage, backend, capfd):
    result = tasks.send.enqueue("ann")
    asyncio.run(backend.sf.close())
    assert manage("standfast", "status", result.id, "--json") == 0
    assert '"django_task"' in capfd.readouterr().out
    assert manage("standfast", "stauts", result.id) == 2
    assert "stauts" in capfd.readouterr().err
    assert manage("standfast", "--backend", "default", "jobs", "--json") == 0
    assert result.id in capfd.readouterr().out
    asyncio.run(backend.sf.open())


def test_help_is_standfasts(manage, capfd):
    assert manage("standfast_worker", "--help") == 0
    assert "--concurrency" in capfd.readouterr().out


def test_an_unknown_backend_is_named_in_one_line(manage, capfd):
    assert manage("standfast", "--backend", "other", "jobs") == 2
    [line] = capfd.readouterr().err.splitlines()
    assert "no backend 'other' of standfast" in line


def test_commands_that_take_an_application_are_given_this_one():
    assert with_application("shop:sf", ["worker", "--once"]) == ["worker", "shop:sf", "--once"]
    assert with_application("shop:sf", ["worker", "other:sf"]) == ["worker", "other:sf"]
    assert with_application("shop:sf", ["jobs", "--json"]) == ["jobs", "--json"]
    assert with_application("shop:sf", []) == []
    assert with_application("shop:sf", ["--help"]) == ["--help"]


def test_a_worker_loads_the_store_of_a_backend(backend):
    assert project.sf is backend.sf
    assert project.default is backend.sf
    with pytest.raises(ImproperlyConfigured, match="no backend 'other'"):
        assert project.other


def test_without_a_backend_of_ours_it_says_what_to_write():
    plain = {"default": {"BACKEND": f"{type(tasks.add.get_backend()).__mro__[1].__module__[:-5]}.dummy.DummyBackend"}}
    with override_settings(TASKS=plain), pytest.raises(ImproperlyConfigured, match="StandfastBackend"):
        assert project.sf


def test_tasks_share_a_queue_with_handlers(tmp_path):
    """One store, one worker: for tasks of Django and handlers of the project's own."""
    sf = Standfast(str(tmp_path / "shared.db"))
    SHARED[:] = [sf]
    sf.handler("reports")(lambda job: job.payload)
    given = djangos.tasks("unused")
    given["default"]["OPTIONS"] = {"app": f"{__name__}:shared"}
    with override_settings(TASKS=given):
        assert default_task_backend.sf is sf
        result = tasks.add.enqueue(1, 2)
        own = sf.enqueue_sync("reports", 7)

        async def work() -> list[object]:
            await drain(sf)
            return [(await sf.status(each)).result for each in (result.id, own.id)]

        assert asyncio.run(work()) == [3, 7]
        async_to_sync(sf.close)()
    task_store._stores.clear()  # noqa: SLF001 - see conftest.py


def test_what_is_no_standfast_is_refused():
    given = {"default": {"BACKEND": djangos.BACKEND, "OPTIONS": {"app": "tests.frameworks.djangos:QUEUES"}}}
    with override_settings(TASKS=given), pytest.raises(ImproperlyConfigured, match="a list, not a Standfast"):
        assert default_task_backend.sf
