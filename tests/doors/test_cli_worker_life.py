"""How `standfast worker` lives as people run it: several processes, recycled, once, reloaded, watched by a file."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.doors.processes import WorkerProcess, eventually, standfast, surroundings
from tests.warm import run_warm

APP = """
import asyncio
import os
import time
from pathlib import Path

from standfast import Standfast, no_backoff

sf = Standfast()
sf.queue("fails", attempts=1)
sf.queue("patient", backoff=no_backoff())


@sf.on_startup
async def begin():
    Path(f"up.{os.getpid()}").touch()
    if Path("no-start").exists():
        raise OSError("no route to the database")


@sf.on_shutdown
def end():
    Path(f"down.{os.getpid()}").touch()


@sf.handler("greet")
async def greet(job):
    await asyncio.sleep(0)
    return os.getpid()


@sf.handler("fails")
async def fails(job):
    raise ValueError("no")


@sf.handler("patient")
async def patient(job):
    Path("started").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return os.getpid()


@sf.handler("grows")
def grows(job):
    kept.append(b"x" * job.payload)
    return os.getpid()


@sf.handler("follows")
async def follows(job):
    if job.payload:
        await follows.enqueue(job.payload - 1)


kept = []
"""


STOPPED_AT_THE_END = """
@sf.on_shutdown
def stop():
    import signal
    os.kill(os.getpid(), signal.SIGTERM)
"""

STOPPED_AT_THE_START = STOPPED_AT_THE_END.replace("on_shutdown", "on_startup")


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name the store of every process of a test, of both kinds."""
    (here / "app.py").write_text(APP)
    url = "standfast.db" if request.param == "file" else str(request.getfixturevalue("used_postgres_url"))
    monkeypatch.setenv("STANDFAST_URL", url)
    return url


@pytest.fixture
def file(here: Path) -> Path:
    (here / "app.py").write_text(APP)
    return here


def enqueue(*arguments: str) -> str:
    done = standfast("enqueue", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["id"])


def enqueue_many(number: int, queue: str = "greet") -> list[str]:
    code = (
        "import asyncio, app\n"
        "async def many():\n"
        f"    made = await app.sf.enqueue_many({queue!r}, range({number}))\n"
        "    print(*[each.id for each in made])\n"
        "    await app.sf.close()\n"
        "asyncio.run(many())"
    )
    environment = surroundings({"PYTHONPATH": f"{surroundings({})['PYTHONPATH']}:{Path.cwd()}"})
    done = run_warm([sys.executable, "-c", code], capture_output=True, check=True, env=environment)
    return str(done.stdout.decode()).split()


def waited(job: str) -> dict[str, object]:
    done = standfast("wait", job, "--timeout", "25", "--json")
    assert done.returncode in {0, 1}, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def listed() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(standfast("jobs", "--limit", "1000", "--json").stdout)["items"]
    return found


def pids(name: str) -> set[int]:
    return {int(each.suffix[1:]) for each in Path.cwd().glob(f"{name}.*")}


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z"


# --- once


@pytest.mark.usefixtures("store")
def test_once_runs_what_is_due_and_what_that_brings_and_exits_0():
    for arguments in (["greet"], ["follows", "3"], ["greet", "--delay", "1h"]):
        enqueue(*arguments)
    with WorkerProcess("app:sf", "--once", "--concurrency", "2") as worker:
        assert worker.ends() == 0
    states = sorted((str(job["queue"]), str(job["state"])) for job in listed())
    assert states == [("follows", "completed")] * 4 + [("greet", "completed"), ("greet", "queued")]
    assert pids("up") == pids("down")


@pytest.mark.usefixtures("file")
def test_once_exits_1_if_a_job_of_it_ended_dead():
    enqueue("fails")
    with WorkerProcess("app:sf", "--once") as worker:
        assert worker.ends() == 1
    with WorkerProcess("app:sf", "--once") as worker:
        assert worker.ends() == 0, "what died earlier is no news"


def test_once_recovers_what_a_killed_worker_held(file):
    job = enqueue("patient")
    with WorkerProcess("app:sf") as worker:
        eventually((file / "started").exists)
        worker.signal(signal.SIGKILL)
        worker.ends()
    (file / "go").touch()
    with WorkerProcess("app:sf", "--once") as worker:
        assert worker.ends() == 0
    assert waited(job)["state"] == "completed"


def test_sigterm_ends_once_in_the_middle_and_gives_back(file):
    job = enqueue("patient")
    with WorkerProcess("app:sf", "--once", "--grace", "0.05") as worker:
        eventually((file / "started").exists)
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
    [left] = listed()
    assert (left["id"], left["state"], left["attempts"]) == (job, "queued", 0)


# --- hooks, as the command line shows them


def test_a_start_up_hook_that_fails_ends_the_worker_with_one_line_and_exit_code_1(file):
    (file / "no-start").touch()
    job = enqueue("greet")
    failed = standfast("worker", "app:sf")
    assert failed.returncode == 1
    [line] = [each for each in failed.stderr.decode().splitlines() if each.startswith("standfast:")]
    assert "the start-up hook begin failed: OSError: no route to the database" in line
    assert "app.py, line" in line
    assert b"Traceback" not in failed.stderr
    assert [(each["id"], each["state"]) for each in listed()] == [(job, "queued")]


def test_a_process_that_runs_suspects_ends_what_its_hooks_began_also_when_it_is_told_to_stop_while_it_starts(file):
    (file / "app.py").write_text(APP + STOPPED_AT_THE_START)
    with WorkerProcess("app:sf", "--suspects-of", str(os.getpid())) as worker:
        assert worker.ends() == 0
    assert len(pids("up")) == 1
    assert pids("up") == pids("down")


# --- several processes


@pytest.mark.long_on_postgres
@pytest.mark.usefixtures("store")
def test_several_processes_work_and_one_that_is_killed_is_started_anew(here):
    with WorkerProcess("app:sf", "--processes", "2") as worker:
        eventually(lambda: len(pids("up")) == 2)
        job = enqueue("patient")
        eventually((here / "started").exists)
        first = pids("up")
        for each in first:
            os.kill(each, signal.SIGKILL)
        worker.says("was killed by SIGKILL; another one starts in 0.5 s")
        eventually(lambda: len(pids("up")) == 4)
        (here / "go").touch()
        done = waited(job)
        assert (done["state"], done["result"] in first) == ("completed", False)
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
        assert all(map(gone, pids("up")))
    assert pids("up") - first == pids("down"), "the new ones have drained"


def test_sigint_while_draining_exits_at_once_and_a_lone_one_waits_for_the_drain(file):
    with WorkerProcess("app:sf", "--processes", "2") as worker:
        eventually(lambda: len(pids("up")) == 2)
        job = enqueue("patient")
        eventually((file / "started").exists)
        worker.signal(signal.SIGINT)
        worker.says("worker processes drain")
        (file / "go").touch()
        assert worker.ends() == 0
    assert waited(job)["state"] == "completed"
    (file / "go").unlink()
    (file / "started").unlink()
    with WorkerProcess("app:sf", "--processes", "2") as worker:
        worker.says("is ready for")
        worker.says_again("is ready for")
        enqueue("patient")
        eventually((file / "started").exists)
        worker.signal(signal.SIGTERM)
        worker.says("drains: what runs")
        worker.says_again("drains: what runs")  # of two signals that a process has not seen yet, it sees one
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 1


@pytest.mark.usefixtures("file")
def test_a_parent_that_is_killed_leaves_no_worker_behind():
    with WorkerProcess("app:sf", "--processes", "2") as worker:
        eventually(lambda: len(pids("up")) == 2)
        worker.signal(signal.SIGKILL)
        worker.ends()
        eventually(lambda: all(map(gone, pids("up"))))
    assert pids("up") == pids("down"), "they drained"


@pytest.mark.parametrize(
    ("broken", "code"), [("import nosuchlibrary\n", 2), ("sf = 4711\n", 2)], ids=["import", "no application"]
)
def test_processes_that_cannot_start_at_all_end_the_parent(here, broken, code):
    (here / "app.py").write_text(broken)
    with WorkerProcess("app:sf", "--processes", "2") as worker:
        assert worker.ends() == code


# --- recycling


@pytest.mark.usefixtures("store")
def test_a_process_is_recycled_under_load_and_nothing_is_lost_or_spends_an_attempt():
    jobs = enqueue_many(70)
    with WorkerProcess("app:sf", "--recycle-after", "25", "--concurrency", "5") as worker:
        for _ in range(2):
            worker.says("starts anew, because it has claimed")
        eventually(lambda: all(job["state"] == "completed" for job in listed()))
        worker.signal(signal.SIGTERM)
        assert worker.ends() in {0, -signal.SIGTERM}
    done = listed()
    assert {job["id"] for job in done} == set(jobs)
    assert {job["attempts"] for job in done} == {1}
    assert {job["result"] for job in done} == {worker.process.pid}, "it is the same process for whoever supervises it"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("slots", ["1", "64"])
def test_a_process_starts_anew_after_exactly_so_many_jobs_however_quick_they_are(slots):
    enqueue_many(70)
    with WorkerProcess("app:sf", "--recycle-after", "30", "--concurrency", slots) as worker:
        for _ in range(2):
            worker.says("starts anew, because it has claimed 30 jobs: it claims no more")
            worker.says("is ready")
        eventually(lambda: all(job["state"] == "completed" for job in listed()))
        worker.signal(signal.SIGTERM)
        assert worker.ends() in {0, -signal.SIGTERM}


def test_a_recycling_waits_for_what_runs_and_cuts_nothing(file):
    slow, quick = enqueue("patient"), enqueue("greet")
    with WorkerProcess("app:sf", "--recycle-after", "1", "--grace", "0.01") as worker:
        worker.says("starts anew")
        eventually((file / "started").exists)
        later = enqueue("greet")
        time.sleep(0.1)  # longer than the grace, which does not count here
        (file / "go").touch()
        worker.says("has stopped")
        worker.says("is ready")
        ends = [waited(each) for each in (slow, quick, later)]
    assert [(each["state"], each["attempts"]) for each in ends] == [("completed", 1)] * 3


def test_a_signal_that_comes_while_it_recycles_ends_it(file):
    """It is told to stop when all that it ran has ended and it is about to start anew: that must not be forgotten."""
    (file / "app.py").write_text(APP + STOPPED_AT_THE_END)
    enqueue("greet")
    with WorkerProcess("app:sf", "--recycle-after", "1") as worker:
        assert worker.ends() == 0
    assert len([line for line in worker.lines if "is ready" in line]) <= 1


@pytest.mark.usefixtures("file")
def test_a_process_is_recycled_above_so_much_memory():
    with WorkerProcess("app:sf", "--recycle-above", "250M") as worker:
        worker.says("is ready")
        enqueue("grows", str(300 << 20))
        worker.says("MiB of memory")
        worker.says("is ready")
        assert waited(enqueue("greet"))["state"] == "completed"


@pytest.mark.usefixtures("file")
def test_a_limit_of_memory_that_is_too_small_is_not_kept():
    with WorkerProcess("app:sf", "--recycle-above", "1M") as worker:
        worker.says("before its first job, more than --recycle-above: that limit is not kept")
        assert waited(enqueue("greet"))["state"] == "completed"


# --- reload


def test_reload_takes_up_a_change_and_survives_a_syntax_error(file):
    with WorkerProcess("app:sf", "--reload") as worker:
        worker.says("is ready")
        (file / "app.py").write_text(APP + "\nif True print('no')\n")
        worker.says("it starts again when a file changes")
        (file / "app.py").write_text(APP.replace("return os.getpid()", "return 'new code'", 1))
        worker.says("is ready")
        assert waited(enqueue("greet"))["result"] == "new code"
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0


def test_reload_waits_for_a_change_when_the_first_start_fails(file):
    (file / "app.py").write_text("def (")
    with WorkerProcess("app:sf", "--reload") as worker:
        worker.says("it starts again when a file changes")
        (file / "app.py").write_text(APP)
        worker.says("is ready")
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0


# --- alive


@pytest.mark.usefixtures("file")
def test_alive_tells_a_worker_that_lives_from_one_that_does_not():
    assert standfast("alive", "alive").returncode == 1
    with WorkerProcess("app:sf", "--alive", "alive") as worker:
        worker.says("is ready")
        assert standfast("alive", "alive").returncode == 0
        os.utime("alive", (time.time() - 100, time.time() - 100))
        late = standfast("alive", "alive", "--within", "1m")
        assert late.returncode in {0, 1}  # it may have been touched again meanwhile
        eventually(lambda: time.time() - Path("alive").stat().st_mtime < 5)
        worker.signal(signal.SIGSTOP)
        os.utime("alive", (time.time() - 100, time.time() - 100))
        stuck = standfast("alive", "alive")
        assert stuck.returncode == 1
        assert b"alive was last touched 100 s ago, more than 30 s: its worker hangs or has died" in stuck.stderr
        worker.signal(signal.SIGCONT)
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
    assert not Path("alive").exists()


@pytest.mark.usefixtures("file")
def test_alive_of_several_processes_is_that_of_all():
    with WorkerProcess("app:sf", "--processes", "2", "--alive", "alive") as worker:
        eventually(lambda: len(pids("up")) == 2 and Path("alive").exists())
        assert sorted(each.name for each in Path.cwd().glob("alive*")) == ["alive", "alive.1", "alive.2"]
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
    assert not list(Path.cwd().glob("alive*"))


@pytest.mark.usefixtures("file")
def test_a_file_that_cannot_be_written_is_refused_at_the_start():
    refused = standfast("worker", "app:sf", "--alive", "nowhere/alive")
    assert refused.returncode == 2
    assert b"--alive: nowhere/alive cannot be written: No such file or directory" in refused.stderr


# --- what does not go together


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--once", "--processes", "2"], "--once is for one process"),
        (["--once", "--reload"], "--once is for one process"),
        (["--once", "--recycle-after", "5"], "--once ends when nothing is due"),
        (["--processes", "many"], "'many' is not a number of processes; write 1 or more, or auto"),
        (["--processes", "0"], "'0' is not a number of processes"),
        (["--recycle-above", "much"], "'much' is not a size; write for example 512M or 2G"),
        (["--recycle-after", "0"], "0 is not in the range"),
        (["--total", "0"], "0 is not in the range"),
    ],
)
def test_what_does_not_go_together_is_refused(cli, arguments, why):
    refused = cli("worker", "app:sf", *arguments)
    assert refused.exit_code == 2
    assert why in refused.stderr
