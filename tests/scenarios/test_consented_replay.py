"""A consented operation fails in its session's process, and another process replays it for that session."""

from __future__ import annotations

from standfast import Transient
from tests.waiting import ended, job_of, reached
from tests.worker.processes import children


async def test_another_process_goes_on_by_the_sessions_own_grant_and_not_by_a_blanket_one(disk, url, log):
    disk.queue("mail", backoff="none")

    @disk.handler("mail", consent=True)
    async def mail(_job):
        raise Transient("the bridge is away")

    await disk.consent.grant("chat-1", mail, by="anna")
    await disk.consent.grant("chat-2", "*", mode="always", by="anna")
    replies = {name: await mail.run({"name": name}, session=name) for name in ("chat-1", "chat-2")}
    assert [reply["status"] for reply in replies.values()] == ["queued", "queued"]
    with children(url, log, consent=True):
        done = await ended(disk, replies["chat-1"]["operation_id"])
        await reached(disk, replies["chat-2"]["operation_id"], "held")
    assert (done.state, done.session) == ("completed", "chat-1")
    assert [line.name for line in log.lines()] == ["chat-1"], "the blanket grant was for then, not for now"
    assert (await job_of(disk, replies["chat-2"]["operation_id"])).reason == "consent_required"
    assert [message["kind"] for message in await disk.inbox.list("chat-1")] == ["retry_success"]
    [asked] = await disk.inbox.list("chat-2")
    assert (asked["kind"], asked["reason_code"]) == ("retry_exhausted", "consent_required")
