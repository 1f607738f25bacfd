"""What sessions and people are told: which step of which workflow, a consent that waits, alarms by the queue reason."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from standfast import Effect, Job, Permanent, Standfast, Transient
from standfast.job import Details
from standfast.lifecycle import State
from standfast.rules import QueueRules
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.wings.alerts.phrasing import title
from standfast.wings.alerts.rules import loud
from standfast.wings.calls.replies import reply
from tests.waiting import job_of

# --- the inbox


async def test_the_inbox_names_the_workflow_and_the_step(sf: InMemory) -> None:
    @sf.handler("mail")
    async def mail(_job: Job) -> None:
        raise Permanent("no such address")

    flow = sf.workflow("welcome")
    flow.step("greet", "mail", session="s")
    workflow = await flow.start()
    await drain(sf)
    [message] = await sf.inbox.list("s")
    assert message["message"].startswith("step greet of workflow welcome (mail/mail) failed for good")
    assert (message["workflow"], message["workflow_id"], message["step"]) == ("welcome", workflow, "greet")


async def test_a_job_without_a_workflow_names_none(sf: InMemory) -> None:
    sf.handler("mail")(_refuse)
    await sf.enqueue("mail", session="s")
    await drain(sf)
    [message] = await sf.inbox.list("s")
    assert message["message"].startswith("mail/mail failed for good")
    assert not {"workflow", "workflow_id", "step"} & message.keys()


def _refuse(_job: Job) -> None:
    raise Permanent("no")


# --- a consent that waits


async def test_a_consent_that_waits_is_worded_as_one_everywhere(sf: InMemory) -> None:
    @sf.handler("pay", consent=True)
    async def pay(_job: Job) -> None:
        """Pay."""

    receipt = await sf.enqueue("pay", session="s")
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert job.state == "held"
    told = {
        "hint": reply(job)["hint"],
        "advice": job.failure.advice if job.failure else "",
        "explain": await sf.explain(receipt.id),
        "inbox": (await sf.inbox.list("s"))[0]["message"],
    }
    for where, words in told.items():
        assert "consent" in words, where
        assert "failed" not in words, where
        assert "attempt" not in words, where
    assert told["explain"].startswith("It has waited for its session's consent for ")
    assert told["inbox"].startswith("pay/pay waits for this session's consent: ")


def test_an_alert_of_a_consent_that_waits_is_worded_as_one() -> None:
    alert: dict[str, Any] = {"queue": "pay", "reason_code": "consent_required", "state": "held", "more": False}
    assert title({**alert, "count": 1}) == "standfast: 1 job waits for its session's consent in pay"
    assert title({**alert, "count": 3}) == "standfast: 3 jobs wait for their sessions' consent in pay"


# --- alarms by the queue reason


@pytest.mark.parametrize(
    ("details", "notify", "expected"),
    [
        (Details(), None, True),
        (Details(session="s"), None, True),
        (Details(session="s", queue_reason="retry"), None, True),
        (Details(session="s", queue_reason="deferred_submit"), None, False),
        (Details(session="s", queue_reason="scheduled_job"), None, False),
        (Details(session="s", queue_reason="workflow_step"), None, True),
        (Details(queue_reason="deferred_submit"), None, True),
        (Details(queue_reason="scheduled_job"), None, True),
        (Details(session="s", queue_reason="deferred_submit"), "loud", True),
        (Details(session="s"), "quiet", False),
    ],
)
def test_a_letter_is_loud_by_its_queue_reason(details: Details, notify: Any, expected: bool) -> None:  # noqa: FBT001
    """Seed 001: a retry that is exhausted is loud, what was submitted or scheduled is left to its session."""
    rules = QueueRules(notify=notify)
    assert loud("mail", rules, State.DEAD, None, replays_by_itself=False, details=details) is expected


# --- notices of retries


async def test_a_notice_of_a_retry_says_which_attempt_failed_of_what_and_when_the_next_is_due(sf: InMemory) -> None:
    sf.queue("mail", attempts=3, backoff=lambda repeat: 60 * repeat)

    @sf.handler("mail")
    async def mail(_job: Job) -> None:
        raise Transient("not now", reason_code="mailbox_full")

    receipts = [await sf.enqueue("mail", number) for number in range(2)]
    for _ in range(3):
        await drain(sf)
        sf.clock.advance(120)
    found = await notices(sf, 4)
    assert {notice.job for notice in found} == {receipt.id for receipt in receipts}
    said = [notice.data for notice in found if notice.job == receipts[0].id]
    assert [each["attempt"] for each in said] == [1, 2]
    assert [each["reason_code"] for each in said] == ["mailbox_full"] * 2
    job = await job_of(sf, receipts[0].id)
    expected = [(line.at.timestamp() + (line.delay or 0)) for line in job.history[:2]]
    assert [_seconds(each["retry_at"]) for each in said] == pytest.approx(expected, abs=0.002)


async def test_a_notice_of_a_job_that_is_gone_still_comes(sf: InMemory) -> None:
    sf.queue("mail", backoff=lambda _: 60)
    sf.handler("mail", replay="verify_first", effects=[Effect("mail", lambda _job: True)])(_later)
    receipt = await sf.enqueue("mail")
    await drain(sf)
    sf.clock.advance(60)
    await drain(sf)
    await sf.cancel(receipt.id)
    [notice] = await notices(sf, 1)
    assert (notice.job, notice.data["attempt"]) == (receipt.id, 1)


def _later(_job: Job) -> None:
    raise Transient("later")


async def notices(sf: Standfast, number: int) -> list[Any]:
    """Read so many notices of retries from the beginning."""
    found = []
    async for notice in sf.subscribe(kinds=["retry"], after=0):
        found.append(notice)
        if len(found) == number:
            break
    return found


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
