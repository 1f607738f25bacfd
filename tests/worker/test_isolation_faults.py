"""What goes wrong between a worker and the children of `isolate=True`: no job runs twice at once, none is lost."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from standfast import Permanent, Snooze, Standfast
from standfast.wings.isolation.child_process import StartFailed
from tests.waiting import ended, job_of, seen
from tests.worker.unruly_app import EXITS, LOGS, REPORTS, WORSE_THAN_NONE, is_running, quits, register

pytestmark = pytest.mark.long_on_postgres  # the child process neither opens nor asks a store


@pytest.fixture
def unruly(disk: Standfast) -> Standfast:
    register(disk)
    return disk


@pytest.mark.parametrize("how", WORSE_THAN_NONE)
async def test_a_child_that_cannot_be_followed_is_over_before_its_attempt_is(unruly, tmp_path, how):
    said = tmp_path / "pids"
    async with unruly.worker():
        job = await ended(unruly, (await unruly.enqueue("spoils", {"said": str(said), "how": how})).id)
    lines = [line.split() for line in said.read_text().splitlines()]
    assert [others for _, others in lines] == ["0", "0"]
    assert not any(is_running(int(pid)) for pid, _ in lines)
    assert (job.state, [(line.reason_code, line.landed) for line in job.history]) == (
        "dead",
        [("process_died", "maybe")] * 2,
    )


async def test_a_child_that_was_spoiled_after_its_job_is_replaced_by_another(unruly, tmp_path):
    async with unruly.worker():
        first = await ended(unruly, (await unruly.enqueue("spoils_later", str(tmp_path / "one"))).id)
        (tmp_path / "one.told").touch()
        await seen((tmp_path / "one.done").exists)
        second = await ended(unruly, (await unruly.enqueue("spoils_later", str(tmp_path / "two"))).id)
    assert (second.state, second.attempts, second.deferrals) == ("completed", 1, 0)
    assert second.result != first.result
    assert not is_running(first.result)


async def test_a_job_whose_process_cannot_start_is_deferred_ever_longer_and_says_why(unruly, monkeypatch):
    """The first attempt ends its child; no other can start, because the application exits when it is imported."""
    async with unruly.worker():
        monkeypatch.setenv(EXITS, "1")
        job_id = (await unruly.enqueue("quits")).id

        async def deferred():
            job = await job_of(unruly, job_id)
            return job if job.deferrals >= 2 and job.state == "queued" else None

        job = await seen(deferred)
        said = await unruly.explain(job_id)
        issue = "quits/quits: no process can be started for it, so its jobs are deferred: " + WHY
        await seen(lambda: is_issue(unruly, issue))
        monkeypatch.delenv(EXITS)
        done = await ended(unruly, job_id)
    assert [line.reason_code for line in job.history] == ["process_died", *["process_not_started"] * 2]
    assert [(line.begun, line.message) for line in job.history[1:]] == [(False, WHY)] * 2
    first, second = (line.delay for line in job.history[1:])
    assert 0.5 <= first <= 1 <= second <= 2
    assert re.fullmatch(rf"No process could be started for it \({WHY}\); the next try is in .*", said)
    assert (done.state, done.attempts, done.result) == ("completed", 2, "done")


WHY = "its process ended with exit code 7"


async def is_issue(sf, issue):
    return issue in (await sf.health())["issues"]


async def test_jobs_that_get_no_process_at_the_same_time_count_as_one_failure(unruly, monkeypatch):
    handler = unruly.handler("quits2", isolate=True)(quits)
    monkeypatch.setenv(EXITS, "1")
    for times in (1, 2):
        tries = [handler.children.lend(handler.place) for _ in range(3)]
        failed = await asyncio.gather(*tries, return_exceptions=True)
        assert [each.times for each in failed if isinstance(each, StartFailed)] == [times] * 3


def children():
    """Give the processes that this one started for isolated handlers and that still run."""
    found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal() and is_child(path)]
    return [pid for pid in found if is_running(pid)]


def is_child(path):
    with suppress(OSError):
        parent = path.joinpath("stat").read_text().rpartition(")")[2].split()[1]
        return int(parent) == os.getpid() and b"isolation.child_main" in path.joinpath("cmdline").read_bytes()
    return False


async def test_middleware_that_does_not_call_the_handler_leaves_its_process_to_the_next_job(unruly):
    before = children()
    left = []

    @unruly.middleware
    async def around(job, call_next):
        match job.payload:
            case "skip":
                left.append(call_next)
                return {"skipped": True}
            case "raise":
                raise Permanent("not this one")
            case "snooze" if not left:
                return Snooze(60)
            case "wait":
                await asyncio.sleep(60)
        return await call_next()

    async with unruly.worker(concurrency=1):
        snoozed = (await unruly.enqueue("brief", "snooze")).id
        await seen(lambda: was_deferred(unruly, snoozed))
        states = [
            (await ended(unruly, (await unruly.enqueue("brief", what)).id)).state
            for what in ("run", "skip", "raise", "wait", "run")
        ]
        started = [pid for pid in children() if pid not in before]
    assert states == ["completed", "completed", "dead", "dead", "completed"]
    assert len(started) == 1
    with pytest.raises(RuntimeError, match=r"the attempt of job .* has ended"):
        await left[0]()


async def was_deferred(sf, job_id):
    return (await job_of(sf, job_id)).deferrals


@pytest.mark.parametrize("what", REPORTS)
async def test_progress_is_checked_and_kept_as_it_is_without_isolation(unruly, what):
    async with unruly.worker():
        in_child = await ended(unruly, (await unruly.enqueue("reports", what)).id)
        in_thread = await ended(unruly, (await unruly.enqueue("reports_in_thread", what)).id)
    assert (in_child.state, in_child.attempts, in_child.result) == ("completed", 1, in_thread.result)
    assert shown(in_child) == shown(in_thread)


def shown(job):
    """Give what is shown of a job's progress, without when."""
    return job.progress and {name: value for name, value in job.progress.items() if name != "at"}


LOGGED = {
    "half a character": r"read \udc80",
    "no function": "nowhere",
    "a name that is no text": "seventh",
    "a level of another library": "level 30",
}


@pytest.mark.parametrize("what", LOGS)
async def test_a_wrong_call_of_logging_does_not_end_the_attempt(unruly, caplog, what):
    async with unruly.worker():
        job = await ended(unruly, (await unruly.enqueue("logs", what)).id)
    assert (job.state, job.result, job.history) == ("completed", "done", [])
    assert LOGGED.get(what) is None or LOGGED[what] in caplog.messages


async def test_a_line_that_the_worker_cannot_log_does_not_end_the_attempt(unruly, caplog, capsys):
    def refuse(record):
        if record.name == "tests.unruly":
            raise ValueError("a bug of the application's filter")
        return True

    caplog.handler.addFilter(refuse)
    async with unruly.worker():
        job = await ended(unruly, (await unruly.enqueue("logs", "no function")).id)
    caplog.handler.removeFilter(refuse)
    assert (job.state, job.result, job.history) == ("completed", "done", [])
    assert "a bug of the application's filter" in capsys.readouterr().err


@pytest.mark.parametrize("queue", ["ends_oddly", "ends_oddly_in_thread"])
async def test_an_outcome_with_values_of_another_library_is_written(unruly, queue):
    async with unruly.worker():
        cancelled = await ended(unruly, (await unruly.enqueue(queue, "a cancel")).id)
        snoozed = (await unruly.enqueue(queue, "a snooze")).id
        await seen(lambda: was_deferred(unruly, snoozed))
        await unruly.cancel(snoozed)
    assert (cancelled.state, cancelled.warning) == ("cancelled", "not \ufffd wanted")
