"""`isolate=True`: a plain handler in a child process, killed with all it started at its timeout or cancel."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from standfast import ConfigurationError, Job, Standfast
from standfast.failure.classify import RaisedElsewhere, of_exception
from standfast.wings.isolation.raised_exception import pickled, rebuilt
from tests.waiting import ended, failure_of, job_of, seen
from tests.worker.isolated_app import Declined, register

pytestmark = pytest.mark.long_on_postgres  # the child process neither opens nor asks a store


@pytest.fixture
def isolated(disk: Standfast) -> Standfast:
    register(disk)
    return disk


def gone(pid: int) -> bool:
    """Tell whether a process is over; one that nothing has reaped yet is."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def started(line: list[str], url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(line, env={**os.environ, "STANDFAST_URL": url, "PYTHONPATH": str(Path.cwd())})


async def test_a_function_that_loops_for_ever_is_killed_at_its_timeout_with_all_it_started(isolated, tmp_path):
    said = tmp_path / "pids"
    async with isolated.worker():
        job = await ended(isolated, (await isolated.enqueue("loop", str(said))).id)
        after = await ended(isolated, (await isolated.enqueue("ends")).id)
    assert (job.state, failure_of(job).reason_code, failure_of(job).cause) == ("dead", "max_attempts", "timeout")
    assert [(line.reason_code, line.landed) for line in job.history] == [("timeout", "maybe")] * 2
    processes = [int(pid) for line in said.read_text().splitlines() for pid in line.split()]
    assert len(processes) == 4
    await seen(lambda: all(map(gone, processes)))
    assert after.state == "completed"


async def test_a_function_killed_at_its_timeout_shows_no_traceback_of_standfasts_own_lines(isolated, tmp_path):
    async with isolated.worker():
        job = await ended(isolated, (await isolated.enqueue("loop", str(tmp_path / "pids"))).id)
    assert (failure_of(job).cause, failure_of(job).traceback) == ("timeout", None)


async def test_what_a_function_returns_and_raises_is_judged_as_in_a_thread(isolated, caplog):
    async with isolated.worker():
        ways = ("later", "value", "exit", "cancel", "soft")
        given = {what: (await isolated.enqueue("ends", what)).id for what in ways}
        jobs = {what: await ended(isolated, job_id) for what, job_id in given.items()}
        fine = await ended(isolated, (await isolated.enqueue("ends", session="s")).id)
    later = jobs["later"].history[0]
    assert (later.cls, later.landed, later.reason_code) == ("transient", "no", "dependency_unavailable")
    assert (later.error_kind, later.delay) == ("Busy", 0.01)
    assert "isolated_app.py" in (later.message or "")
    value = jobs["value"].history[0]
    assert (value.cls, value.landed, value.error_kind) == ("unknown", "maybe", "ValueError")
    assert jobs["exit"].history[0].error_kind == "SystemExit"
    assert jobs["soft"].history[0].message == "it says so"
    assert jobs["cancel"].state == "cancelled"
    assert (fine.state, fine.result["session"], fine.attempts) == ("completed", "s", 1)
    assert f"job {fine.id} is entered" in caplog.messages


async def test_the_progress_of_an_isolated_function_is_seen(isolated):
    async with isolated.worker():
        job = await ended(isolated, (await isolated.enqueue("ends", "halfway")).id)
    assert job.progress is not None
    assert (job.progress["fraction"], job.progress["note"]) == (0.5, "halfway")


async def raised_by(sf: Standfast, ways: list[str]) -> dict[str, BaseException | None]:
    """Have `ends` fail in each way; give the exceptions that a hook was called with."""
    heard: dict[str, BaseException | None] = {}

    @sf.on_failure
    def hook(job: Job, failure: object, exception: BaseException | None) -> None:  # noqa: ARG001 - what hooks get
        heard[job.payload] = exception

    async with sf.worker():
        for what in ways:
            await ended(sf, (await sf.enqueue("ends", what)).id)
        await seen(lambda: len(heard) == len(ways))
    return heard


async def test_a_hook_gets_the_exception_of_the_child_with_its_traceback_as_its_cause(isolated):
    heard = await raised_by(isolated, ["value", "declined"])
    declined = heard["declined"]
    assert isinstance(heard["value"], ValueError)
    assert isinstance(declined, Declined)
    assert (declined.args, declined.code) == (("no money", 51), 51)
    assert 'raise Declined("no money", 51)' in str(declined.__cause__)


async def test_a_hook_gets_a_stand_in_for_an_exception_that_cannot_be_rebuilt(isolated):
    heard = await raised_by(isolated, ["unpicklable", "exit"])
    assert [type(each) for each in heard.values()] == [RaisedElsewhere] * 2
    assert str(heard["unpicklable"]).startswith("Unpicklable: no line (at isolated_app.py")


def test_an_exception_is_rebuilt_only_from_modules_that_are_imported(monkeypatch):
    failed, sent = of_exception(Declined("no", 1)), pickled(Declined("no", 1))
    assert isinstance(rebuilt(sent, failed, "trace"), Declined)
    monkeypatch.delitem(sys.modules, Declined.__module__)
    assert isinstance(rebuilt(sent, failed, "trace"), RaisedElsewhere)
    assert isinstance(rebuilt(pickle.dumps(print), failed, "trace"), RaisedElsewhere)


async def test_the_traceback_of_an_isolated_function_begins_at_its_own_lines(isolated):
    async with isolated.worker():
        job = await ended(isolated, (await isolated.enqueue("ends", "value")).id)
    lines = (failure_of(job).traceback or "").splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith("in ends")
    assert (len(lines), lines[-1]) == (4, "ValueError: no such thing")


@pytest.mark.parametrize(("how", "kind"), [("exit", "exit_3"), ("segfault", "SIGSEGV")])
async def test_a_crash_is_a_failed_attempt_of_that_job_only(isolated, tmp_path, how, kind):
    mark = tmp_path / "entered"
    async with isolated.worker():
        beside = (await isolated.enqueue("polls", str(mark))).id
        await seen(mark.exists)
        job = await ended(isolated, (await isolated.enqueue("dies", how)).id)
        assert (await job_of(isolated, beside)).state == "running"
        await isolated.cancel(beside)
        await ended(isolated, beside)
    assert (job.state, job.attempts) == ("dead", 2)
    assert [(line.reason_code, line.landed, line.error_kind) for line in job.history] == [
        ("process_died", "maybe", kind)
    ] * 2


async def test_a_cancelled_function_that_looks_puts_its_things_away_and_one_that_does_not_is_killed(isolated, tmp_path):
    mark, said = tmp_path / "entered", tmp_path / "pids"
    async with isolated.worker():
        looks = (await isolated.enqueue("polls", str(mark))).id
        await seen(mark.exists)
        await isolated.cancel(looks)
        assert (await ended(isolated, looks)).result == "put away"
        looping = (await isolated.enqueue("spins", str(said))).id
        await seen(said.exists)
        await isolated.cancel(looping)
        assert (await ended(isolated, looping)).state == "cancelled"
    await seen(lambda: all(gone(int(pid)) for pid in said.read_text().split()))


async def test_the_ledger_is_kept_across_the_death_of_the_process(isolated):
    """What was done by the first attempt is not done again by the second."""
    async with isolated.worker():
        job = await ended(isolated, (await isolated.enqueue("ticket")).id)
    assert (job.state, job.result) == ("completed", {"ticket": {"by": 1}, "step": 1})
    assert [(line.reason_code, line.landed) for line in job.history] == [("process_died", "no")]
    assert {each["name"]: each["receipt"] for each in job.effects} == {"ticket": {"by": 1}, "step": 1}


async def test_a_child_that_did_its_job_does_the_next(isolated):
    async with isolated.worker():
        pids = [(await ended(isolated, (await isolated.enqueue("ends")).id)).result["pid"] for _ in range(3)]
    assert len(set(pids)) == 1
    assert pids[0] != os.getpid()
    await isolated.close()
    assert gone(pids[0])


async def test_what_the_application_logs_while_it_is_imported_is_logged_here(isolated, caplog):
    async with isolated.worker():
        assert (await ended(isolated, (await isolated.enqueue("ends")).id)).state == "completed"
    assert "the application is imported" in caplog.messages


async def test_a_thread_that_a_function_left_behind_does_not_spoil_the_next_job(isolated):
    async with isolated.worker(concurrency=1):
        first = await ended(isolated, (await isolated.enqueue("talks")).id)
        second = await ended(isolated, (await isolated.enqueue("talks")).id)
    assert (second.state, second.attempts, second.result) == ("completed", 1, first.result)


async def test_a_handler_that_no_other_process_can_import_stops_the_worker_at_its_start(disk):
    @disk.handler("local", isolate=True)
    def local(_job):
        pass

    with pytest.raises(ConfigurationError, match=r"handler local .* isolate=True.* cannot import it"):
        async with disk.worker():
            pass


async def test_an_async_function_is_not_isolated(disk):
    with pytest.raises(ConfigurationError, match="isolate=True is for plain functions"):

        @disk.handler("mail", isolate=True)
        async def mail(_job):
            pass


async def test_run_isolates_too_and_a_direct_call_does_not(isolated):
    reply = await isolated.run("ends", {})
    assert reply["status"] == "ok"
    assert reply["result"]["pid"] != os.getpid()
    handler = isolated.handler("here", isolate=True)(os.path.basename)
    assert handler("a/b") == "b"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_worker_that_ends_takes_its_children_along(disk, url, tmp_path, number):
    """Killed, too: nothing runs beside the job's next attempt."""
    said = tmp_path / "pids"
    job_id = (await disk.enqueue("spins", str(said))).id
    line = [sys.executable, "-m", "standfast", "worker", "tests.worker.isolated_app:sf", "--grace", "0"]
    worker = started(line, url)
    try:
        await seen(lambda: said.exists() and said.read_text().endswith("\n"))
        pids = [int(pid) for pid in said.read_text().split()]
        worker.send_signal(number)
        await seen(lambda: all(map(gone, pids)))
    finally:
        worker.kill()
        worker.wait()
    assert (await job_of(disk, job_id)).state in {"running", "queued"}
