"""`standfast worker` in a process of its own."""

import json
import signal
import time

import pytest

from tests.doors.processes import WorkerProcess, eventually, on_terminal, standfast

APP = """
import asyncio
import sys
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


@sf.handler("turns")
def turns(job):
    return sys.getswitchinterval()


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
        assert "greet, other, turns, patient, endless" in ready
        assert " on sqlite:///standfast.db is ready" in ready
        assert waited(enqueue("greet", '"ann"'))["result"] == "hello ann"
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0


def test_a_function_that_computes_in_a_worker_process_lets_the_others_go_on_within_a_millisecond():
    with WorkerProcess("app:sf"):
        assert 0 < waited(enqueue("turns"))["result"] < 0.001


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
        assert json.loads(worker.says("is ready for"))["message"].endswith(": patient, greet")
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
        (["app"], "'app' does not name an application; write module:attribute"),
        (["nosuchmodule:sf"], "there is no module 'nosuchmodule'"),
        (["json.nosuchpart:sf"], "there is no module 'json.nosuchpart'"),
        (["json:dumps"], "json:dumps is a function, not a Standfast"),
        (["json:nothing"], "json has no attribute 'nothing'; name the Standfast object in it"),
        (["app:sf", "--concurrency", "0"], "0 is not in the range"),
    ],
)
def test_what_cannot_be_run_exits_2_and_says_why(cli, arguments, why):
    refused = cli("worker", *arguments)
    assert refused.exit_code == 2
    assert why in refused.stderr


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("shop.celry:app", "; did you mean shop.celery?"),
        ("shp.celery:app", "; did you mean shop?"),
        ("shop/celery.py:app", "; did you mean shop.celery?"),
        ("shop", "write module:attribute, such as shop:queue; "),
        ("shop.odd:app", "shop.odd:app is an app of Celery; change the import: from standfast.celery import Celery"),
    ],
)
def test_an_application_that_is_named_a_little_wrong_is_told_its_nearest_name(here, typed, said):
    (here / "shop").mkdir()
    (here / "shop" / "__init__.py").write_text("from shop.celery import app as queue\n")
    (here / "shop" / "celery.py").write_text("from standfast.celery import Celery\napp = Celery('shop', 'shop.db')\n")
    (here / "shop" / "odd.py").write_text("from celery import Celery\napp = Celery('shop')\n")
    refused = standfast("worker", typed)
    assert refused.returncode == 2
    [line] = refused.stderr.decode().splitlines()
    assert said in line


@pytest.mark.parametrize("typed", ["shop", "shop:app", "shop:celery"])
def test_an_app_in_the_celery_module_of_a_package_is_named_where_celery_would_find_it(here, typed):
    (here / "shop").mkdir()
    (here / "shop" / "__init__.py").write_text("")
    (here / "shop" / "celery.py").write_text("from standfast.celery import Celery\napp = Celery('shop', 'shop.db')\n")
    refused = standfast("worker", typed)
    assert refused.returncode == 2
    [line] = refused.stderr.decode().splitlines()
    assert "shop.celery:app" in line


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nosuchlibrary", "line 2: ModuleNotFoundError: No module named 'nosuchlibrary'; nothing was changed"),
        ("def broken(:", "line 2: SyntaxError: "),
        ("int('x')", "line 2: ValueError: invalid literal for int() with base 10: 'x'"),
        ("import json; json.loads('{')", "line 2: JSONDecodeError: "),
        ("raise SystemExit(3)", "line 2: SystemExit: 3"),
    ],
)
def test_an_application_that_does_not_import_is_one_line_that_says_where(here, code, said):
    (here / "broken.py").write_text(f"import os\n{code}\n")
    broken = standfast("worker", "broken:sf")
    assert broken.returncode == 2
    line = broken.stderr.decode()
    assert line.startswith(f"standfast: cannot import broken: broken.py, {said}")
    assert line.endswith("set STANDFAST_LOG_LEVEL=debug to see the traceback\n")
    assert line.count("\n") == 1


def test_an_error_of_standfast_during_the_import_says_where_in_the_application(here):
    (here / "broken.py").write_text("import standfast\nsf = standfast.Standfast()\nsf.queue('mail', attemts=3)\n")
    broken = standfast("worker", "broken:sf")
    assert broken.returncode == 2
    assert b"did you mean 'attempts'?" in broken.stderr
    assert b"raised at broken.py, line 3 while broken was imported" in broken.stderr
    assert broken.stderr.count(b"\n") == 1


def test_the_traceback_of_an_import_is_shown_at_log_level_debug(here):
    (here / "broken.py").write_text("import nosuchlibrary\n")
    broken = standfast("worker", "broken:sf", STANDFAST_LOG_LEVEL="debug")
    assert broken.returncode == 2
    assert broken.stderr.startswith(b"Traceback (most recent call last)")
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
        assert json.loads(line).keys() == {"time", "level", "logger", "message", "worker"}


TALKING = """
import logging
from standfast import Standfast

log = logging.getLogger("shop.mail")
sf = Standfast()
sf.queue("mail", attempts=1)


@sf.handler("mail", name="send")
def send(job):
    log.debug("debug of %s", job.payload)
    log.info("info of %s", job.payload)
    logging.getLogger("httpx2").info("GET http://a.example")
    raise ValueError("no, password=hunter22")
"""


@pytest.mark.usefixtures("every_store")
def test_json_lines_of_a_worker_name_the_job_also_those_of_the_application(here):
    (here / "talking.py").write_text(TALKING)
    with WorkerProcess("talking:sf", STANDFAST_LOG="json") as worker:
        ready = json.loads(worker.says("is ready for"))
        job = enqueue("mail", '"ann"', "--handler", "send")
        own = json.loads(worker.says("info of ann"))
        failed = json.loads(worker.says("unclassified_error"))
    about = {"job_id": job, "queue": "mail", "handler": "send", "attempt": 1, "worker": ready["worker"]}
    assert (own["logger"], own["level"]) == ("shop.mail", "info")
    assert {name: own[name] for name in about} == about
    assert {name: failed[name] for name in about} == about
    assert failed["reason_code"] == "unclassified_error"
    assert failed["traceback"].endswith("ValueError: no, password=***")
    assert not [line for line in worker.lines if "hunter22" in line or "debug of" in line or "a.example" in line]


@pytest.mark.parametrize(("level", "shown"), [("debug", 3), ("info", 2), ("warning", 1), ("error", 1)])
def test_text_lines_of_the_application_appear_from_the_level_that_was_asked_for(here, level, shown):
    (here / "talking.py").write_text(TALKING)
    job = enqueue("mail", '"ann"', "--handler", "send")
    with WorkerProcess("talking:sf", STANDFAST_LOG="text", STANDFAST_LOG_LEVEL=level) as worker:
        worker.says("ValueError: no, password=***")
    lines = [line for line in worker.lines if "shop.mail: " in line or f"job {job} of queue" in line]
    assert len(lines) == shown
    assert 'talking.py", line 15, in send' in "".join(worker.lines)


EARLY = 'import logging\nlogging.getLogger("shop.setup").info("read the price list")\n'


def test_what_an_application_logs_while_it_is_imported_appears_too(here):
    (here / "talking.py").write_text(EARLY + TALKING)
    with WorkerProcess("talking:sf", STANDFAST_LOG="json") as worker:
        line = json.loads(worker.says("read the price list"))
        worker.says("is ready")
    assert (line["logger"], line["level"]) == ("shop.setup", "info")


def test_an_application_that_sets_up_logging_as_it_likes_says_no_more_than_it_asked_for(here):
    quiet = 'import logging\nlogging.basicConfig(format="MINE %(message)s")\n'
    (here / "talking.py").write_text(EARLY + quiet + TALKING)
    job = enqueue("mail", '"ann"', "--handler", "send")
    with WorkerProcess("talking:sf", STANDFAST_LOG="json") as worker:
        worker.says("ValueError: no, password=***")
    assert [line for line in worker.lines if "price list" in line or "info of ann" in line] == []
    assert any(line.startswith("MINE") and job in line for line in worker.lines)


def test_an_application_that_sets_up_logging_itself_keeps_its_own(here):
    basic = 'import logging\nlogging.basicConfig(format="MINE %(message)s", level="INFO")\n'
    (here / "talking.py").write_text(basic + TALKING)
    with WorkerProcess("talking:sf", STANDFAST_LOG="json") as worker:
        enqueue("mail", '"ann"', "--handler", "send")
        worker.says("MINE info of ann")
        worker.says("ValueError: no, password=***")


def test_log_lines_are_text_on_a_terminal(here):
    (here / "ends.py").write_text(
        "import os, signal, threading\n"
        "from app import sf\n"
        "from standfast.worker.worker import Worker\n"
        "entered = Worker.__aenter__\n"
        "async def enter(self):\n"
        "    worker = await entered(self)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return worker\n"
        "Worker.__aenter__ = enter\n"
    )
    lines = on_terminal("worker", "ends:sf").splitlines()
    assert " INFO standfast.worker: worker " in lines[0]
    assert lines[-1].endswith("has stopped")


def test_a_wrong_log_style_exits_2():
    refused = standfast("jobs", STANDFAST_LOG="loud")
    assert refused.returncode == 2
    assert b"STANDFAST_LOG='loud' is unknown" in refused.stderr
