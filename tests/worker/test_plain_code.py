"""Everything that is awaited can be called plainly: from scripts, threads, exit handlers, and while a loop runs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import msgspec
import pytest

from standfast import IdempotencyConflict, Job, JobView, Permanent, Standfast, UnknownJob

ROOT = Path(__file__).parents[2]


class Mail(msgspec.Struct):
    to: str
    urgent: bool = False


class Sent(msgspec.Struct):
    text: str


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "queue.db")
    lent: str = request.getfixturevalue("used_postgres_url")
    return lent


@pytest.fixture
def sf(url: str) -> Iterator[Standfast]:
    made = Standfast(url)
    yield made
    made.sync.close()


def look(sf: Standfast, id_: str | None) -> JobView:
    found = sf.sync.status(str(id_))
    assert found is not None
    return found


def program(name: str, url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-X", "dev", "-W", "error", "-m", "tests.worker.plain_program", name, url]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def said(running: subprocess.Popen[str], seconds: float) -> tuple[str, str]:
    """Wait for a program's end; one that hangs is killed, or leaving its `with` block would wait for it for good."""
    try:
        return running.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        running.kill()
        raise


def ended(name: str, url: str) -> list[str]:
    with program(name, url) as running:
        out, err = said(running, 50)
    assert (running.returncode, err) == (0, "")
    return out.splitlines()


def test_a_job_lives_its_life_in_plain_code(sf: Standfast):
    @sf.handler("mail")
    def send(job: Job[Mail]) -> str:
        return job.input.to

    receipt = sf.sync.enqueue("mail", {"to": "ann"}, idempotency_key="k")
    assert look(sf, receipt.id).state == "queued"
    assert sf.sync.enqueue("mail", {"to": "ann"}, idempotency_key="k").outcome == "duplicate"
    sf.sync.queues.pause("mail")
    assert sf.sync.queues.describe()["mail"]["paused"]
    sf.sync.queues.resume("mail")
    with sf.sync.worker() as worker:
        assert sf.sync.wait(receipt.id, 20).result == "ann"
        worker.drain()
    assert sf.sync.result(receipt.id) == "ann"
    assert [job.id for job in sf.sync.jobs(queue="mail")] == [receipt.id]
    assert [each.outcome for each in send.sync.enqueue_many([Mail("bob"), Mail("eve")])] == ["accepted"] * 2


def test_letters_schedules_workflows_and_approvals_are_plain_calls_too(sf: Standfast):
    failing = [True]

    @sf.handler("mail")
    async def send(_job: Job) -> str:
        if failing:
            raise Permanent("no")
        return "sent"

    receipt = sf.sync.enqueue("mail")
    with sf.sync.worker():
        assert sf.sync.wait(receipt.id, 20).state == "dead"
        failing.clear()
        [letter] = sf.sync.dead_letters.list()
        plan = sf.sync.dead_letters.plan()
        redrive = sf.sync.dead_letters.redrive(plan["token"], by="ann")
        assert redrive.progress()["id"] == redrive.id
        assert next(sf.sync.subscribe(["completed"], after=0)).job == letter.id
        assert sf.sync.result(letter.id) == "sent"
    assert sf.sync.schedules.add("nightly", "mail", every="1h")["name"] == "nightly"
    assert [each["name"] for each in sf.sync.schedules.list()] == ["nightly"]
    assert list(sf.sync.approvals.list()) == []
    flow = sf.sync.workflow("order")
    flow.step("mail", "mail", after=[flow.step("pay", "mail")])
    assert set(sf.sync.workflows.get(flow.start())["steps"]) == {"pay", "mail"}


def test_an_async_handler_is_called_from_plain_code_and_its_result_is_typed(sf: Standfast):
    @sf.handler("mail")
    async def send(job: Job[Mail]) -> Sent:
        await asyncio.sleep(0)
        return Sent(job.input.to * 60_000)

    reply = send.sync.run(Mail("an"))
    assert reply["status"] == "ok"
    assert reply["result"] == Sent("an" * 60_000)  # whole, although a Reply is cut at 100 000 characters
    assert sf.sync.run("mail", {"to": "b"})["result"] == {"text": "b" * 60_000}  # by name it is JSON


def test_a_result_that_is_not_of_its_type_is_left_out_and_said(sf: Standfast):
    @sf.handler("mail")
    async def send(_job: Job) -> Sent:
        return cast("Sent", {"words": 7})

    reply = send.sync.run()
    assert reply["status"] == "ok"
    assert "result" not in reply
    assert "missing required field `text`" in reply["warning"]
    assert sf.sync.result(reply["operation_id"]) == {"words": 7}


def test_many_threads_call_at_once(sf: Standfast):
    def work(number: int) -> str:
        receipt = sf.sync.enqueue("mail", number)
        return look(sf, receipt.id).state

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(40))) == ["queued"] * 40
    assert sf.sync.stats()["total_pending"] == 40


def test_a_running_loop_is_no_obstacle(sf: Standfast):
    @sf.handler("mail")
    async def send(_job: Job) -> str:
        inner = sf.sync.enqueue("other")  # in the loop that plain calls run in
        return look(sf, inner.id).state

    async def notebook() -> None:
        receipt = sf.sync.enqueue("mail", 1)
        awaited = await sf.status(receipt.id)
        assert awaited is not None
        assert look(sf, receipt.id).state == awaited.state == "queued"
        assert sf.sync.run("mail")["result"] == "queued"
        assert (await sf.run("mail"))["result"] == "queued"

    asyncio.run(notebook())


def test_what_happens_is_a_plain_iterator(sf: Standfast):
    sf.sync.enqueue_many("mail", [1, 2, 3])
    seen = []
    for notice in sf.sync.subscribe(["enqueued"], after=0):
        seen.append(notice.kind)
        if len(seen) == 3:
            break
    assert seen == ["enqueued"] * 3


def test_an_error_is_the_same_and_points_at_the_line_that_called(sf: Standfast):
    sf.sync.enqueue("mail", 1, idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        sf.sync.enqueue("mail", 2, idempotency_key="k")
    with pytest.raises(UnknownJob) as caught:
        sf.sync.explain("nobody")
    lines = [frame.line for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert lines[0] == 'sf.sync.explain("nobody")'
    with pytest.raises(TimeoutError, match="is still queued"):
        sf.sync.wait(sf.sync.enqueue("nobody").id, 0.01)


def test_a_call_belongs_to_the_session_of_who_calls(sf: Standfast):
    @sf.handler("outer")
    def outer(_job: Job) -> str:
        return str(sf.sync.submit("inner")["operation_id"])

    @sf.handler("inner")
    def inner(_job: Job) -> None: ...

    found = sf.sync.run(outer, session="s-1")["result"]
    assert look(sf, found).session == "s-1"


def test_help_is_that_of_the_verb(sf: Standfast):
    assert sf.sync.enqueue.__doc__ == Standfast.enqueue.__doc__
    assert {"dead_letters", "enqueue", "wait"} <= set(dir(sf.sync))
    with pytest.raises(AttributeError):
        sf.sync.enqeue  # type: ignore[attr-defined]  # noqa: B018


def test_control_c_ends_a_wait(url):
    with program("waiting", url) as running:
        _out, err = said(running, 30)
    assert "KeyboardInterrupt" in err
    assert "sf.sync.wait(receipt.id, 60)" in err
    assert running.returncode in (1, -signal.SIGINT, 130)


def test_a_forked_child_makes_calls_of_its_own(url):
    assert ended("forking", url) == ["sent to parent", "sent to child", "sent to parent again"]


def test_calls_are_made_until_the_interpreter_has_ended(url):
    assert sorted(ended("leaving", url)) == ["queued first", "queued last", "queued thread"]


def test_a_script_runs_a_worker(url):
    assert ended("serving", url) == ["sent to ann"]
