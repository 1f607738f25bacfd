"""`standfast worker` in a process of its own."""

import json
import signal
import time

import pytest

from tests.doors.processes import WorkerProcess, eventually, on_terminal, standfast

APP = """
import asyncio
import time
from pathlib import Path

import standfast.worker.worker
from standfast import Standfast

standfast.worker.worker.POLL_EVERY = 3600  # whatever is started in these tests was woken

sf = Standfast()


@sf.handler("greet")
def greet(job):
    return f"hello {job.payload}"


@sf.handler("other")
def other(job):
    return "other"


@sf.handler("patient")
def patient(job):
    Path("started").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return "went"


@sf.handler("endless")
async def endless(job):
    Path("started").touch()
    await asyncio.Event().wait()
"""

pytestmark = pytest.mark.usefixtures("app")


@pytest.fixture
def app(here):
    (here / "app.py").write_text(APP)


def enqueue(*arguments):
    done = standfast("enqueue", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["id"]


def waited(job):
    done = standfast("wait", job, "--timeout", "20", "--json")
    assert done.returncode in {0, 1}, done.stderr
    return json.loads(done.stdout)


def status(job):
    return json.loads(standfast("status", job, "--json").stdout)


def test_runs_a_job_of_another_process_without_waiting_for_a_poll():
    with WorkerProcess("app:sf") as worker:
        ready = worker.says("is ready for")
        assert "greet, other, patient, endless" in ready
        assert " on sqlite:///standfast.db is ready" in ready
        assert waited(enqueue("greet", '"ann"'))["result"] == "hello ann"
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0


def test_sigterm_lets_what_runs_finish_and_exits_0(here):
    with WorkerProcess("app:sf") as worker:
        worker.says("is ready for")
        job = enqueue("patient")
        eventually((here / "started").exists)
        worker.signal(signal.SIGTERM)
        worker.says("drains")
        (here / "go").touch()
        assert worker.ends() == 0
    assert status(job)["result"] == "went"


def test_what_does_not_finish_in_the_grace_is_given_back(here):
    with WorkerProcess("app:sf", "--grace", "0.05") as worker:
        worker.says("is ready for")
        job = enqueue("endless")
        eventually((here / "started").exists)
        worker.signal(signal.SIGINT)
        assert worker.ends() == 0
    left = status(job)
    assert (left["state"], left["attempts"], left["deferrals"]) == ("queued", 0, 1)


def test_a_second_signal_exits_at_once(here):
    with WorkerProcess("app:sf") as worker:
        worker.says("is ready for")
        enqueue("patient")
        eventually((here / "started").exists)
        worker.signal(signal.SIGTERM)
        worker.says("drains")
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 128 + signal.SIGTERM


def test_works_only_on_the_queues_it_is_given():
    other, greet = enqueue("other"), enqueue("greet", '"bob"')
    with WorkerProcess("app:sf", "--queues", "patient, greet", "--concurrency", "1") as worker:
        assert worker.says("is ready for").rstrip('"}\n').endswith(": patient, greet")
        assert waited(greet)["state"] == "completed"
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
    assert status(other)["state"] == "queued"


def test_concurrency_is_how_many_jobs_of_a_queue_run_at_once(here):
    jobs = [enqueue("patient"), enqueue("patient")]
    with WorkerProcess("app:sf", "--concurrency", "1") as worker:
        worker.says("is ready for")
        eventually((here / "started").exists)
        assert [status(job)["state"] for job in jobs] == ["running", "queued"]
        (here / "go").touch()
        assert [waited(job)["state"] for job in jobs] == ["completed", "completed"]


def test_without_an_application_it_keeps_the_store_in_order(here):
    (here / "standfast.toml").write_text("[queues.slow]\nlease = 0.3\n")  # a short lease makes for frequent sweeps
    late, untouched = enqueue("slow", "--expires", str(time.time() + 2)), enqueue("greet")
    with WorkerProcess() as worker:
        worker.says("no queue of its own")
        assert waited(late)["reason"] == "expired"
    assert status(untouched)["state"] == "queued"


def test_url_is_where_an_application_that_names_none_works(here):
    job = enqueue("greet", '"eve"', "--url", "elsewhere.db")
    with WorkerProcess("app:sf", "--url", "elsewhere.db") as worker:
        worker.says("is ready for")
        done = standfast("wait", job, "--timeout", "20", "--url", "elsewhere.db")
    assert done.returncode == 0
    assert not (here / "standfast.db").exists()


def test_an_application_that_names_its_store_is_not_sent_elsewhere(cli, here, monkeypatch):
    monkeypatch.setenv("STANDFAST_URL", "unset-after-the-test")
    (here / "stubborn.py").write_text("import standfast\nsf = standfast.Standfast('mine.db')\n")
    refused = cli("worker", "stubborn:sf", "--url", "elsewhere.db")
    assert refused.exit_code == 2
    assert "stubborn:sf names its store itself (mine.db)" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["app"], "'app' names no application; write module:attribute"),
        (["nosuchmodule:sf"], "there is no module 'nosuchmodule'"),
        (["json.nosuchpart:sf"], "there is no module 'json.nosuchpart'"),
        (["json:dumps"], "json:dumps is no Standfast but a function"),
        (["json:nothing"], "json has no attribute 'nothing'; name the Standfast object in it"),
        (["app:sf", "--concurrency", "0"], "0 is not in the range"),
    ],
)
def test_what_cannot_be_run_exits_2_and_says_why(cli, arguments, why):
    refused = cli("worker", *arguments)
    assert refused.exit_code == 2
    assert why in refused.stderr


def test_an_application_that_breaks_on_import_shows_where(here):
    (here / "broken.py").write_text("import nosuchlibrary\n")
    broken = standfast("worker", "broken:sf")
    assert broken.returncode == 1
    assert b'broken.py", line 1' in broken.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "is_json"),
    [([], {}, True), ([], {"STANDFAST_LOG": "text"}, False), (["--json"], {"STANDFAST_LOG": "text"}, True)],
)
def test_log_lines_are_json_where_no_person_looks_unless_asked_otherwise(arguments, environment, is_json):
    with WorkerProcess("app:sf", *arguments, **environment) as worker:
        line = worker.says("is ready for")
    assert line.startswith("{") is is_json
    if is_json:
        assert json.loads(line).keys() == {"time", "level", "logger", "message"}


def test_log_lines_are_text_on_a_terminal(here):
    (here / "ends.py").write_text(
        "import os, signal, threading\n"
        "from app import sf\n"
        "from standfast.worker.worker import Worker\n"
        "entered = Worker.__aenter__\n"
        "async def enter(self):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return await entered(self)\n"
        "Worker.__aenter__ = enter\n"
    )
    lines = on_terminal("worker", "ends:sf").splitlines()
    assert " INFO standfast.worker: worker " in lines[0]
    assert lines[-1].endswith("has stopped")


def test_a_wrong_log_style_exits_2():
    refused = standfast("jobs", STANDFAST_LOG="loud")
    assert refused.returncode == 2
    assert b"STANDFAST_LOG='loud' is unknown" in refused.stderr
