"""Jobs of a worker that died, where they cannot be run alone at once: others go on, and they have their turn."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from standfast.worker import suspects as suspects_module
from standfast.worker import worker as worker_module
from tests.waiting import ended, job_of, reached, seen
from tests.worker.outage import refusing
from tests.worker.processes import ROOT, children
from tests.worker.test_deaths import RULES, hanging


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setattr(worker_module, "DEATHS_EVERY", 0.05)
    monkeypatch.setattr(suspects_module, "FIRST_TURN", 0.05)
    monkeypatch.setattr(suspects_module, "LONGEST_TURN", 0.05)
    monkeypatch.setattr(suspects_module, "PAUSES", (0.01,))
    monkeypatch.setattr(suspects_module, "LOOK_AGAIN", 0.05)


async def test_a_job_that_does_not_end_keeps_no_others_waiting_while_suspects_wait_for_it(disk, url, log):
    """The worker would hold nothing else, and cannot: it claims again, and tries later."""
    go, running = asyncio.Event(), asyncio.Event()

    @disk.handler("mail")
    async def mail(job):
        if job.payload.get("waits"):
            running.set()
            await go.wait()

    with children(url, log, rules=RULES) as [child]:
        suspects = await hanging(disk, log, 2)
        disk.queue("mail", lease=600)
        await disk.queues.pause("mail")
        async with disk.worker():
            child.kill()
            for job_id in suspects:
                await reached(disk, job_id, "queued")
            long = (await disk.enqueue("mail", {"waits": True})).id
            await disk.queues.resume("mail")
            await seen(running.is_set)
            for _ in range(20):
                assert (await ended(disk, (await disk.enqueue("mail", {})).id)).state == "completed"
            assert [(await job_of(disk, job_id)).state.value for job_id in suspects] == ["queued", "queued"]
            go.set()
            jobs = [await ended(disk, job_id) for job_id in (long, *suspects)]
    assert {(job.state.value, job.attempts) for job in jobs} == {("completed", 1)}


@pytest.mark.parametrize(
    "program",
    ["raise SystemExit(1)", "raise SystemExit(0)", "import time; time.sleep(600)"],
    ids=["fails", "finds nothing to run", "is never ready"],
)
async def test_a_worker_runs_suspects_itself_if_no_process_of_their_own_does(disk, url, log, monkeypatch, program):
    """An application may bind a port or take a lock when it is loaded: a second process of it never begins."""
    monkeypatch.setattr(suspects_module, "LONGEST_START", 0.1)
    with children(url, log, rules=RULES) as [child]:
        suspects = await hanging(disk, log, 2)
        disk.queue("mail", lease=600)
        disk.handler("mail")(lambda _job: "done")
        async with disk.worker(suspects=[sys.executable, "-S", "-c", program]):
            child.kill()
            jobs = [await ended(disk, job_id) for job_id in suspects]
    assert {(job.state.value, job.attempts, job.result) for job in jobs} == {("completed", 1, "done")}


async def test_a_worker_runs_suspects_itself_if_no_process_can_be_started(disk, url, log, tmp_path, caplog):
    """A deployment may replace the interpreter, and a host may be out of processes. Nothing else comes by meanwhile."""
    with children(url, log, rules=RULES) as [child]:
        suspects = await hanging(disk, log, 2)
        disk.queue("mail", lease=600)
        disk.handler("mail")(lambda _job: "done")
        async with disk.worker(suspects=[str(tmp_path / "replaced"), "worker"]):
            child.kill()
            jobs = [await ended(disk, job_id) for job_id in suspects]
    assert {(job.state.value, job.attempts, job.result) for job in jobs} == {("completed", 1, "done")}
    failed = "the process that runs jobs alone could not be started: [Errno 2] No such file or directory"
    assert caplog.text.count(failed) >= suspects_module.TRIES - 1
    said = "Could not start a separate process for 2 jobs whose worker died; this worker now runs them one at a time"
    assert caplog.text.count(said) == 1, "not again for each job"


PROCESS = "import os, sys; os.write(int(sys.argv[-1]), {words!r}); open({seen!r}, 'a').write('.')"


async def test_a_process_that_only_waited_for_a_place_is_no_broken_one(disk, url, log, caplog):
    """It could claim, and something else held the jobs back: the worker goes on with its other jobs."""
    seen_by = log.path.with_name("looked")
    program = PROCESS.format(words=b"r", seen=str(seen_by))
    with children(url, log, rules=RULES) as [child]:
        suspects = await hanging(disk, log, 2)
        disk.queue("mail", lease=600)
        disk.handler("mail")(lambda _job: "done")
        async with disk.worker(suspects=[sys.executable, "-S", "-c", program]):
            child.kill()
            await seen(lambda: seen_by.exists() and len(seen_by.read_text()) > 2 * suspects_module.TRIES)
            assert (await ended(disk, (await disk.enqueue("mail", {})).id)).state == "completed"
            assert {(await job_of(disk, job_id)).state.value for job_id in suspects} == {"queued"}
    assert "this worker now runs them" not in caplog.text


async def test_a_process_that_sees_no_suspects_where_there_are_some_cannot_run_them(disk, url, log, caplog):
    """Its application registers no handler for them: the worker has one."""
    program = PROCESS.format(words=b"rn", seen=str(log.path.with_name("looked")))
    with children(url, log, rules=RULES) as [child]:
        suspects = await hanging(disk, log, 2)
        disk.queue("mail", lease=600)
        disk.handler("mail")(lambda _job: "done")
        async with disk.worker(suspects=[sys.executable, "-S", "-c", program]):
            child.kill()
            jobs = [await ended(disk, job_id) for job_id in suspects]
    assert {(job.state.value, job.attempts, job.result) for job in jobs} == {("completed", 1, "done")}
    assert caplog.text.count("this worker now runs them") == 1


async def test_a_process_that_can_be_started_again_runs_the_suspects_that_waited_for_it(
    disk, url, log, caplog, monkeypatch
):
    monkeypatch.setattr(suspects_module, "TRIES", 1_000_000)
    program = log.path.with_name("deployed")
    with children(url, log, rules=RULES) as [child]:
        suspects = await hanging(disk, log, 2)
        disk.queue("mail", lease=600)
        disk.handler("mail")(lambda _job: "here")
        async with disk.worker(suspects=[str(program)]):
            child.kill()
            await seen(lambda: caplog.text.count("could not be started") > 1)
            deploy(program, url)
            jobs = [await ended(disk, job_id) for job_id in suspects]
    assert {(job.state.value, job.attempts, job.result) for job in jobs} == {("completed", 1, "in the process")}


def deploy(program: Path, url: str) -> None:
    """Make a program that runs suspects, all at once: no half of it is ever started."""
    source = (
        f"#!{sys.executable}\n"
        "import os, sys\n"
        f"sys.path[:0] = {[str(ROOT / 'src'), str(ROOT)]!r}\n"
        "from standfast import Standfast\n"
        f"sf = Standfast({url!r})\n"
        "sf.queue('mail', lease=600)\n"
        "sf.handler('mail')(lambda job: 'in the process')\n"
        "sf.run_suspects(parent=os.getppid(), tell=int(sys.argv[-1]))\n"
    )
    prepared = program.with_name("prepared")
    prepared.write_text(source)
    prepared.chmod(0o700)
    prepared.rename(program)


async def test_a_worker_that_could_not_ask_for_its_turn_runs_the_suspects_later(disk, url, log, caplog, monkeypatch):
    """The store refuses that one question; nothing else comes by that would have the worker look again."""
    monkeypatch.setattr(worker_module, "POLL_EVERY", 3600.0)
    with children(url, log, rules=RULES) as [child]:
        suspects = await hanging(disk, log, 2)
        disk.queue("mail", lease=600)
        disk.handler("mail")(lambda _job: "done")
        async with disk.worker():
            with refusing(url, "UPDATE OF apart ON worker", "NEW.apart IS NOT NULL"):
                child.kill()
                await seen(lambda: "the suspects failed (6 times so far)" in caplog.text)
                before = {(await job_of(disk, job_id)).state.value for job_id in suspects}
            jobs = [await ended(disk, job_id) for job_id in suspects]
    assert before == {"queued"}
    assert {(job.state.value, job.attempts, job.result) for job in jobs} == {("completed", 1, "done")}


@pytest.mark.parametrize("ends", ["completed", "cancelled"])
async def test_a_session_hears_that_a_run_was_cut_off_when_its_worker_died(disk, url, log, ends):
    """No attempt was spent, and yet the handler was entered before: done at once is not what happened."""
    with children(url, log, rules=RULES) as [child]:
        job_id = (await disk.enqueue("mail", {"name": "s", "do": "hang"}, session="s1")).id
        await seen(log.lines)
        await hanging(disk, log, 1)
        async with disk.worker(queues=["other"]):
            child.kill()
            await reached(disk, job_id, "queued")
        disk.queue("mail", lease=600)
        disk.handler("mail")(lambda _job: None)
        if ends == "cancelled":
            await disk.cancel(job_id)
        async with disk.worker():
            assert (await ended(disk, job_id)).state == ends
    [message] = await disk.inbox.list("s1")
    said = "mail/mail is done, after a run that was cut off and did not count."
    expected = {"completed": ("retry_success", said), "cancelled": ("retry_exhausted", message["message"])}
    assert (message["kind"], message["message"]) == expected[ends]
