"""Tracebacks of failed attempts: kept, shown, redacted, and gone with their job; and hooks that hear of failures."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.transport import Transport

from standfast import ConfigurationError, Permanent, Standfast, Transient, fixed, no_backoff
from standfast.application.wings import store_at
from standfast.cli.logs import TextLines
from standfast.failure.traceback_text import LEFT_OUT, LONGEST, traceback_of
from standfast.testing import drain
from standfast.wings.backup.verbs import restore
from standfast.wings.promote.verbs import promote
from standfast.worker import upkeep
from standfast.worker.failure_calls import MOST_WAITING, FailureCalls
from standfast.worker.upkeep import PruneRequest
from tests.waiting import ended, failure_of, job_of, reached, seen
from tests.worker.inside import store_of
from tests.worker.processes import children

PAGE = Path(__file__).parents[2] / "docs/failures.md"
RULES: dict[str, Any] = {"mail": {"lease": 600, "wait": 0.01}}


def charge(card: str) -> None:
    raise ValueError(f"no such card: {card}, password=hunter22")


async def raising(job: Any) -> None:
    charge(job.payload)


def traceback(job: Any) -> Any:
    return failure_of(job).traceback


async def died(sf: Any, handler: Any = raising, **rules: Any) -> Any:
    """Have one job of `mail` fail as often as it may, and look at it."""
    sf.queue("mail", **{"attempts": 1, "backoff": no_backoff(), **rules})
    sf.handler("mail")(handler)
    receipt = await sf.enqueue("mail", "4711")
    await drain(sf)
    return await job_of(sf, receipt.id)


# --- what is kept


@pytest.mark.parametrize("handler", [raising, lambda job: charge(job.payload)], ids=["async", "plain"])
async def test_a_dead_letter_shows_where_its_handler_raised(sf, handler):
    job = await died(sf, handler)
    found = traceback(job)
    assert found.startswith("Traceback (most recent call last):\n")
    assert found.endswith("ValueError: no such card: 4711, password=***")
    assert f'File "{__file__}"' in found
    assert "in charge" in found
    assert "hunter22" not in found
    assert "spine/run.py" not in found
    assert [traceback(each) for each in await sf.dead_letters.list()] == [found]
    assert traceback(await sf.dead_letters.get(job.id)) == found


async def test_a_job_that_is_tried_again_shows_the_traceback_of_its_last_attempt(sf):
    async def handle(job):
        raise Transient(f"try {job.attempt}")

    job = await died(sf, handle, attempts=5, backoff=fixed(60))
    assert (job.view, traceback(job).splitlines()[-1]) == ("retry_pending", "standfast.errors.Transient: try 1")
    sf.clock.advance(60)
    await drain(sf)
    assert traceback(await job_of(sf, job.id)).splitlines()[-1] == "standfast.errors.Transient: try 2"


async def test_a_failure_that_was_returned_has_no_traceback_and_takes_the_old_one_away(sf):
    ends = [ValueError("first"), {"success": False, "error": "second"}]

    async def handle(_job):
        end = ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    job = await died(sf, handle, attempts=2)
    assert (failure_of(job).message, traceback(job)) == ("second", None)
    assert str(failure_of(job).without_traceback).startswith("none: the attempt raised no exception")
    assert await store_of(sf).read(_kept()) == []


async def test_an_attempt_that_was_killed_has_no_traceback_and_says_so(disk, url, log):
    with children(url, log, rules=RULES) as [child]:
        receipt = await disk.enqueue("mail", {"name": "n", "do": "hang"})
        await seen(log.lines)
        async with disk.worker():
            child.send_signal(signal.SIGKILL)
            await reached(disk, receipt.id, "queued")
            job = await job_of(disk, receipt.id)
    assert (failure_of(job).reason_code, traceback(job)) == ("worker_lost", None)
    assert failure_of(job).without_traceback == "none: the worker was lost, so no exception reached standfast"


async def test_a_timeout_shows_where_the_handler_waited(disk):
    disk.queue("mail", attempts=1)

    @disk.handler("mail", timeout=0.05)
    async def handle(_job):
        await asyncio.Event().wait()

    async with disk.worker():
        job = await ended(disk, (await disk.enqueue("mail")).id)
    assert failure_of(job).cause == "timeout"
    assert "await asyncio.Event().wait()" in traceback(job)


async def test_a_letter_keeps_its_traceback_until_it_is_discarded_and_pruned(sf):
    job = await died(sf)
    found = traceback(job)
    await sf.dead_letters.quarantine(job.id, by="ann", reason="odd")
    assert traceback(await job_of(sf, job.id)) == found
    await sf.dead_letters.replay(job.id, by="ann")
    assert traceback(await job_of(sf, job.id)) == found
    await drain(sf)
    await sf.dead_letters.discard(job.id, by="ann", reason="enough")
    sf.clock.advance(100 * 86400)
    await store_of(sf).write(upkeep.prune, PruneRequest())
    assert await sf.status(job.id) is None
    assert await store_of(sf).read(_kept()) == []


def _kept() -> Any:
    return (yield "tracebacks_of", {"numbers": "[1,2,3,4,5,6,7,8,9]"})


async def test_a_call_that_was_handed_over_keeps_the_traceback_of_its_caller(sf):
    sf.handler("mail")(raising)
    try:
        charge("4711")
    except ValueError as error:
        reply = await sf.hand_over("mail", {}, error)
    assert "in charge" in traceback(await job_of(sf, reply["operation_id"]))


async def test_tracebacks_come_along_in_a_backup_and_to_another_server(in_file, path, tmp_path, home):
    job = await died(in_file)
    await in_file.backup(tmp_path / "copy.db")
    await in_file.close()
    restore(str(tmp_path / "again.db"), tmp_path / "copy.db", store_at)
    async with Standfast(str(tmp_path / "again.db")) as again:
        assert traceback(await job_of(again, job.id)) == traceback(job)
    await asyncio.to_thread(promote, path, home.settings.url.value)
    assert traceback(await job_of(home, job.id)) == traceback(job)


# --- how it is written


def raised(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_a_traceback_is_cut_in_its_middle_and_holds_nothing_that_acts():
    found = traceback_of(raised(ValueError("\n".join(f"line {n} \x1b[31m\x00" for n in range(5000)))))
    assert len(found) <= LONGEST + len(LEFT_OUT)
    assert found.startswith("Traceback")
    assert LEFT_OUT in found
    assert found.endswith(r"line 4999 \u001b[31m\u0000")


def test_an_exception_whose_text_raises_has_a_traceback_all_the_same():
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "Odd: <exception str() failed>" in traceback_of(raised(Odd()))


async def test_the_log_of_a_worker_shows_the_traceback_without_its_secrets(sf, caplog):
    await died(sf)
    [record] = [each for each in caplog.records if each.name == "standfast.worker" and each.levelno == logging.ERROR]
    line = TextLines().format(record)
    assert "ValueError: no such card: 4711, password=***" in line
    assert "hunter22" not in line


# --- hooks


class Heard:
    """Remembers what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, Any]] = []

    async def __call__(self, job: Any, failure: Any, exception: Any) -> None:
        self.calls.append((job, failure, exception))


async def test_a_hook_gets_the_job_its_failure_and_the_exception(sf):
    heard = Heard()
    sf.on_failure(heard)
    job = await died(sf, attempts=2)
    first, last = heard.calls
    assert [each[0].id for each in heard.calls] == [job.id] * 2
    assert (first[0].attempt, first[0].payload, first[1].reason_code) == (1, "4711", "unclassified_error")
    assert (last[1].reason_code, last[1].cause) == ("max_attempts", "unclassified_error")
    assert last[1].traceback == traceback(job)
    assert isinstance(last[2], ValueError)


async def test_a_hook_can_tell_the_last_failure_and_the_handler(sf):
    heard = Heard()
    sf.on_failure(heard)
    await died(sf, attempts=2)
    sf.handler("mail", name="mail.refuse")(_refusing)
    await sf.enqueue("mail", handler="mail.refuse")
    await drain(sf)
    told = [(job.handler, failure.final) for job, failure, _ in heard.calls]
    assert told == [("mail", False), ("mail", True), ("mail.refuse", True)]


def _refusing(_job: Any) -> None:
    raise Permanent("no")


async def test_a_plain_hook_runs_beside_the_loop_and_in_calls_too(sf):
    threads = []

    @sf.on_failure
    def hook(job, failure, _exception):
        threads.append((threading.current_thread() is threading.main_thread(), job.session, failure.reason_code))

    @sf.handler("mail")
    async def handle(_job):
        raise Permanent("no")

    reply = await sf.run("mail", session="s")
    assert reply["status"] == "failed"
    await seen(lambda: threads == [(False, "s", "handler_refused")])


@pytest.mark.parametrize(
    ("handler", "code"),
    [(lambda _job: {"error_kind": "denied"}, "denied"), (lambda _job: {"verified": False}, "max_attempts")],
)
async def test_a_hook_hears_of_failures_without_an_exception(sf, handler, code):
    heard = Heard()
    sf.on_failure(heard)
    await died(sf, handler)
    assert [(failure.reason_code, error) for _, failure, error in heard.calls] == [(code, None)]


async def test_a_hook_hears_of_a_payload_that_does_not_fit(sf):
    heard = Heard()
    sf.on_failure(heard)
    sf.queue("mail")
    receipt = await sf.enqueue("mail", "text")  # before its handler is known
    sf.handler("mail", input=dict[str, int])(raising)
    await drain(sf)
    assert [(job.id, failure.reason_code) for job, failure, _ in heard.calls] == [(receipt.id, "schema_invalid")]


async def test_a_worker_that_finds_a_lost_attempt_tells_its_hook(disk, url, log):
    heard = Heard()
    disk.on_failure(heard)
    with children(url, log, rules=RULES) as [child]:
        receipt = await disk.enqueue("mail", {"name": "n", "do": "hang"})
        await seen(log.lines)
        async with disk.worker():
            child.send_signal(signal.SIGKILL)
            await seen(lambda: heard.calls)
    [(job, failure, error)] = heard.calls
    assert (job.id, failure.reason_code, error) == (receipt.id, "worker_lost", None)


async def test_a_hook_that_raises_changes_nothing_is_logged_and_counted(sf, caplog):
    @sf.on_failure
    async def broken(_job, _failure, _exception):
        raise RuntimeError("the reporter is down")

    job = await died(sf)
    assert job.state == "dead"
    assert (await sf.stats())["counters"]["hook_failed"] == 1
    assert "the on_failure hook broken failed; what becomes of job" in caplog.text
    assert "the reporter is down" in caplog.text


async def test_a_hook_that_hangs_does_not_hold_up_the_end_of_its_job(disk):
    begun, goes_on = asyncio.Event(), asyncio.Event()

    @disk.on_failure
    async def slow(_job, _failure, _exception):
        begun.set()
        await goes_on.wait()

    disk.queue("mail", attempts=1)
    disk.handler("mail")(raising)
    async with disk.worker():
        jobs = [await ended(disk, (await disk.enqueue("mail", n)).id) for n in range(3)]
        await begun.wait()
        assert {job.state for job in jobs} == {"dead"}
        goes_on.set()


async def test_more_failures_than_hooks_can_take_are_left_out_and_counted(sf, monkeypatch, caplog):
    monkeypatch.setattr("standfast.worker.failure_calls.MOST_WAITING", 2)
    assert MOST_WAITING > 2
    goes_on = asyncio.Event()

    @sf.on_failure
    async def slow(_job, _failure, _exception):
        await goes_on.wait()

    async def finish(_calls, _grace):
        goes_on.set()

    monkeypatch.setattr(FailureCalls, "finish", finish)
    sf.queue("mail", attempts=1)
    sf.handler("mail")(raising)
    await sf.enqueue_many("mail", range(5))
    await drain(sf)

    async def counted():
        return (await sf.stats())["counters"].get("hook_failed", 0) >= 3

    await seen(counted)
    assert "on_failure is not called for job" in caplog.text


async def test_a_cancelled_job_is_no_failure(disk):
    heard = Heard()
    disk.on_failure(heard)
    started = asyncio.Event()

    @disk.handler("mail")
    async def handle(_job):
        started.set()
        await asyncio.Event().wait()

    async with disk.worker():
        receipt = await disk.enqueue("mail")
        await started.wait()
        await disk.cancel(receipt.id)
        await ended(disk, receipt.id)
    assert heard.calls == []


def test_a_hook_that_cannot_be_called_is_refused_when_it_is_declared(tmp_path):
    sf = Standfast(str(tmp_path / "queue.db"))
    with pytest.raises(ConfigurationError, match=r"def hook\(job, failure, exception\)"):
        sf.on_failure(lambda _job: None)


class Local(Transport):
    """Keeps what the SDK would send."""

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Any) -> None:
        self.events += [item.get_event() for item in envelope.items if item.get_event() is not None]


async def test_sentry_gets_the_exception_as_the_docs_say(sf):
    local = Local({"dsn": "http://key@127.0.0.1/1"})
    sentry_sdk.init(dsn="http://key@127.0.0.1/1", transport=local, default_integrations=False)
    [shown] = [block for block in PAGE.read_text().split("```python\n") if block.startswith("import sentry_sdk")]
    try:
        exec(shown.partition("```")[0], {"sf": sf})  # noqa: S102 - our own page
        job = await died(sf)
        sentry_sdk.flush()
    finally:
        sentry_sdk.get_global_scope().set_client(None)
    [event] = local.events
    assert event["level"] == "error"
    assert event["tags"] == {"handler": "mail", "job_id": job.id, "reason_code": "max_attempts"}
    [told] = event["exception"]["values"]
    assert told["type"] == "ValueError"
    assert told["stacktrace"]["frames"][-1]["function"] == "charge"
