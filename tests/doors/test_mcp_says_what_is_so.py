"""What an agent is told when nothing was done, or when what is so differs from what once failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from standfast import Permanent, Standfast, Uncertain
from standfast.testing import drain
from standfast.wings.jobs.verbs import Operations
from tests.doors.agents import said
from tests.doors.test_mcp_handlers import agent
from tests.waiting import job_of, reached

MINE: dict[str, Any] = {"session": "agent-1", "requester": "agent-1"}


@pytest.fixture(params=["memory", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return ":memory:" if request.param == "memory" else str(request.getfixturevalue("used_postgres_url"))


class Work:
    """What the handlers do, and the event that lets the slow one go on."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.fails = True


@pytest.fixture
async def work() -> Work:
    return Work()


@pytest.fixture
async def sf(url: str, work: Work) -> AsyncIterator[Standfast]:
    made = Standfast(url)
    made.handler("echo")(lambda job: job.payload)

    @made.handler("fails")
    def fails(_job: Any) -> None:
        raise Permanent("no")

    @made.handler("unsure", replay="manual")
    def unsure(_job: Any) -> None:
        raise Uncertain("who knows")

    @made.handler("asks", consent=True)
    def asks(_job: Any) -> None: ...

    @made.handler("slow")
    async def slow(_job: Any) -> str:
        if work.fails:
            raise Permanent("the first one fails")
        await work.go.wait()
        return "done"

    async with made:
        yield made


# --- retry


async def test_a_retry_that_a_worker_took_up_at_once_is_told_as_one_that_worked(
    sf: Standfast, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: "it cannot be retried", with the error of the failure before it."""
    async with agent(sf) as client:
        letter = str((await sf.enqueue("slow", **MINE)).id)
        await drain(sf)
        work.fails = False
        async with sf.worker(["slow"]):
            view = Operations.view

            async def view_once_it_runs(operations: Operations, job_id: Any) -> Any:
                await reached(sf, str(job_id), "running")
                return await view(operations, job_id)

            monkeypatch.setattr(Operations, "view", view_once_it_runs)  # the worker is quicker than the reply
            replied = await said(client, "retry", id=letter)
            work.go.set()
            await sf.wait(letter, 15)
    assert replied["status"] == "running"
    assert replied["hint"].startswith("It was put back to work and is running now.")
    assert not {"refused", "error", "reason_code", "error_kind"} & set(replied)


async def running(sf: Standfast, work: Work) -> str:
    work.fails = False
    job = str((await sf.enqueue("slow", **MINE)).id)
    await reached(sf, job, "running")
    return job


@pytest.mark.parametrize("verb", ["retry", "status", "wait"])
async def test_a_running_job_is_told_as_that_and_only_a_retry_is_refused(sf: Standfast, work: Work, verb: str) -> None:
    async with sf.worker(["slow"]), agent(sf) as client:
        job = await running(sf, work)
        replied = await said(client, verb, id=job, **({"timeout": 0.01} if verb == "wait" else {}))
        work.go.set()
        await sf.wait(job, 15)
    assert replied["status"] == "running"
    assert (replied.get("refused", False), "retried" in replied["hint"]) == (verb == "retry", verb == "retry")


async def test_a_retry_that_put_nothing_back_says_so(sf: Standfast) -> None:
    async with agent(sf) as client:
        done = (await said(client, "echo", n=1))["operation_id"]
        cancelled = (await said(client, "submit", handler="echo"))["operation_id"]
        await said(client, "cancel", id=cancelled)
        held = (await said(client, "asks"))["operation_id"]
        unsure = (await said(client, "unsure"))["operation_id"]
        for job, status in ((done, "ok"), (cancelled, "cancelled"), (held, "held"), (unsure, "held")):
            before = await job_of(sf, job)
            replied = await said(client, "retry", id=job)
            assert (replied["status"], replied["refused"]) == (status, True)
            assert "was not retried" in replied["hint"] or "Nothing was retried" in replied["hint"]
            assert (await job_of(sf, job)).attempts == before.attempts
        failed = (await said(client, "fails"))["operation_id"]
        assert "refused" not in await said(client, "retry", id=failed)


async def test_a_cancellation_that_came_too_late_says_that_nothing_was_cancelled(sf: Standfast) -> None:
    async with agent(sf) as client:
        done = (await said(client, "echo", n=1))["operation_id"]
        replied = await said(client, "cancel", id=done)
        assert (replied["status"], replied["refused"], replied["result"]) == ("ok", True, {"n": 1})
        assert replied["hint"].startswith("Nothing was cancelled")


async def test_while_an_approval_waits_every_reply_says_so_and_names_it(sf: Standfast) -> None:
    """Before, only `retry` did; `wait` gave the reason of the failure before."""
    async with agent(sf) as client:
        called = await said(client, "unsure", idempotency_key="k")
        job = called["operation_id"]
        asked = (await said(client, "retry", id=job))["approval"]
        for replied in (
            await said(client, "wait", id=job),
            await said(client, "result", id=job),
            await said(client, "unsure", idempotency_key="k"),
            await sf.retry(job, session="agent-1"),
        ):
            assert (replied["status"], replied["reason_code"], replied["approval"]) == (
                "held",
                "approval_required",
                asked,
            )
        assert (await said(client, "status", id=job))["job"]["triage"]["approval"] == asked
        await sf.approvals.deny(asked, by="ann", reason="no")
        settled = await said(client, "wait", id=job)
        assert settled["reason_code"] != "approval_required"
        assert "approval" not in settled
        triage = (await job_of(sf, job)).triage
        assert triage is not None
        assert triage.approval is None


async def test_a_call_with_the_key_of_a_cancelled_call_says_what_an_agent_can_do(sf: Standfast) -> None:
    async with agent(sf) as client:
        job = (await said(client, "submit", handler="echo", params={}, idempotency_key="k"))["operation_id"]
        await said(client, "cancel", id=job)
        for tool, given in (("submit", {"handler": "echo", "params": {}}), ("echo", {})):
            replied = await said(client, tool, idempotency_key="k", **given)
            assert (replied["operation_id"], replied["status"]) == (job, "cancelled")
            assert "call it again with another idempotency_key" in replied["hint"]
        without = (await said(client, "submit", handler="echo"))["operation_id"]
        assert "idempotency_key" not in (await said(client, "cancel", id=without))["hint"]


async def test_after_a_person_refused_the_agent_is_told_not_to_ask_again(sf: Standfast) -> None:
    async with agent(sf) as client:
        job = (await said(client, "asks"))["operation_id"]
        await sf.consent.answer(job, mode="deny", by="ann")
        replied = await said(client, "wait", id=job)
    assert (replied["status"], replied["reason_code"]) == ("failed", "consent_denied")
    assert replied["hint"].startswith("A person refused it")
    assert "unless a person says so" in replied["hint"]


# --- the overview


async def test_the_overview_says_what_waits_for_a_person_and_what_failed(sf: Standfast) -> None:
    async with agent(sf) as client:
        await said(client, "echo")
        for _ in range(2):
            await said(client, "asks")
        dead = (await said(client, "fails"))["operation_id"]
        for message in (await said(client, "inbox"))["messages"]:
            await said(client, "ack", id=message["id"])
        overview = await said(client, "status")
        assert overview["jobs"] == {"completed": 1, "held": 2, "dead": 1}
        assert "2 of your jobs wait for a person: jobs(state=held)" in overview["hint"]
        assert "1 of your jobs failed for good: jobs(state=dead)" in overview["hint"]
        assert len((await said(client, "jobs", state="held"))["jobs"]) == 2
        assert [each["id"] for each in (await said(client, "jobs", state="dead"))["jobs"]] == [dead]


async def test_who_may_call_nothing_is_not_told_to_call_a_tool(url: str) -> None:
    async with Standfast(url) as sf, agent(sf) as client:
        assert (await said(client, "status"))["capabilities"] == []
        hint = (await said(client, "status"))["hint"]
        assert "Call one of your tools" not in hint
        assert "no handler that you may call" in hint
        sf.handler("echo")(lambda _: None)


# --- ids, and who consents


async def test_every_answer_about_a_job_has_its_operation_id(sf: Standfast) -> None:
    async with agent(sf) as client:
        dead = (await said(client, "unsure"))["operation_id"]
        for tool, given in (("explain", {}), ("status", {}), ("propose_replay", {"reason": "x"})):
            assert (await said(client, tool, id=dead, **given))["operation_id"] == dead


async def test_a_reply_that_waits_for_consent_names_the_store_where_it_is_known(
    tmp_path: Any, request: pytest.FixtureRequest
) -> None:
    """A person reads it in another directory: `standfast consent grant ID` alone leads them to another store."""
    for url in (str(tmp_path / "queue.db"), str(request.getfixturevalue("used_postgres_url"))):
        sf = Standfast(url)
        sf.handler("asks", consent=True)(lambda _: None)
        async with sf, agent(sf) as client:
            replied = await said(client, "asks")
            job = replied["operation_id"]
            for answer in (replied, await said(client, "wait", id=job), await said(client, "status", id=job)):
                assert "a person runs: standfast consent grant --url " in answer["hint"]
                assert answer["hint"].endswith(job)
        if "://" not in url:
            assert f"--url {url} {job}" in replied["hint"]


async def test_a_reply_of_a_store_in_memory_names_no_command(url: str) -> None:
    sf = Standfast(url)
    sf.handler("asks", consent=True)(lambda _: None)
    async with sf, agent(sf) as client:
        hint = (await said(client, "asks"))["hint"]
        assert ("standfast consent grant" in hint) == (url != ":memory:")
        assert "a person who may approve consents" in hint
