"""A deferred call to a model whose server dies in the middle: it is not made twice behind anybody's back."""

from __future__ import annotations

from tests.waiting import failure_of, job_of, seen
from tests.worker.processes import children


async def test_a_submission_whose_server_dies_is_told_to_its_session_and_made_again_on_request(disk, url, log):
    """One attempt is one: its loss is a letter and a message; asked for again, the next server makes the call."""
    payload = {"name": "llm", "do": "kill"}
    with children(url, log, rules={"mail": {"lease": 1}}):
        await seen(lambda: disk.queues.published("mail"))
        reply = await disk.submit("mail", payload, session="planner", lease=1)
        assert reply["status"] in ("queued", "running")  # the server may be at it already
        assert reply["queue_reason"] == "deferred_submit"
        await seen(lambda: log.lines("start", "llm"))
    with children(url, log, rules={"mail": {"lease": 1}}):
        lost = await disk.wait(reply["operation_id"], 30)
        assert (lost.state, lost.reason, failure_of(lost).landed) == ("dead", "worker_lost", "maybe")
        [message] = await disk.inbox.list("planner")
        assert (message["kind"], message["job_id"]) == ("submit_failed", lost.id)
        assert len(log.lines("start", "llm")) == 1
        await disk.dead_letters.amend(lost.id, {"name": "llm"}, by="ann", reason="the model is back")
        await disk.retry(lost.id)
        assert (await disk.wait(lost.id, 30)).state == "completed"
    assert len(log.lines("start", "llm")) == 2
    assert (await job_of(disk, lost.id)).session == "planner"
