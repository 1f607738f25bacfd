"""Agents find out what became of their work: jobs, whole results, the overview, cancel; one rule for isError."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from mcp import Client

from standfast import Permanent, Standfast, Transient, Uncertain
from tests.doors.agents import said
from tests.doors.test_mcp_handlers import agent
from tests.on_disk import path, url
from tests.waiting import reached, seen

__all__ = ["path", "url"]

ROWS = [{"row": number, "text": "é" * 30} for number in range(3000)]


@pytest.fixture
async def sf(url: str) -> AsyncIterator[Standfast]:
    made = Standfast(url)
    made.queue("never", attempts=1)
    made.handler("echo")(lambda job: job.payload)
    made.handler("rows")(lambda _: {"rows": ROWS, "password": "hunter2", "count": 3000})

    @made.handler("never")
    def never(_job: Any) -> None:
        raise Permanent("no")

    @made.handler("unsure", replay="manual")
    def unsure(_job: Any) -> None:
        raise Uncertain("who knows")

    @made.handler("asks", consent=True)
    def asks(_job: Any) -> None: ...

    @made.handler("flaky")
    def flaky(_job: Any) -> None:
        raise Transient("not now")

    @made.handler("slow")
    async def slow(_job: Any) -> None:
        await asyncio.Event().wait()

    async with made:
        yield made


async def called(client: Client, tool: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
    answer = await client.call_tool(tool, arguments)
    assert isinstance(answer.structured_content, dict)
    return bool(answer.is_error), answer.structured_content


ABOUT_ONE = ("status", "wait", "explain", "result")


@pytest.mark.parametrize(
    ("handler", "status", "flagged"),
    [("echo", "ok", False), ("never", "failed", True), ("asks", "held", True), ("flaky", "queued", False)],
)
async def test_every_tool_flags_the_same_job_alike_and_says_what_to_do(
    sf: Standfast, handler: str, status: str, *, flagged: bool
) -> None:
    """`isError` is about the job, whichever tool tells of it."""
    async with agent(sf) as client:
        is_error, reply = await called(client, handler)
        assert (is_error, reply["status"]) == (flagged, status)
        key = "again"
        assert (await called(client, "run", handler=handler, params={}, idempotency_key=key))[0] == flagged
        for tool in ABOUT_ONE:
            given = {"timeout": 0.01} if tool == "wait" else {}
            is_error, answer = await called(client, tool, id=reply["operation_id"], **given)
            assert (tool, is_error, answer["status"], bool(answer["hint"])) == (tool, flagged, status, True)


async def test_what_is_asked_for_and_not_done_is_flagged_by_every_tool(sf: Standfast) -> None:
    """An approval that is filed, another's job, a name that does not exist."""
    async with agent(sf) as mine, agent(sf, "agent-2") as other:
        letter = (await said(mine, "unsure"))["operation_id"]
        for tool, given in (("retry", {}), ("propose_replay", {"reason": "x"})):
            is_error, answer = await called(mine, tool, id=letter, **given)
            assert (tool, is_error, answer["status"]) == (tool, True, "held")
        for tool in ("retry", "cancel"):
            is_error, answer = await called(other, tool, id=letter)
            assert (tool, is_error, answer["status"], answer["reason_code"]) == (tool, True, "failed", "not_yours")
        for tool in (*ABOUT_ONE, "retry", "cancel", "ack"):
            is_error, answer = await called(mine, tool, id="nowhere")
            assert (tool, is_error, answer["status"], bool(answer["hint"])) == (tool, True, "failed", True)


async def test_every_tool_without_a_job_has_a_hint_and_no_flag(sf: Standfast) -> None:
    async with agent(sf) as client:
        await said(client, "never")
        for tool in ("status", "jobs", "inbox", "health", "list_dead_letters"):
            is_error, answer = await called(client, tool)
            assert (tool, is_error, bool(answer["hint"])) == (tool, False, True)


async def test_jobs_are_this_sessions_by_state_and_page_by_page(sf: Standfast) -> None:
    async with agent(sf) as mine, agent(sf, "agent-2") as other:
        for number in range(5):
            await said(mine, "echo", n=number)
        dead = (await said(mine, "never", why="x" * 1000))["operation_id"]
        await said(other, "echo", n="other")
        everything = await said(mine, "jobs")
        assert [each["status"] for each in everything["jobs"]] == ["failed", *["ok"] * 5]
        assert [each["params"] for each in everything["jobs"]][1:3] == [{"n": 4}, {"n": 3}]
        [letter] = (await said(mine, "jobs", state="dead"))["jobs"]
        assert (letter["id"], letter["handler"], letter["error"][:3]) == (dead, "never/never", "no ")
        assert letter["params"] == {"_truncated": True, "keys": ["why"]}
        first = await said(mine, "jobs", state="completed", limit=3)
        rest = await said(mine, "jobs", state="completed", limit=3, cursor=first["next_cursor"])
        assert [each["params"]["n"] for each in first["jobs"] + rest["jobs"]] == [4, 3, 2, 1, 0]
        assert rest["next_cursor"] is None
        assert (await called(mine, "jobs", state="nonsense"))[0]


async def test_a_long_result_is_read_whole_page_by_page_and_without_its_secrets(sf: Standfast) -> None:
    async with agent(sf) as client:
        reply = await said(client, "rows")
        assert reply["result"]["_truncated"]
        assert "result" in reply["hint"]
        pages = [await said(client, "result", id=reply["operation_id"])]
        while (cursor := pages[-1]["next_cursor"]) is not None:
            pages.append(await said(client, "result", id=reply["operation_id"], cursor=cursor))
        text = "".join(page["text"] for page in pages)
        assert len(pages) > 5
        assert len(text) == pages[-1]["total_chars"]
        assert msgspec.json.decode(text) == {"rows": ROWS, "password": "***", "count": 3000}
        assert (await said(client, "result", id=reply["operation_id"], key="count"))["result"] == 3000
        assert (await said(client, "result", id=reply["operation_id"], key="password"))["result"] == "***"
        assert (await called(client, "result", id=reply["operation_id"], key="nothing"))[0]


async def test_a_queued_job_is_cancelled_and_a_running_one_is_asked_to_stop(sf: Standfast) -> None:
    async with agent(sf) as client:
        later = (await said(client, "submit", handler="echo"))["operation_id"]
        assert await called(client, "cancel", id=later) == (False, await said(client, "wait", id=later))
        assert (await said(client, "status", id=later))["status"] == "cancelled"
        running = str((await sf.submit("slow", session="agent-1"))["operation_id"])
        async with sf.worker():
            await reached(sf, running, "running")
            assert (await said(client, "cancel", id=running))["status"] in {"running", "cancelled"}
            assert (await said(client, "wait", id=running))["status"] == "cancelled"


async def test_an_agent_discards_no_letter_by_cancelling(sf: Standfast) -> None:
    """What becomes of it is a person's decision."""
    async with agent(sf) as client:
        letter = (await said(client, "never"))["operation_id"]
        is_error, answer = await called(client, "cancel", id=letter)
        assert (is_error, answer["job_status"]) == (True, "failed")
        assert (await said(client, "status", id=letter))["job"]["state"] == "dead"


async def test_the_overview_tells_what_there_is_and_what_to_do_next(sf: Standfast) -> None:
    """Seed 001 calls it status: how much is queued, when the next retry is, and what was done lately."""
    async with agent(sf) as client:
        nothing = await said(client, "status")
        assert (nothing["jobs"], nothing["unread"], nothing["recent"]) == ({}, 0, [])
        assert {"tool": "asks", "handler": "asks/asks", "consent": True}.items() <= next(
            each for each in nothing["capabilities"] if each["tool"] == "asks"
        ).items()
        await said(client, "echo")
        retrying = await said(client, "flaky")
        busy = await said(client, "status")
        assert busy["jobs"] == {"completed": 1, "queued": 1}
        assert busy["retry_queue"]["queued"] == 1
        assert busy["retry_queue"]["next_retry_at"][:19] == retrying["retry_at"][:19]
        assert [each["view"] for each in busy["recent"]] == ["retry_pending", "completed"]
        assert "not done" in busy["hint"]
        await said(client, "never")
        told = await said(client, "status")
        assert (told["unread"], told["jobs"]["dead"]) == (1, 1)
        assert "inbox" in told["hint"]
        async with agent(sf, "agent-2") as other:
            assert (await said(other, "status"))["jobs"] == {}


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_reply_that_the_client_did_not_wait_for_is_in_the_inbox(url: str, where: str) -> None:
    """Whether the server runs the handler itself or a worker does, which had begun when the client went away."""
    go = asyncio.Event()
    with_code = Standfast(url)

    @with_code.handler("slow")
    async def slow(_job: Any) -> Any:
        await go.wait()
        return "done at last"

    async with with_code, Standfast(url) as bare, with_code.worker():
        sf = with_code if where == "here" else bare
        async with agent(sf) as client:
            calling = asyncio.ensure_future(client.call_tool("slow", {}))
            [job] = await seen(lambda: sf.jobs(state="running"))
            calling.cancel()
            with suppress(asyncio.CancelledError):
                await calling
            await seen(lambda: kept(sf, job.id))
        go.set()
        await sf.wait(job.id, 15)
        async with agent(sf) as client:
            [message] = (await said(client, "inbox"))["messages"]
            assert (message["kind"], message["job_id"], message["result"]) == ("submit_done", job.id, "done at last")
            assert (await said(client, "inbox"))["messages"] == []


async def test_a_call_that_was_answered_as_running_is_told_when_it_is_done(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent may be killed before it can wait for the end."""
    monkeypatch.setattr("standfast.mcp.tasks.PATIENCE", 0.05)
    go = asyncio.Event()
    sf = Standfast(url)

    @sf.handler("slow")
    async def slow(_job: Any) -> Any:
        await go.wait()
        return "done at last"

    async with sf:
        async with agent(sf) as client:
            answered = await said(client, "slow")
        assert answered["status"] == "running"
        go.set()
        await sf.wait(answered["operation_id"], 15)
        async with agent(sf) as client:
            [message] = (await said(client, "inbox"))["messages"]
    assert (message["kind"], message["result"]) == ("submit_done", "done at last")


async def kept(sf: Standfast, job_id: str) -> bool:
    """Tell whether the end of a call is promised to its session."""
    job = await sf.status(job_id)
    return job is not None and job.queue_reason == "deferred_submit"


@pytest.mark.parametrize(("length", "cut"), [(20_000, False), (20_001, True), (99_000, True), (100_001, True)])
async def test_a_text_that_is_cut_says_so_and_how_the_rest_is_read(sf: Standfast, length: int, *, cut: bool) -> None:
    """Before, a text of 20 001 to 99 999 characters lost its end, and the hint said that the result is here."""
    text = "a b " * (length // 4) + "." * (length % 4)
    async with agent(sf) as client:
        reply = await said(client, "echo", text=text)
        for answer in (reply, *[await said(client, tool, id=reply["operation_id"]) for tool in ("wait", "retry")]):
            assert (answer.get("_truncated", False), "cut here" in answer["hint"]) == (cut, cut)
            assert ("fetch the whole with result(operation_id)" in answer["hint"]) == cut
            assert ("the result is here" in answer["hint"]) != cut
        shown = await said(client, "status", id=reply["operation_id"])
        assert (shown.get("_truncated", False), "cut here" in shown["hint"]) == (cut, cut)
        [contents] = (await client.read_resource(f"standfast://jobs/{reply['operation_id']}")).contents
        assert ('"_truncated":true' in str(getattr(contents, "text", ""))) == cut
        whole = await said(client, "result", id=reply["operation_id"], key="text")
        assert len(whole["text"]) == 16_000
        assert "_truncated" not in whole


async def test_an_answer_with_too_many_values_or_too_many_characters_says_so(sf: Standfast) -> None:
    async with agent(sf) as client:
        many = await said(client, "echo", numbers=list(range(3000)))
        assert many["_truncated"]
        assert "result(operation_id)" in many["hint"]
        hyphens = "\u00ad " * 9_900  # each is six characters where it is written out
        wide = await said(client, "echo", texts=[hyphens] * 2)
        assert wide["_truncated"]
        assert "result(operation_id)" in wide["hint"]
        few = await said(client, "echo", numbers=[1])
        assert "_truncated" not in few


async def test_a_long_error_in_a_list_says_that_it_is_cut(sf: Standfast) -> None:
    sf.handler("verbose")(_fail_verbosely)
    async with agent(sf) as client:
        await said(client, "verbose")
        [listed] = (await said(client, "jobs"))["jobs"]
        assert (len(listed["error"]), listed["error"][-1], listed["_truncated"]) == (201, "…", True)


def _fail_verbosely(_job: Any) -> None:
    raise Permanent("word " * 100)
