"""How calls end that do not simply succeed: by failing, by their time, by their caller, by the end of the process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from standfast import FileEffect, Permanent, Transient, Uncertain, fixed
from standfast.application import calling
from standfast.spine.apply import apply
from standfast.testing import drain
from standfast.wings.calls import scripts
from standfast.worker import caller
from tests.between import between
from tests.waiting import ended, job_of, seen
from tests.worker.counted import counting
from tests.worker.inside import live_callers, store_of

NOBODY_WAITS = 30.0


async def test_a_failure_that_may_pass_queues_it_and_workers_go_on(sf):
    sf.queue("mail", backoff=fixed(10))

    @sf.handler("mail")
    async def mail(job):
        if job.attempt == 1:
            raise Transient("not now")
        return job.attempt

    said = await mail.run({})
    assert (said["status"], said["queued_for_retry"], said["queue_reason"]) == ("queued", True, "retry")
    assert (said["reason_code"], said["error"].split(" (")[0]) == ("dependency_unavailable", "not now")
    assert "It is not done" in said["hint"]
    assert said["retry_at"] in said["hint"]
    sf.clock.advance(11)
    await drain(sf)
    job = await job_of(sf, said["operation_id"])
    assert (job.state, job.result, job.attempts) == ("completed", 2, 2)


@pytest.mark.parametrize(
    ("replay", "error", "expected"),
    [
        ("replay", Permanent("no"), ("failed", "dead", "handler_refused")),
        ("manual", Transient("later"), ("failed", "dead", "dependency_unavailable")),
        ("manual", Uncertain("who knows"), ("failed", "dead", "unknown_commit_state")),
        ("replay", Uncertain("who knows"), ("queued", "queued", "unknown_commit_state")),
        ("replay", RuntimeError("odd"), ("queued", "queued", "unclassified_error")),
    ],
)
async def test_what_becomes_of_a_call_that_fails(sf, replay, error, expected):
    @sf.handler("mail", replay=replay)
    async def mail(_job):
        raise error

    said = await mail.run({})
    job = await job_of(sf, said["operation_id"])
    assert (said["status"], job.state, said["reason_code"]) == expected
    assert job.attempts == 1
    assert ("may have been done" in said["hint"]) == (said["status"] == "failed" and isinstance(error, Uncertain))


@pytest.fixture
def slow(sf: Any, tmp_path: Path) -> Any:
    """Give a maker of handlers that may write their file, and do not end in time."""

    def made(replay: str, *, writes: bool, broken: bool = False) -> Any:
        effect = FileEffect("note", (lambda _job: 1 / 0) if broken else tmp_path / "note", "hello")

        async def handler(_job: Any) -> None:
            if writes:
                (tmp_path / "note").write_text("hello")
            await asyncio.sleep(NOBODY_WAITS)

        return sf.handler(f"slow-{replay}", replay=replay, effects=[effect])(handler)

    return made


@pytest.mark.parametrize("replay", ["replay", "verify_first", "manual"])
async def test_what_is_there_when_the_time_is_up_is_done(sf, slow, replay):
    said = await slow(replay, writes=True).run({}, timeout=0.05)
    assert (said["status"], said["post_write_recovery"], said["effects_verified"]) == ("ok", True, ["note"])
    assert (said["warning"], said["result"]) == ("post_write_recovery", None)
    assert "its effect was found (note)" in said["hint"]
    job = await job_of(sf, said["operation_id"])
    assert (job.state, job.attempts) == ("completed", 1), "the handler was entered: that is an attempt"


@pytest.mark.parametrize(
    ("replay", "broken", "expected"),
    [
        ("replay", False, ("queued", "queued", "timeout")),
        ("replay", True, ("queued", "queued", "timeout")),
        ("verify_first", False, ("queued", "queued", "timeout")),
        ("verify_first", True, ("held", "held", "unknown_commit_state")),
        ("manual", False, ("timeout", "dead", "unknown_commit_state")),
        ("manual", True, ("timeout", "dead", "unknown_commit_state")),
    ],
)
async def test_what_is_not_there_when_the_time_is_up(sf, slow, replay, broken, expected):
    said = await slow(replay, writes=False, broken=broken).run({}, timeout=0.05)
    job = await job_of(sf, said["operation_id"])
    assert (said["status"], job.state, said["reason_code"]) == expected
    assert (job.attempts, "post_write_recovery" in said) == (1, False)


async def test_a_failure_that_may_have_landed_is_looked_at_before_it_is_queued(sf, tmp_path):
    @sf.handler("mail", replay="verify_first", effects=[FileEffect("note", tmp_path / "note", "hello")])
    async def mail(job):
        if job.payload["writes"]:
            (tmp_path / "note").write_text("hello")
        raise Uncertain("the bridge did not answer")

    assert (await mail.run({"writes": False}))["status"] == "queued"
    said = await mail.run({"writes": True})
    assert (said["status"], said["post_write_recovery"]) == ("ok", True)


async def test_a_plain_function_past_its_time_goes_on_and_is_told_as_running(sf, monkeypatch):
    monkeypatch.setattr(calling, "AFTERWARDS", 3600.0)  # it cannot be cut, so nobody waits for that
    go_on = asyncio.Event()
    loop = asyncio.get_running_loop()

    @sf.handler("mail")
    def mail(_job):
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        return "late"

    said = await mail.run({}, timeout=0.05)
    assert (said["status"], "goes on without you" in said["hint"]) == ("running", True)
    go_on.set()
    job = await ended(sf, said["operation_id"])
    assert (job.state, job.result, job.attempts) == ("completed", "late", 1)


async def test_a_handler_that_does_not_stop_when_cut_is_not_waited_for(sf, monkeypatch):
    monkeypatch.setattr(calling, "AFTERWARDS", 0.05)
    go_on = asyncio.Event()

    @sf.handler("mail")
    async def mail(_job):
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    said = await mail.run({}, timeout=0.05)
    assert said["status"] == "running"
    go_on.set()
    assert (await ended(sf, said["operation_id"])).result == "at last"


async def test_a_caller_that_is_cancelled_cancels_nothing(sf):
    entered, go_on = asyncio.Event(), asyncio.Event()

    @sf.handler("mail")
    async def mail(_job):
        entered.set()
        await go_on.wait()
        return "sent"

    call = asyncio.create_task(mail.run({}))
    await entered.wait()
    call.cancel()
    await asyncio.wait([call])
    [job] = await sf.jobs()
    assert (call.cancelled(), job.state) == (True, "running")
    go_on.set()
    assert (await ended(sf, job.id)).result == "sent"


async def test_a_caller_that_is_cancelled_before_the_answer_leaves_no_call_unstarted(sf, monkeypatch):
    calls = counting(sf)
    asked = asyncio.Event()

    async def ask(_calls: Any, called: Any) -> Any:
        asked.set()
        return await called

    between(store_of(sf), scripts.call, ask, monkeypatch.setattr)
    call = asyncio.create_task(sf.run("mail", 1))
    await asked.wait()
    call.cancel()
    await asyncio.wait([call])
    [job] = await seen(sf.jobs)
    assert ((await ended(sf, job.id)).state, calls) == ("completed", {1: 1})


async def test_a_reply_waits_until_the_end_is_on_disk(sf, monkeypatch):
    counting(sf)

    async def late(_moves: Any, landed: Any) -> Any:
        await asyncio.sleep(0.05)  # a store that is busy with others
        return await landed

    between(store_of(sf), apply, late, monkeypatch.setattr)
    assert (await sf.run("mail", 1))["status"] == "ok"


async def test_a_running_call_can_be_cancelled_by_its_id(sf):
    entered = asyncio.Event()

    @sf.handler("mail")
    async def mail(_job):
        entered.set()
        await asyncio.sleep(NOBODY_WAITS)

    call = asyncio.create_task(mail.run({}))
    await entered.wait()
    [job] = await sf.jobs()
    await sf.cancel(job.id)
    assert (await call)["status"] == "cancelled"


async def test_closing_gives_a_call_the_time_to_end_and_then_gives_it_back(disk, monkeypatch):
    monkeypatch.setattr(caller, "GRACE", 0.01)
    entered = asyncio.Event()

    @disk.handler("mail")
    async def mail(_job):
        entered.set()
        await asyncio.sleep(NOBODY_WAITS)

    call = asyncio.create_task(mail.run({}))
    await entered.wait()
    await disk.close()
    said = await call
    await disk.open()
    assert (said["status"], (await job_of(disk, said["operation_id"])).attempts) == ("queued", 0)
    assert await live_callers(disk) == ()
