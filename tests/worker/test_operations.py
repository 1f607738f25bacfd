"""What people do while workers work: cancel, pause, explain, listen."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime
from typing import Any

import pytest

from standfast import ConfigurationError, QueueRules, Standfast, Transient, UnknownJob, UnknownQueue, fixed
from standfast.lifecycle import State
from standfast.outcome import Drained, Lapsed
from standfast.spine.accept import user
from standfast.testing import drain
from standfast.wings.health import scripts as health_scripts
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.notices.words import Notice
from standfast.wings.records import reads
from standfast.worker import upkeep
from standfast.worker import worker as worker_module
from standfast.worker.upkeep import PruneRequest, WorkerCard
from tests.store.suite import claim_one, failed
from tests.store.suite import ended as settled
from tests.waiting import ended, job_of, reached, seen
from tests.worker.counted import counting
from tests.worker.inside import deaf, idle, known_queues, looked, store_of
from tests.worker.processes import children

SOON = 5.0
"""Less than the ten seconds between two heartbeats."""


# --- cancel


@pytest.mark.parametrize("state", ["queued", "scheduled", "parked", "dead"])
async def test_what_does_not_run_is_cancelled_at_once(sf, state):
    @sf.handler("mail")
    async def mail(_job):
        return {"success": False, "error": "no", "error_kind": "validation"}

    if state == "parked":
        sf.queue("mail", coalesce="never")
        await sf.enqueue("mail", {}, thread_key="t")
    receipt = await sf.enqueue("mail", {}, thread_key="t", delay=60 if state == "scheduled" else 0)
    if state == "dead":
        sf.queue("mail", attempts=1)
        await drain(sf)
    assert state in {(await job_of(sf, receipt.id)).view, (await job_of(sf, receipt.id)).state}
    gone = await sf.cancel(receipt.id, by="bea")
    assert (gone.state, gone.history[-1].by) == ("cancelled", "bea")
    again = await sf.cancel(receipt.id)
    assert (again.state, again.finished_at) == ("cancelled", (await job_of(sf, receipt.id)).finished_at)
    assert (await sf.stats())["counters"]["cancelled"] == 1
    with pytest.raises(UnknownJob):
        await sf.cancel("x")


async def test_a_running_handler_is_cancelled_and_its_job_ends_cancelled(sf):
    begun, cut = asyncio.Event(), asyncio.Event()

    @sf.handler("mail")
    async def mail(job):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert job.cancelled
            cut.set()

    receipt = await sf.enqueue("mail", {})
    async with sf.worker():
        await begun.wait()
        assert (await sf.cancel(receipt.id)).state in {"running", "cancelled"}  # a request; it may be heard at once
        job = await ended(sf, receipt.id, within=SOON)
    assert cut.is_set()
    assert (job.state, job.warning) == ("cancelled", "cancelled while it ran")
    assert [kind async for kind in told(sf, 3)] == ["enqueued", "claimed", "cancel_asked"]


async def told(sf: Standfast, number: int) -> Any:
    async for notice in sf.subscribe(after=0):
        yield notice.kind
        number -= 1
        if not number:
            return


async def test_an_attempt_that_succeeds_all_the_same_is_completed(sf):
    begun = asyncio.Event()

    @sf.handler("mail")
    async def mail(_job):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "sent"

    receipt = await sf.enqueue("mail", {})
    async with sf.worker():
        await begun.wait()
        await sf.cancel(receipt.id)
        job = await ended(sf, receipt.id, within=SOON)
    assert (job.state, job.result) == ("completed", "sent")


async def test_a_plain_function_sees_that_it_is_not_wanted(sf):
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    @sf.handler("mail")
    def mail(job):
        loop.call_soon_threadsafe(begun.set)
        give_up = time.monotonic() + 10
        while not job.cancelled and time.monotonic() < give_up:
            time.sleep(0.005)
        raise Transient("stopped" if job.cancelled else "never told")

    receipt = await sf.enqueue("mail", {})
    async with sf.worker():
        await begun.wait()
        await sf.cancel(receipt.id)
        assert (await ended(sf, receipt.id, within=SOON)).state == "cancelled"


async def test_cancel_reaches_another_process_before_its_next_heartbeat(disk, url, log):
    receipt = await disk.enqueue("mail", {"name": "a", "do": "hang"})
    with children(url, log):
        await seen(log.lines)
        await disk.cancel(receipt.id)
        assert (await ended(disk, receipt.id, within=SOON)).state == "cancelled"


async def test_whether_its_worker_heard_of_it_or_not_an_unwanted_job_leaves_the_same_record(sf):
    """Its effect may exist, and nothing is repeated; the queue of no name that brought the request is none to serve."""
    begun = asyncio.Event()

    @sf.handler("mail")
    async def mail(_job):
        begun.set()
        await asyncio.Event().wait()

    heard = await sf.enqueue("mail", {})
    async with sf.worker() as worker:
        await begun.wait()
        await sf.cancel(heard.id)
        await ended(sf, heard.id, within=SOON)
        assert "" not in known_queues(worker)
    unheard = await sf.enqueue("mail", {})
    claim = await claim_one(store_of(sf))
    await sf.cancel(unheard.id)
    await settled(store_of(sf), claim, Lapsed())
    records = [await job_of(sf, receipt.id) for receipt in (heard, unheard)]
    assert [(job.state, job.warning, job.attempts) for job in records] == [
        ("cancelled", "cancelled while it ran", 1)
    ] * 2
    asked, lines = ([job.history[at] for job in records] for at in (0, 1))
    assert [(line.reason_code, line.attempt, line.by) for line in asked] == [("cancel_asked", 1, user())] * 2
    assert [(line.attempt, line.landed, line.possible_duplicate) for line in lines] == [(1, "maybe", False)] * 2
    assert [line.reason_code for line in lines] == ["cancelled", "worker_lost"]


async def test_a_cancelled_attempt_that_a_drain_cut_may_have_landed_too(sf):
    receipt = await sf.enqueue("mail", {})
    claim = await claim_one(store_of(sf))
    await sf.cancel(receipt.id, by="bea")
    await settled(store_of(sf), claim, Drained())
    job = await job_of(sf, receipt.id)
    [asked, line] = job.history
    assert (asked.reason_code, asked.by, asked.landed) == ("cancel_asked", "bea", None)
    assert (job.state, line.reason_code, line.landed) == ("cancelled", "cancelled", "maybe")
    assert not line.possible_duplicate


@pytest.mark.parametrize("limit", [0, -5])
async def test_a_page_of_nothing_is_refused(sf, limit):
    for ask in (sf.jobs, sf.dead_letters.list):
        with pytest.raises(ConfigurationError, match=f"limit must be at least 1, not {limit}"):
            await ask(limit=limit)


@pytest.mark.parametrize("cursor", ["01a1e1ff-5ba9-774a-a110-131b07c03a16", "zz", 0, -1, True, 1.5])
async def test_a_cursor_that_no_page_gave_is_refused(sf, cursor):
    """Text compares with every number alike: the first page would come again for ever."""
    for ask in (sf.jobs, sf.dead_letters.list):
        with pytest.raises(ConfigurationError, match="cursor must be at least 1, the last page's next_cursor, not"):
            await ask(cursor=cursor)


async def test_a_state_that_is_none_is_refused(sf):
    with pytest.raises(ConfigurationError, match=r"state 'runing' \(did you mean 'running'\?\); known are queued"):
        await sf.jobs(state="runing")
    assert await sf.jobs(state="running") == []


async def test_a_receipt_is_no_id(sf):
    receipt = await sf.enqueue("mail")
    letters = sf.dead_letters
    calls = [sf.status, sf.result, sf.explain, sf.retry, sf.cancel, letters.get]
    calls += [lambda it: sf.audit.entries(job=it), lambda it: sf.audit.last(5, job=it)]
    for call in (*calls, lambda it: sf.wait(it, 1), lambda it: letters.replay(it, by="ann")):
        for wrong in (receipt, 5, "nul\0", "\ud800"):
            with pytest.raises(ConfigurationError, match=r"pass receipt\.id"):
                await call(wrong)
    assert (await job_of(sf, receipt.id)).state == State.QUEUED
    assert await sf.status(None) is None


@pytest.mark.parametrize("outcome", [Lapsed(), failed()])
async def test_an_unwanted_job_does_not_go_on_because_its_worker_never_heard_of_it(sf, outcome):
    """A lost worker, or an attempt that failed before the request arrived, ends what was asked to end."""
    receipt = await sf.enqueue("mail", {})
    claim = await claim_one(store_of(sf))
    await sf.cancel(receipt.id)
    assert await settled(store_of(sf), claim, outcome)
    job = await job_of(sf, receipt.id)
    assert (job.state, job.warning) == ("cancelled", "cancelled while it ran")
    assert job.history[-1].landed == outcome_landed(outcome), "what is known of its effect is kept"


def outcome_landed(outcome: Any) -> str:
    return "maybe" if isinstance(outcome, Lapsed) else "no"


@pytest.mark.parametrize("then", ["claimed", "given back"])
async def test_cancel_lands_although_the_job_moved_meanwhile(sf, monkeypatch, then):
    """Between the look and the write a worker may claim it, or its attempt may end."""
    sf.queue("mail", backoff=fixed(10))
    receipt = await sf.enqueue("mail", {})
    store = store_of(sf)
    if then == "claimed":
        stale = await store.read(reads.job(receipt.id, store.boot()))
        await claim_one(store)
    else:
        claim = await claim_one(store)
        stale = await store.read(reads.job(receipt.id, store.boot()))
        await settled(store, claim, failed())
    real, old = reads.job, [stale]

    def job(job_id: str, boot: str | None = None) -> Any:
        return old.pop() if old else (yield from real(job_id, boot))

    monkeypatch.setattr(reads, "job", job)
    view = await sf.cancel(receipt.id)
    assert view.state == (State.RUNNING if then == "claimed" else State.CANCELLED)
    assert (await sf.stats())["counters"].get("cancel_asked", 0) == (then == "claimed")


async def test_retry_of_a_parked_job_says_what_it_waits_for(sf):
    sf.queue("crm", breaker={"dependency": "crm", "failures": 1})

    @sf.handler("crm")
    def down(_job):
        raise Transient("no answer")

    await sf.enqueue("crm")
    await drain(sf)
    receipt = await sf.enqueue("crm")
    await drain(sf)
    reply = await sf.retry(receipt.id)
    assert (await job_of(sf, receipt.id)).view == "parked"
    assert (reply["status"], reply["operation_id"]) == ("queued", receipt.id)
    assert reply["hint"].startswith("It was not started: It waits for crm, which failed 1 time in a row")
    assert "waits in the queue" not in reply["hint"]


async def test_retry_is_refused_while_running(sf):
    """Capability 49."""
    receipt = await sf.enqueue("mail", {})
    await claim_one(store_of(sf))
    reply = await sf.retry(receipt.id)
    assert (reply["status"], reply["refused"]) == ("running", True)
    assert reply["hint"].startswith("Nothing was retried. It is not done yet")
    assert (await job_of(sf, receipt.id)).attempts == 1


# --- pause


async def test_a_pause_holds_for_every_process_and_resume_is_heard(disk, url, log):
    await disk.enqueue("mail", {"name": "early", "do": "none"})
    await disk.queues.pause("mail")
    with children(url, log):
        await disk.enqueue("print", {"name": "other"})
        await seen(lambda: log.lines(name="other"))
        assert log.lines(name="early") == []
        assert (await disk.stats())["queues"]["mail"]["paused"] is True
        await disk.queues.resume("mail")
        await seen(lambda: log.lines("end", "early"), within=SOON)


async def test_a_resume_is_found_although_its_hint_was_lost(disk, monkeypatch):
    monkeypatch.setattr(worker_module, "POLL_EVERY", 0.05)

    @disk.handler("mail")
    async def mail(_job):
        return "sent"

    receipt = await disk.enqueue("mail", {})
    await disk.queues.pause("mail")
    async with disk.worker() as worker:
        with deaf(disk, worker):
            end = await store_of(disk).read(journal_scripts.journal_end())
            await seen(lambda: idle(worker) and looked(worker) == end)
            assert (await job_of(disk, receipt.id)).state == "queued"
            await disk.queues.resume("mail")
            assert (await ended(disk, receipt.id, within=SOON)).state == "completed"


async def test_an_unknown_queue_is_refused(sf):
    for ask in (sf.queues.pause, sf.queues.resume):
        with pytest.raises(UnknownQueue, match="'nowhere'"):
            await ask("nowhere")
    sf.queue("mail")
    await sf.queues.pause("mail")
    assert "mail" in await sf.queues.list()
    assert "nowhere" not in await sf.queues.list()


async def test_a_queue_is_known_by_its_handler_alone(disk, url):
    """Nobody declared rules or enqueued anything: others see it all the same, and can pause it."""
    disk.handler("mail")(print)
    disk.handler("mail", name="other")(print)
    await disk.open()
    async with Standfast(url) as other:
        assert await other.queues.list() == ["mail"]
        assert (await other.queues.describe())["mail"]["rules"] == QueueRules()
        assert (await other.stats())["queue_depths"] == {"mail": 0}
        assert (await other.health())["issues"] == []
        await other.queues.pause("mail")
    await disk.close()
    await disk.open()
    assert (await disk.queues.describe())["mail"]["paused"], "publishing it again changes nothing"


# --- explain


async def test_explain_reads_the_store(sf):
    """Capability 106: the sentences are tested by themselves; here, that the facts get there."""
    sf.queue("mail", attempts=1, coalesce="never")
    first = await sf.enqueue("mail", {}, thread_key="t")
    parked = await sf.enqueue("mail", {}, thread_key="t")
    assert "has declared a handler 'mail'" in await sf.explain(first.id)
    assert "thread:mail:t" in await sf.explain(parked.id)

    @sf.handler("mail")
    async def mail(_job):
        raise RuntimeError("the disk is full")

    assert "No live worker serves queue mail" in await sf.explain(first.id)
    await sf.queues.pause("mail")
    assert "Queue mail is paused" in await sf.explain(first.id)
    await sf.queues.resume("mail")
    later = await sf.enqueue("mail", {}, delay=60)
    assert "due in 1 min" in await sf.explain(later.id)
    await drain(sf)
    sf.clock.advance(30)
    sentence = await sf.explain(first.id)
    assert (
        "dead for 30 s, after 1 attempt: max_attempts, caused by unclassified_error (RuntimeError: the disk" in sentence
    )
    with pytest.raises(UnknownJob):
        await sf.explain("x")


# --- notices


async def first(number: int, source: Any) -> list[Notice]:
    found = []
    async for notice in source:
        found.append(notice)
        if len(found) == number:
            return found
    raise AssertionError


async def test_notices_come_in_commit_order_and_resume_anywhere(sf):
    """Capability 99, also in the middle of what one transaction told."""

    @sf.handler("mail")
    async def mail(job):
        if job.payload == 1:
            raise Transient("no")

    ids = [receipt.id for receipt in await sf.enqueue_many("mail", [0, 1, 2])]
    await sf.enqueue("chat", 0)
    await sf.worker().run_due()  # all of them in one claim
    whole = await first(10, sf.subscribe(after=0))
    assert [(each.kind, each.queue) for each in whole[:7]] == [
        *[("enqueued", "mail")] * 3,
        ("enqueued", "chat"),
        *[("claimed", "mail")] * 3,
    ]
    assert [each.job for each in whole[:3]] == ids
    assert {(each.kind, each.job) for each in whole[7:]} == {
        ("completed", ids[0]),
        ("retry", ids[1]),
        ("completed", ids[2]),
    }
    assert [each.seq for each in whole] == sorted({each.seq for each in whole})
    for place in range(9):
        assert await first(9 - place, sf.subscribe(after=whole[place].seq)) == whole[place + 1 :]


async def test_notices_that_were_pruned_before_they_were_read_are_told_as_a_gap(sf):
    await sf.enqueue("mail", 1)
    [known] = await first(1, sf.subscribe(after=0))
    await sf.enqueue("mail", 2)
    await sf.enqueue("mail", 3)
    sf.clock.advance(2 * 86400)
    await sf.enqueue("mail", 4)
    assert len(await first(4, sf.subscribe(after=0))) == 4
    await store_of(sf).write(upkeep.prune, PruneRequest())
    await sf._journals.close()  # noqa: SLF001 - as in a process that did not see them
    gap, following = await first(2, sf.subscribe(after=known.seq))
    assert (gap.kind, gap.job, gap.data, following.kind) == (
        *("gap", None),
        *({"transactions": 2, "oldest": following.seq}, "enqueued"),
    )
    assert await first(1, sf.subscribe(after=gap.seq)) == [following]
    [told] = await first(1, sf.subscribe(["completed"], "chat", after=known.seq))
    assert told == gap, "whoever asked for less may have missed it too"
    [oldest] = await first(1, sf.subscribe(after=0))
    assert oldest == following, "nobody who begins anew has missed anything"


async def test_notices_are_filtered_and_an_unknown_kind_is_refused(sf):
    for queue in ("mail", "chat", "mail"):
        await sf.enqueue(queue, {}, thread_key="t", coalesce="latest")
    await claim_one(store_of(sf), "chat")
    kinds = [(each.kind, each.queue) for each in await first(2, sf.subscribe(["claimed", "coalesced"], after=0))]
    assert kinds == [("coalesced", "mail"), ("claimed", "chat")]
    [notice] = await first(1, sf.subscribe(queue="chat", after=0))
    assert (notice.kind, notice.queue) == ("enqueued", "chat")
    with pytest.raises(ConfigurationError, match="unknown notice 'born'; known are enqueued, coalesced"):
        await first(1, sf.subscribe(["born"]))


async def test_notices_of_other_processes_come_as_they_happen(disk, url, log):
    async with asyncio.timeout(20):
        with children(url, log):
            await disk.enqueue("chat", {})
            listening = asyncio.create_task(first(1, disk.subscribe(["completed"])))
            receipt = await disk.enqueue("mail", {"name": "a", "do": 0.3})
            [notice] = await listening
            assert (notice.job, notice.queue) == (receipt.id, "mail")


# --- stats


async def test_stats_count_what_is_there(sf):
    """Capability 97."""
    sf.queue("mail", coalesce="never")
    for _ in range(3):
        await sf.enqueue("mail", {}, thread_key="t")
    await sf.enqueue("mail", {}, delay=60)
    await claim_one(store_of(sf))
    sf.clock.advance(5)
    await sf.enqueue("mail", {})
    await reached(sf, (await sf.enqueue("chat", {})).id, "queued")
    stats = await sf.stats()
    mail = stats["queues"]["mail"]
    assert (mail["due"], mail["running"], mail["scheduled"], mail["parked"]) == (1, 1, 1, 2)
    assert (stats["total_pending"], stats["total_processing"], stats["oldest_pending_seconds"]) == (
        2,
        1,
        5.0,
    )  # two wait for their thread
    assert stats["queue_depths"] == {"mail": 1, "chat": 1}
    assert datetime.fromisoformat(stats["next_retry_at"]).timestamp() == sf.clock.wall() + 55
    assert json.loads(json.dumps(stats)) == stats
    assert stats["counters"] == {"enqueued": 6, "claimed": 1}


async def test_explain_says_that_no_live_worker_has_the_handler(sf):
    """As in a deployment that is half done: the new code enqueues, and only old workers run."""
    counting(sf)
    sf.handler("mail", name="two")(lambda _job: None)
    waits = await sf.enqueue("mail", 1, handler="two")
    await store_of(sf).write(upkeep.beat, WorkerCard("old", "host", 1, '["mail"]', '{"mail/mail": {}}'))
    assert "1 live worker serves queue mail without handler 'two'" in await sf.explain(waits.id)
    await store_of(sf).write(upkeep.beat, WorkerCard("new", "host", 2, '["mail"]', '{"mail/two": {}}'))
    assert "without handler" not in await sf.explain(waits.id)


async def test_explain_names_only_handlers_that_block_a_worker_of_the_jobs_own_queue(sf):
    async def beat(worker: str, queues: str, blocked_by: str | None = None) -> None:
        card = WorkerCard(worker, "host", 1, queues, "{}", blocked_by=blocked_by)
        await store_of(sf).write(upkeep.beat, card)

    counting(sf)
    await beat("mails", '["mail"]')
    await beat("others", '["other"]', "other/sleeper")
    waits = await sf.enqueue("mail", 1)
    assert "blocked" not in await sf.explain(waits.id), "its worker is another one"
    await beat("both", '["mail", "other"]')
    assert "blocked" not in await sf.explain(waits.id), (
        "a worker that serves both queues is not the one that is blocked"
    )
    await beat("both", '["mail", "other"]', "other/sleeper")
    assert "blocked just now by other/sleeper" in await sf.explain(waits.id)
    assert [each for each in (await sf.health())["issues"] if "other/sleeper: blocks" in each], "health names it once"
    await claim_one(store_of(sf), worker="mails")
    assert "blocked" not in await sf.explain(waits.id), "what runs is slowed down by its own worker alone"


async def test_marks_of_workers_that_blocked_long_ago_are_forgotten(sf):
    for number in range(3):
        card = WorkerCard(f"worker-{number}", "host", number, '["mail"]', "{}", blocked_by="mail/sleeper")
        await store_of(sf).write(upkeep.beat, card)
        sf.clock.advance("50m")
    facts = await store_of(sf).read(health_scripts.facts(store_of(sf).now(), store_of(sf).boot(), silent_after=60))
    assert [name for name in facts.upkeep if name.startswith("blocked ")] == [
        "blocked worker-1 mail/sleeper",
        "blocked worker-2 mail/sleeper",
    ]
