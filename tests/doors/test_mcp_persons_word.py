"""What a person has stopped or refused stays so for an agent, which reads it everywhere in the same words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.types import ElicitResult

from standfast import LetterFilter, Permanent, Standfast
from standfast.errors import NotALetter
from standfast.mcp.consent_questions import _mode_of
from standfast.testing import drain
from tests.doors.agents import said
from tests.doors.test_mcp_handlers import agent
from tests.doors.test_mcp_own_jobs import called
from tests.on_disk import path, url

__all__ = ["path", "url"]

SESSION = "agent-1"
ABOUT_ONE = ("status", "wait", "explain", "result")


@pytest.fixture
async def sf(url: str) -> AsyncIterator[Standfast]:
    made = Standfast(url)
    made.queue("never", attempts=1)
    made.handler("echo")(lambda job: job.payload)
    made.handler("asks", consent=True)(lambda _: "done")

    @made.handler("never")
    def never(_job: Any) -> None:
        raise Permanent("no")

    @made.handler("bank", replay="manual")
    def bank(_job: Any) -> None:
        raise TimeoutError("the bank did not answer")

    async with made:
        yield made


async def messages(client: Any, job: str) -> list[dict[str, Any]]:
    return [each for each in (await said(client, "inbox"))["messages"] if each["job_id"] == job]


# --- quarantine


@pytest.mark.parametrize("tool", ["retry", "propose_replay"])
async def test_an_agent_has_no_letter_replayed_that_a_person_quarantined(sf: Standfast, tool: str) -> None:
    """Before, it was put back to work: only the hint discouraged it."""
    async with agent(sf) as client:
        letter = (await said(client, "never"))["operation_id"]
        await sf.dead_letters.quarantine(letter, by="ann", reason="legal looks at it", owner="legal")
        reason = {"reason": "please"} if tool == "propose_replay" else {}
        is_error, answer = await called(client, tool, id=letter, **reason)
        done = {"retry": "retried", "propose_replay": "replayed"}[tool]
        assert (is_error, answer["status"]) == (True, "failed")
        assert answer["hint"] == (
            f"It was not {done}: it is in quarantine for legal; legal can replay, amend, resolve or discard it. Do not "
            "ask again; tell a person."
        )
        job = (await said(client, "status", id=letter))["job"]
        assert (job["state"], job["replays"], job["triage"]["replay_status"]) == ("dead", 0, "quarantined")
    assert (await sf.dead_letters.replay(letter, by="ann"))["outcome"] == "replayed", "a person still can"


async def test_an_agents_plan_leaves_letters_in_quarantine_alone(sf: Standfast) -> None:
    letter = str((await sf.enqueue("never", 1, session=SESSION)).id)
    await drain(sf)
    await sf.dead_letters.quarantine(letter, by="ann", reason="x")
    chosen: LetterFilter = {"replay_status": "quarantined"}
    assert (await sf.dead_letters.plan(chosen, session=SESSION))["would_run"] == 0
    assert (await sf.dead_letters.plan(chosen))["would_run"] == 1


@pytest.mark.parametrize("queue", ["never", "asks"])
async def test_the_inbox_tells_that_a_person_quarantined_a_letter(sf: Standfast, queue: str) -> None:
    """Before, the message about its failure stood, and advised a retry."""
    async with agent(sf) as client:
        letter = (await said(client, queue))["operation_id"]
        [before] = await messages(client, letter)
        await said(client, "ack", id=before["id"])
        await sf.dead_letters.quarantine(letter, by="ann", reason="legal looks at it", owner="legal")
        [message] = await messages(client, letter)
        assert (message["kind"], message["state"]) == ("retry_exhausted", "dead")
        assert "was quarantined by ann: legal looks at it. It had failed: " in message["message"]
        assert message["hint"].endswith("Do not call retry; tell legal.")
        assert "Do not ask for a retry; tell legal." in (await said(client, "wait", id=letter))["hint"]


# --- consent


async def test_an_agent_withdraws_its_own_call_that_waits_for_consent(sf: Standfast) -> None:
    """Before, only a person could end it, and was still asked for consent to what no one wanted any more."""
    async with agent(sf) as client:
        job = (await said(client, "asks"))["operation_id"]
        is_error, answer = await called(client, "cancel", id=job)
        assert (is_error, answer["status"]) == (False, "cancelled")
        assert answer["hint"].startswith("It was withdrawn before it was begun: no person is asked about it any more.")
        assert await sf.consent.asks() == []
        assert await messages(client, job) == [], "nothing is left that says it waits"
        explained = (await said(client, "explain", id=job))["explanation"]
        assert explained.endswith("by agent-1 (withdrawn by its own session).")
    with pytest.raises(NotALetter, match=r"cancelled by agent-1 \(withdrawn by its own session\)"):
        await sf.consent.answer(job, by="ann")
    [discarded] = [each for each in await sf.audit.entries(job=job) if each["kind"] == "discard"]
    assert (discarded["by"], discarded["outcome"]) == ("agent-1", "withdrawn")


async def test_a_call_of_another_session_is_not_withdrawn(sf: Standfast) -> None:
    job = str((await sf.run("asks", {}, session="other"))["operation_id"])
    async with agent(sf) as client:
        is_error, answer = await called(client, "cancel", id=job)
        assert (is_error, answer["reason_code"], answer["refused"]) == (True, "not_yours", True)
    assert [each["job_id"] for each in await sf.consent.asks()] == [job]


async def test_a_call_that_a_person_discards_while_it_waits_for_consent_is_told(sf: Standfast) -> None:
    """Before, the inbox went on saying that it waits."""
    async with agent(sf) as client:
        job = (await said(client, "asks"))["operation_id"]
        await sf.dead_letters.discard(job, by="ann", reason="not this year")
        [message] = await messages(client, job)
        assert message["message"] == "asks/asks was cancelled by ann: not this year."
        assert message["hint"] == "It will not run. Call it again if it is wanted after all."


@pytest.mark.parametrize("tool", ["retry", "propose_replay"])
async def test_an_agent_has_no_call_repeated_that_a_person_refused(sf: Standfast, tool: str) -> None:
    """Before, a retry asked the person again, and the inbox advised it."""
    async with agent(sf) as client:
        job = (await said(client, "asks"))["operation_id"]
        await sf.consent.answer(job, mode="deny", by="ann", reason="not today")
        reason = {"reason": "please"} if tool == "propose_replay" else {}
        is_error, answer = await called(client, tool, id=job, **reason)
        assert (is_error, answer["status"]) == (True, "failed")
        assert "a person refused it; a person can replay it, and is asked for consent again" in answer["hint"]
        assert await sf.consent.asks() == []
        hints = {(await said(client, each, id=job))["hint"] for each in ABOUT_ONE}
        [message] = await messages(client, job)
        assert {message["hint"]} == hints, "every answer says the same"
        assert "is denied to this job by ann: not today" in message["message"]
    assert (await sf.dead_letters.replay(job, by="ann"))["outcome"] == "replayed", "a person still can"


@pytest.mark.parametrize(
    ("action", "content", "mode"),
    [
        ("accept", {"allow": True}, "once"),
        ("accept", {"allow": False}, "deny"),
        ("accept", {}, None),
        ("accept", {"allow": "yes"}, None),
        ("decline", None, "deny"),
        ("cancel", None, None),
    ],
)
def test_a_form_that_comes_back_empty_is_no_refusal(action: Any, content: Any, mode: str | None) -> None:
    """Before, it ended the job, and the reply said that a person had refused it."""
    assert _mode_of(ElicitResult(action=action, content=content)) == mode


# --- what an answer says


async def test_an_approval_that_was_denied_is_told_by_every_tool(sf: Standfast) -> None:
    """Before, only the inbox said so: a tool that looked at the job advised to find out and ask again."""
    async with agent(sf) as client:
        letter = (await said(client, "bank"))["operation_id"]
        approval = (await said(client, "retry", id=letter))["approval"]
        await sf.approvals.deny(approval, by="ann", reason="the bank says it is paid")
        answers = [await said(client, each, id=letter) for each in ABOUT_ONE]
        assert {each["status"] for each in answers} == {"timeout"}, "as before: what a person says changes no end"
        assert {"A person was asked to approve a retry, and refused" in each["hint"] for each in answers} == {True}
        assert all("Do not ask again without a new reason" in each["hint"] for each in answers)


async def test_a_handlers_own_timeout_is_not_told_as_being_cut_off(sf: Standfast) -> None:
    async with agent(sf) as client:
        answer = await said(client, "bank")
        assert answer["status"] == "timeout"
        assert answer["hint"].startswith("Its time was up, or something that it called did not answer in time.")


async def test_a_cancellation_that_changed_nothing_says_that_it_was_refused(sf: Standfast) -> None:
    async with agent(sf) as client:
        letter = (await said(client, "never"))["operation_id"]
        assert (await said(client, "cancel", id=letter))["refused"] is True


async def test_an_explanation_does_not_claim_to_have_the_result(sf: Standfast) -> None:
    async with agent(sf) as client:
        done = (await said(client, "echo", a=1))["operation_id"]
        hint = (await said(client, "explain", id=done))["hint"]
        assert hint == "It is done; nothing is left to do. result gives its result."


async def test_a_proposal_for_a_job_that_has_not_stopped_says_so(sf: Standfast) -> None:
    """Before, the hint was to look up the ids of jobs."""
    async with agent(sf) as client:
        done = (await said(client, "echo", a=1))["operation_id"]
        hint = (await said(client, "propose_replay", id=done, reason="x"))["hint"]
        assert hint == "Nothing was done: only a job that has stopped can be replayed. See with status how it stands."


async def test_a_handler_without_a_model_says_that_it_takes_any_argument(sf: Standfast) -> None:
    """Before, the listing showed the key as its only argument."""
    async with agent(sf) as client:
        [echo] = [each for each in (await client.list_tools()).tools if each.name == "echo"]
        assert echo.input_schema["additionalProperties"] is True
