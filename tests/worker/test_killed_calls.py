"""A caller that is killed, or whose store goes away: its call lapses, or waits, and is never lost or forgotten."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from standfast import Standfast, StoreUnavailable
from standfast.application import calling as calling_verbs
from standfast.store import store as store_module
from standfast.wings.calls import scripts as calls_script
from tests.between import between
from tests.waiting import ended, failure_of, job_of, reached, seen
from tests.warm import Warm
from tests.worker.calling import application
from tests.worker.inside import live_callers, store_of
from tests.worker.outage import Outage
from tests.worker.processes import environment

CALLING = Path(__file__).with_name("calling.py")


def caller(url: str, log, *given: str) -> Warm:
    command = [sys.executable, str(CALLING), url, str(log.path), *given]
    return Warm(command, env=environment(), stderr=subprocess.DEVNULL)


async def stands_still(sf: Standfast) -> dict[str, Any]:
    """Ask for the call again until its Reply does not say any more that somebody is at it."""

    async def said() -> dict[str, Any] | None:
        answer = await sf.run("mail", {}, idempotency_key="k")
        assert answer["status"] == "running"
        return None if "goes on without you" in answer["hint"] else {**answer}

    found: dict[str, Any] = await seen(said)
    return found


@pytest.mark.parametrize(("mode", "state"), [("replay", "completed"), ("manual", "dead")])
async def test_a_killed_callers_job_lapses_and_is_judged_like_any(url, log, mode, state):
    with caller(url, log, mode) as child:
        assert await asyncio.to_thread(child.wait, 15) == -signal.SIGKILL
    async with application(url, str(log.path), mode) as sf:
        [job] = await sf.jobs()
        assert (job.state, job.attempts) == ("running", 1)
        assert "no worker runs it" in (await stands_still(sf))["hint"]
        assert "no worker runs it" in (await sf.retry(job.id))["hint"]
        async with sf.worker():
            job = await ended(sf, job.id)
        assert (job.state, [line.reason_code for line in job.history][:1]) == (state, ["worker_lost"])
        assert len(log.lines()) == (2 if mode == "replay" else 1)
        if mode == "manual":
            assert failure_of(job).reason_code == "unknown_commit_state"
        said = await sf.run("mail", {}, idempotency_key="k")
        assert (said["status"], said["operation_id"]) == ("ok" if mode == "replay" else "failed", job.id)


async def test_a_live_callers_job_is_left_alone_however_long_it_takes(url, log):
    with caller(url, log, "replay", "hang") as child:
        try:
            await seen(log.lines)
            async with application(url, str(log.path), "replay", "hang") as sf:
                async with sf.worker():
                    [job] = await sf.jobs()
                    await asyncio.sleep(0.6 * 2)  # two leases pass: it must have been renewed by then
                    found = await job_of(sf, job.id)
                    assert (found.state, found.reason) == ("running", None)
                    await sf.cancel(job.id)
                    assert (await ended(sf, job.id)).state == "cancelled", "its caller heard of it"
                assert len(log.lines()) == 1
        finally:
            child.kill()


async def test_nothing_is_called_that_could_not_be_recorded(in_file, path, monkeypatch):
    monkeypatch.setattr(store_module, "PATIENCE", 0.2)
    calls = []
    in_file.handler("mail")(lambda job: calls.append(job.payload))
    assert (await in_file.run("mail", 1))["status"] == "ok"
    outage = Outage(path)
    try:
        with pytest.raises(StoreUnavailable) as refused:
            await in_file.run("mail", 2)
        assert refused.value.definite
    finally:
        outage.end()
    assert (await in_file.run("mail", 3))["status"] == "ok"
    assert calls == [1, 3]


async def test_an_end_that_cannot_be_written_yet_is_told_as_running_and_written_later(in_file, path, monkeypatch):
    monkeypatch.setattr(calling_verbs, "AFTERWARDS", 0.05)
    outages: list[Outage] = []

    @in_file.handler("mail")
    async def mail(_job):
        outages.append(await asyncio.to_thread(Outage, path))
        return "sent"

    said = await mail.run({}, timeout=1)
    try:
        assert (said["status"], "Do not call again" in said["hint"]) == ("running", True)
    finally:
        outages[0].end()
    job = await reached(in_file, said["operation_id"], "completed")
    assert (job.result, job.attempts, len(outages)) == ("sent", 1, 1)


async def test_a_call_whose_answer_got_lost_is_given_back(disk, monkeypatch):
    """The store has it as running here, and nobody here knows of it: the heartbeats find that out."""
    calls = []
    disk.queue("mail", lease=0.6)
    disk.handler("mail")(lambda job: calls.append(job.payload))
    assert (await disk.run("mail", 1))["status"] == "ok"

    async def lose(_calls, called):
        await called
        raise StoreUnavailable("the answer got lost", definite=False)

    between(store_of(disk), calls_script.call, lose, monkeypatch.setattr)
    with suppress(StoreUnavailable):  # or it is spooled, and the spool finds it in the store
        assert (await disk.run("mail", 2))["status"] in {"queued", "running"}
    [job, _] = await disk.jobs()

    async def given_back() -> bool:  # where it is spooled, the spool shows it as queued before that
        return (await job_of(disk, job.id)).deferrals == 1

    await seen(given_back)
    job = await job_of(disk, job.id)
    assert (job.view, job.attempts, calls) == ("queued", 0, [1])
    assert len(await disk.jobs()) == 2
    assert len(await live_callers(disk)) == 1


async def test_a_call_is_spooled_and_not_made_while_the_server_is_away(monkeypatch, tmp_path):
    monkeypatch.setattr(store_module, "PATIENCE", 0.2)
    monkeypatch.setenv("STANDFAST_SPOOL", str(tmp_path / "spool"))
    calls = []
    sf = Standfast("postgresql://nobody@127.0.0.1:1/nothing")
    sf.handler("mail")(lambda job: calls.append(job.payload))
    for verb in (sf.run, sf.submit):
        said = await verb("mail", 1)
        assert (said["status"], "kept on this host" in said["hint"]) == ("queued", True)
        found = await sf.status(said["operation_id"])
        assert found is not None
    assert calls == []
    await sf.close()
