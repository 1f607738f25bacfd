"""Inboxes: which ends a session hears of, that it hears them once, and that nobody else does."""

from __future__ import annotations

from typing import Any

import pytest

from standfast import Cancel, ConfigurationError, Effect, Permanent, Standfast, Transient, current_session
from standfast.errors import UnknownRequest
from standfast.testing import drain
from standfast.wings.calls.replies import reply
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.on_disk import path, url
from tests.store.suite import swept
from tests.waiting import failure_of, job_of
from tests.worker.governing import Rulebook, broken, govern, redriver

__all__ = ["path", "url"]


def flaky(sf: Standfast, queue: str = "mail", attempts: int = 3) -> list[str]:
    """Declare a queue whose handler does what its payload says, word by word, an attempt each."""
    seen: list[str] = []
    sf.queue(queue, attempts=attempts, backoff="none")

    @sf.handler(queue)
    async def handle(job):
        word = job.payload[min(job.attempt, len(job.payload)) - 1]
        seen.append(word)
        match word:
            case "later":
                raise Transient("not now")
            case "never":
                raise Permanent("no such address")
            case "unwanted":
                return Cancel("nobody wants it")
        return {"said": word}

    return seen


async def told(sf: Standfast, session: str = "s", *, unread: bool = True) -> list[tuple[str, str]]:
    return [(each["kind"], each["job_id"]) for each in await sf.inbox.list(session, unread)]


async def ran(sf: Standfast, *words: str, **options) -> str:
    """Run a job to its end; give its id."""
    receipt = await sf.enqueue("mail", list(words), **{"session": "s"} | options)
    await drain(sf)
    assert receipt.id is not None
    return receipt.id


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["fine"], None),
        (["later", "fine"], "retry_success"),
        (["later", "later", "later"], "retry_exhausted"),
        (["later", "never"], "retry_exhausted"),
        (["never"], "retry_exhausted"),
        (["unwanted"], "retry_exhausted"),
    ],
)
async def test_a_session_hears_of_what_did_not_go_well_at_once(sf, words, kind):
    flaky(sf)
    job_id = await ran(sf, *words)
    assert await told(sf) == ([] if kind is None else [(kind, job_id)])


async def test_what_went_well_is_read_by_being_listed_and_the_rest_by_being_acknowledged(sf):
    flaky(sf)
    well, ill = await ran(sf, "later", "fine"), await ran(sf, "never")
    assert sorted(await told(sf)) == sorted([("retry_success", well), ("retry_exhausted", ill)])
    [message] = await sf.inbox.list("s")
    assert (message["kind"], message["read"]) == ("retry_exhausted", False)
    await sf.inbox.ack(message["id"], session="s")
    await sf.inbox.ack(message["id"])  # twice is harmless
    assert await sf.inbox.list("s") == []
    assert {each["read"] for each in await sf.inbox.list("s", unread=False)} == {True}
    assert len(await told(sf, unread=False)) == 2


async def test_another_session_sees_and_acknowledges_nothing(sf):
    flaky(sf)
    await ran(sf, "never")
    [message] = await sf.inbox.list("s")
    assert await sf.inbox.list("other", unread=False) == []
    with pytest.raises(UnknownRequest):
        await sf.inbox.ack(message["id"], session="other")
    assert [each["id"] for each in await sf.inbox.list("s")] == [message["id"]]
    with pytest.raises(UnknownRequest):
        await sf.inbox.ack("nothing of the kind")
    with pytest.raises(ConfigurationError):
        await sf.inbox.list("")


async def test_a_message_holds_what_an_agent_needs(sf):
    flaky(sf)
    job_id = await ran(sf, "later", "never")
    [message] = await sf.inbox.list("s")
    assert (
        message.items()
        >= {
            "job_id": job_id,
            "queue": "mail",
            "handler": "mail",
            "session": "s",
            "state": "dead",
            "attempts": 2,
            "reason_code": "handler_refused",
            "class": "permanent",
            "landed": "no",
        }.items()
    )
    assert [line["reason_code"] for line in message["history"]] == ["dependency_unavailable", "handler_refused"]
    assert "no such address" in message["message"]
    assert "retry" in message["hint"]


async def test_a_short_result_comes_along_and_a_long_one_is_fetched(sf):
    flaky(sf)
    await ran(sf, "later", "fine")
    await ran(sf, "later", "x" * 5000)
    long, short = await sf.inbox.list("s")
    assert short["result"] == {"said": "fine"}
    assert "result" not in long
    assert "fetch" in long["hint"]


async def test_jobs_without_a_session_leave_no_message(sf):
    flaky(sf)
    for words in (["later", "fine"], ["never"], ["unwanted"]):
        await ran(sf, *words, session=None)
    assert (await sf.stats())["counters"].get("inbox") is None


async def test_what_dies_waiting_is_told_by_whoever_finds_it(sf):
    flaky(sf)
    sf.queue("slow", max_age=10)
    receipt = await sf.enqueue("slow", {}, handler="nobody", session="s")
    sf.clock.advance(11)
    await swept(sf._store)  # noqa: SLF001
    assert (await job_of(sf, receipt.id)).reason == "max_age"
    assert await told(sf) == [("retry_exhausted", receipt.id)]


async def test_a_letter_that_is_replayed_by_itself_is_told_only_when_nothing_is_left(sf):
    broken(sf, "mail")
    await sf.policy.load(
        """
version: v1
dlq_rules:
  - match: {queue: mail, landed: maybe}
    action: auto_replay
    max_replays: 1
    backoff: fixed
"""
    )
    receipt = await sf.enqueue("mail", {}, session="s")
    await drain(sf)
    assert (await job_of(sf, receipt.id)).state == "dead"
    assert await told(sf) == []
    sf.clock.advance(20)
    await drain(sf)
    assert (await job_of(sf, receipt.id)).replays == 1
    assert await told(sf) == [("retry_exhausted", receipt.id)]


async def test_a_letter_whose_automatic_replay_the_policy_refuses_is_told_then(sf):
    broken(sf, "mail")
    await sf.policy.load(
        """
version: v1
dlq_rules:
  - match: {queue: mail, landed: maybe}
    action: auto_replay
    backoff: fixed
replay_rules:
  - match: {}
    decision: deny
    why: not here
"""
    )
    receipt = await sf.enqueue("mail", {}, session="s")
    await drain(sf)
    assert await told(sf) == []
    sf.clock.advance(20)
    await drain(sf)
    [message] = await sf.inbox.list("s")
    assert (message["kind"], message["job_id"], message["answer"]) == ("retry_exhausted", receipt.id, "denied")
    assert "policy" in message["hint"]
    assert (await sf.dead_letters.replay(receipt.id, by="anna"))["outcome"] == "denied"
    assert len(await sf.inbox.list("s", unread=False)) == 1, "asking again is no news"


async def test_an_approval_that_is_denied_or_expires_is_told(sf):
    broken(sf, "mail")
    govern(sf, Rulebook("require_approval"))
    for answer in ("denied", "expired"):
        receipt = await sf.enqueue("mail", {}, session=answer)
        await drain(sf)
        approval = (await sf.dead_letters.replay(receipt.id, by="anna"))["approval"]
        if answer == "denied":
            await sf.approvals.deny(approval, by="bea", reason="no")
        else:
            sf.clock.advance("2d")
            await redriver(sf).step()
        [last] = await sf.inbox.list(answer)
        assert (last["answer"], last["state"]) == (answer, "dead")
        _, first = await sf.inbox.list(answer, unread=False)
        assert first["reason_code"] == last["reason_code"] == "max_attempts"


async def test_people_who_resolve_discard_or_cancel_are_told_of(sf):
    flaky(sf)
    resolved, discarded = await ran(sf, "never", session="r"), await ran(sf, "never", session="d")
    await sf.dead_letters.resolve(resolved, by="anna", reason="done by hand", result={"by": "hand"})
    await sf.dead_letters.discard(discarded, by="anna", reason="not wanted")
    [success] = await sf.inbox.list("r")
    assert (success["kind"], success["by"], success["result"]) == ("retry_success", "anna", {"by": "hand"})
    ended = [each for each in await sf.inbox.list("d") if each["state"] == "cancelled"]
    assert [(each["kind"], each["by"]) for each in ended] == [("retry_exhausted", "anna")]
    queued = await sf.enqueue("mail", ["fine"], session="c", delay=60)
    await sf.cancel(queued.id)
    assert await sf.inbox.list("c") == [], "nothing of it was ever begun"


async def test_the_inbox_has_the_last_word_on_a_job_and_not_what_was_so_before(sf):
    """Before, "failed for good, then call retry" stayed unread beside the word that it is done."""
    flaky(sf, attempts=1)
    job_id = await ran(sf, "later", "fine")
    assert await told(sf) == [("retry_exhausted", job_id)]
    await sf.dead_letters.replay(job_id, by="anna")
    await drain(sf)
    assert (await sf.inbox.overview("s"))["unread"] == 1
    assert await told(sf) == [("retry_success", job_id)]
    assert (await sf.inbox.overview("s"))["unread"] == 0
    assert await told(sf) == []
    kept = await sf.inbox.list("s", unread=False)
    assert [(each["kind"], each["read"]) for each in kept] == [("retry_success", True), ("retry_exhausted", True)]


async def test_a_job_that_waited_for_consent_and_is_done_is_not_told_as_waiting(sf):
    """Before, "waits for this session's consent" was all that the inbox ever said of it."""

    @sf.handler("pay", consent=True)
    async def pay(_job):
        return {"paid": 5}

    receipt = await sf.enqueue("pay", {}, session="s")
    await drain(sf)
    assert await told(sf) == [("retry_exhausted", receipt.id)]
    await sf.consent.answer(receipt.id, by="anna")
    await drain(sf)
    [message] = await sf.inbox.list("s")
    assert (message["kind"], message["state"], message["result"]) == ("submit_done", "completed", {"paid": 5})


async def test_a_call_that_was_only_queued_is_told_once_it_is_done(sf):
    """Its reply said `queued`; the caller need not be there when a worker does it."""
    flaky(sf)
    await sf.open()
    await sf.queues.pause("mail")
    reply = await sf.run("mail", ["fine"], session="s")
    assert reply["status"] == "queued"
    await sf.queues.resume("mail")
    await drain(sf)
    assert await told(sf) == [("submit_done", reply["operation_id"])]


async def test_a_caller_that_vanishes_while_another_process_runs_its_call_finds_the_end_in_its_inbox(url):
    """Killed with its server, it can tell nobody that it is gone: what it did not hear of stays unread."""
    async with Standfast(url) as elsewhere, Standfast(url) as thin:
        flaky(elsewhere)
        await elsewhere.close()
        await elsewhere.open()
        async with elsewhere.worker():
            vanished = await thin.begin("mail", ["fine"], session="gone")
            heard = await (await thin.begin("mail", ["fine"], session="there")).reply()
            await elsewhere.wait(vanished.id, 10)
        assert await told(elsewhere, "gone") == [("submit_done", vanished.id)]
        assert (heard["status"], await told(elsewhere, "there")) == ("ok", [])
        await thin.inbox.keep_reply(heard)  # the reply did not get through after all
        assert await told(elsewhere, "there") == [("submit_done", heard["operation_id"])]


async def test_a_deferred_submission_is_told_however_it_ends(sf):
    flaky(sf)
    well = await sf.submit("mail", ["fine"], session="s")
    ill = await sf.submit("mail", ["later"], session="s")
    await drain(sf)
    kinds = {each["job_id"]: each["kind"] for each in await sf.inbox.list("s")}
    assert kinds == {well["operation_id"]: "submit_done", ill["operation_id"]: "submit_failed"}
    gone = await sf.submit("mail", ["fine"], session="c")
    await sf.cancel(gone["operation_id"])
    assert [each["kind"] for each in await sf.inbox.list("c")] == ["submit_failed"]


async def test_a_call_that_is_done_at_once_leaves_no_message(sf):
    flaky(sf)
    assert (await sf.run("mail", ["fine"], session="s"))["status"] == "ok"
    assert await sf.inbox.list("s", unread=False) == []
    assert (await sf.run("mail", ["later", "fine"], session="s"))["status"] == "queued"
    await drain(sf)
    assert [each["kind"] for each in await sf.inbox.list("s")] == ["retry_success"]


async def test_read_messages_go_after_a_while_and_no_session_has_too_many(sf, monkeypatch):
    flaky(sf)
    await ran(sf, "later", "fine", session="old")
    await ran(sf, "never", session="unread")
    await sf.inbox.list("old")
    monkeypatch.setattr("standfast.wings.sessions.scripts.MOST_KEPT", 2)
    for _ in range(4):
        await ran(sf, "never", session="full")
        sf.clock.advance(1)
    sf.clock.advance("8d")
    await sf._store.write(upkeep.prune, PruneRequest())  # noqa: SLF001
    left = {name: len(await sf.inbox.list(name, unread=False)) for name in ("old", "unread", "full")}
    assert left == {"old": 0, "unread": 1, "full": 2}
    sf.clock.advance("90d")
    await sf._store.write(upkeep.prune, PruneRequest())  # noqa: SLF001
    assert await sf.inbox.list("unread", unread=False) == []


async def test_jobs_of_a_session_are_listed_and_what_a_handler_enqueues_is_its_sessions(sf):
    seen: list[Any] = []

    @sf.handler("outer")
    async def outer(_job):
        seen.append(current_session())
        await sf.enqueue("inner", "mine")
        await sf.enqueue("inner", "theirs", session="other")
        await sf.enqueue("inner", "nobody's", session="")

    @sf.handler("inner")
    def inner(job):
        seen.append((job.payload, current_session(), job.session))

    await sf.enqueue("outer", session="s")
    await drain(sf)
    assert seen[0] == "s"
    assert sorted(seen[1:]) == [("mine", "s", "s"), ("nobody's", None, None), ("theirs", "other", "other")]
    assert {job.queue for job in await sf.jobs(session="s")} == {"outer", "inner"}
    assert [job.payload for job in await sf.jobs(session="other")] == ["theirs"]
    assert [job.queue for job in await sf.jobs(session="s", queue="inner", state="completed")] == ["inner"]
    hostile = 'a "quoted\\" name\\'
    await sf.enqueue("inner", "hostile", session=hostile, requester='"session":"s"')
    assert [job.payload for job in await sf.jobs(session=hostile)] == ["hostile"]
    assert len(await sf.jobs(session="s")) == 2
    assert current_session() is None


async def test_checks_look_for_the_session_whoever_asks(sf):
    seen = []

    def there(_job):
        seen.append(current_session())
        return False

    @sf.handler("mail", replay="verify_first", effects=[Effect("ticket", there)])
    async def mail(_job):
        raise Permanent("no")

    job_id = await ran(sf)
    await sf.dead_letters.replay(job_id, by="anna")  # looks here, then in the worker
    await drain(sf)
    assert seen == ["s", "s"]
    assert current_session() is None


async def test_a_superseded_job_leaves_the_word_to_its_successor(sf):
    sf.queue("mail", backoff=lambda _: 60)
    words = flaky(sf)
    sf.queue("mail", attempts=3, backoff=lambda _: 60, coalesce="latest")
    await ran(sf, "later", thread_key="t")
    await ran(sf, "fine", thread_key="t")
    assert words == ["later", "fine"]
    assert await sf.inbox.list("s", unread=False) == []


IN_QUARANTINE = (
    "It is in quarantine: nothing replays it automatically until its owner (team-x) or another operator replays, "
    "amends, resolves or discards it."
)


@pytest.mark.parametrize("by_policy", [True, False])
async def test_a_letter_in_quarantine_says_so_and_names_its_owner(sf, *, by_policy):
    sf.queue("mail", attempts=1)

    @sf.handler("mail")
    def mail(_job):
        raise Permanent("no such account")

    if by_policy:
        rule = "{match: {queue: mail}, action: quarantine, owner: team-x}"
        await sf.policy.load(f"version: v1\ndlq_rules: [{rule}]")
    receipt = await sf.enqueue("mail", session="s")
    await drain(sf)
    if not by_policy:
        await sf.dead_letters.quarantine(receipt.id, by="ann", reason="theirs", owner="team-x")
    job = await job_of(sf, receipt.id)
    failure = failure_of(job)
    assert reply(job)["hint"] == f"It failed permanently. {IN_QUARANTINE} Do not ask for a retry; tell team-x."
    assert failure.advice.startswith(f"{IN_QUARANTINE} ")
    assert IN_QUARANTINE in await sf.explain(receipt.id)
    [message] = await sf.inbox.list("s")
    if by_policy:
        assert message["hint"] == f"It was not done. {failure.advice} Do not call retry; tell team-x."
        assert message["advice"] == failure.advice


async def test_a_label_named_session_puts_no_job_into_a_session(sf):
    sf.queue("mail")
    labelled = await sf.enqueue("mail", labels={"session": "s"})
    own = await sf.enqueue("mail", session="s", labels={"session": "other"})
    assert labelled.id != own.id
    assert (await sf.inbox.overview("s"))["jobs"] == {"queued": 1}
    assert (await sf.inbox.overview("other"))["jobs"] == {}
    assert [job.id for job in await sf.jobs(session="s")] == [own.id]
