"""Replays: the same job in a new round, exactly once, however many ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from standfast import (
    Cancel,
    ConfigurationError,
    Permanent,
    QueueRules,
    Snooze,
    Standfast,
    Transient,
    UnknownJob,
    fixed,
)
from standfast.failure import Class
from standfast.outcome import Lapsed, NotEntered, Succeeded
from standfast.spine.apply import apply
from standfast.testing import drain, memory
from standfast.testing.kit import InMemory
from standfast.wings.notices.words import Notice
from tests.store import behind
from tests.store.processes import Processes
from tests.store.suite import claim_one, ended, everything, failed, one, publish, replayed, seen, states, swept
from tests.waiting import failure_of, job_of

START = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = ("job", "body", "ending", "history", "journal", "counter", "idempotency")


@pytest.fixture
async def sf() -> AsyncIterator[InMemory]:
    """Give a queue whose handler fails as its payload says."""
    async with memory() as app:
        app.queue("mail", attempts=2, backoff=fixed(10))

        @app.handler("mail")
        async def mail(job):
            match job.payload:
                case {"fail": "transient"}:
                    raise Transient("no answer", reason_code="timeout")
                case {"fail": code}:
                    raise Permanent("refused", reason_code=code)
            return "sent"

        @app.handler("chat")
        async def chat(_job):
            raise RuntimeError("broken")

        yield app


async def dead(sf: InMemory, fail: str = "denied", **options) -> str:
    """Have a letter; give its id."""
    receipt = await sf.enqueue("mail", {"fail": fail}, **options)
    assert receipt.id is not None
    await drain(sf)
    while (await job_of(sf, receipt.id)).state != "dead":
        sf.clock.advance(10)
        await drain(sf)
    return receipt.id


def rows(sf: Standfast) -> list[list[tuple[Any, ...]]]:
    return everything(partial(behind.rows, sf._store), *TABLES)  # noqa: SLF001 - to see that looking leaves no trace


# --- looking


async def test_letters_are_filtered_and_paged_and_looking_consumes_nothing(sf):
    """Capability 65."""
    ids = [await dead(sf, code) for code in ("denied", "schema_invalid", "transient")]
    await sf.enqueue("chat", {})
    for _ in range(5):
        await drain(sf)
        sf.clock.advance(400)
    await sf.enqueue("mail", {})
    before = rows(sf)
    [chat, *others] = await sf.dead_letters.list()
    assert [letter.id for letter in others] == ids[::-1], "newest first"

    async def found(**wanted: str | float) -> list[str]:
        return [
            letter.id
            for letter in await sf.dead_letters.list({"class": wanted.pop("cls")} if "cls" in wanted else wanted)
        ]

    assert await found(queue="chat") == [chat.id]
    assert await found(reason_code="denied") == [ids[0]]
    assert await found(cls="permanent") == [ids[1], ids[0]]
    assert await found(cls="transient") == [ids[2]]
    assert await found(landed="maybe") == [chat.id]
    assert await found(replay_status="quarantined") == [ids[1]]
    assert await found(fingerprint="unknown") == []
    assert await found(older_than="30m") == ids[::-1]
    assert await found(queue="mail", landed="maybe") == []
    first = await sf.dead_letters.list(limit=3)
    assert ([letter.id for letter in first], first.next_cursor is None) == ([chat.id, *ids[:0:-1]], False)
    last = await sf.dead_letters.list(limit=3, cursor=first.next_cursor)
    assert ([letter.id for letter in last], last.next_cursor) == ([ids[0]], None)
    assert (await sf.dead_letters.get(ids[0])) == await sf.status(ids[0])
    await sf.explain(ids[0])
    await sf.stats()
    assert rows(sf) == before


async def test_an_unknown_filter_is_refused(sf):
    with pytest.raises(
        ConfigurationError, match="unknown filter 'colour'; known are class, queue, handler, state, reason_code"
    ):
        await sf.dead_letters.list({"colour": "red"})
    with pytest.raises(ConfigurationError, match="not a duration"):
        await sf.dead_letters.list({"older_than": "soon"})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"class": "x"}, "unknown class 'x'; known are transient, permanent, unknown"),
        ({"landed": "yes"}, "unknown landed 'yes'; known are no, maybe"),
        ({"replay_status": "replay"}, "unknown replay_status 'replay' .*'replayed'"),
    ],
)
async def test_a_word_that_no_letter_has_is_refused(sf, wrong, words):
    """An empty page would say that there is none."""
    with pytest.raises(ConfigurationError, match=words):
        await sf.dead_letters.list(wrong)


async def test_what_is_no_letter_is_refused_by_name(sf):
    receipt = await sf.enqueue("mail", {})
    for ask in (sf.dead_letters.get(receipt.id), sf.dead_letters.replay(receipt.id, by="ann")):
        with pytest.raises(UnknownJob, match=f"job {receipt.id} is not a letter: it is queued"):
            await ask
    with pytest.raises(UnknownJob, match="no job has the id 'x'"):
        await sf.dead_letters.get("x")


# --- replaying


async def test_a_replay_is_the_same_job_in_a_new_round(sf):
    job_id = await dead(sf, "transient", idempotency_key="k", labels={"team": "a"})
    before = await sf.dead_letters.get(job_id)
    assert (before.attempts, before.max_attempts, before.replays) == (2, 2, 0)
    sf.clock.advance(60)
    answer = await sf.dead_letters.replay(job_id, by="ann", reason="receiver is back")
    assert answer == {"outcome": "replayed", "rule": "built-in", "why": "receiver is back"}
    after = await job_of(sf, job_id)
    for name in ("id", "payload", "payload_sha256", "idempotency_key", "labels", "generation", "created_at"):
        assert getattr(after, name) == getattr(before, name), name
    assert (after.state, after.attempts, after.max_attempts, after.replays) == ("queued", 2, 4, 1)
    assert after.history[:-1] == before.history
    assert (after.finished_at, after.last_entered_at) == (None, START + timedelta(seconds=70))
    assert after.triage is not None
    assert after.triage.replay_status == "replayed"
    assert (await sf.enqueue("mail", {"fail": "transient"}, idempotency_key="k")).outcome == "duplicate"


async def test_dying_again_keeps_lineage_and_first_cause(sf):
    """Capability 70."""
    job_id = await dead(sf, "transient")
    first = await job_of(sf, job_id)
    for replays, attempts in ((1, 4), (2, 6)):
        await sf.dead_letters.replay(job_id, by="ann")
        await drain(sf)
        waiting = await job_of(sf, job_id)
        assert waiting.view == "retry_pending"
        assert failure_of(waiting).reason_code == "timeout", "the last attempt's, no longer the letter's"
        sf.clock.advance(10)
        await drain(sf)
        again = await job_of(sf, job_id)
        assert (again.state, again.reason, again.replays) == ("dead", "max_attempts", replays)
        assert (again.attempts, again.max_attempts) == (attempts, attempts)
        assert (again.first_failure, again.first_seen_at) == (first.first_failure, first.first_seen_at)
        tried = [line.attempt for line in again.history if line.reason_code != "replayed"]
        assert tried == list(range(1, attempts + 1))
        assert again.history[:2] == first.history
        assert again.triage == first.triage


async def test_a_replay_that_completes_leaves_its_history(sf):
    job_id = await dead(sf, "transient")
    sf._registry.find("mail", "mail").function = _well  # noqa: SLF001 - the receiver is mended
    await sf.dead_letters.replay(job_id, by="ann")
    await drain(sf)
    done = await job_of(sf, job_id)
    assert (done.state, done.failure, done.replays, len(done.history)) == ("completed", None, 1, 3)
    assert done.triage is not None
    assert done.triage.replay_status == "replayed"


async def _well(_job):
    return "sent"


async def test_a_replay_stands_in_the_history_with_who_asked_and_why(sf):
    job_id = await dead(sf)
    await sf.dead_letters.replay(job_id, by="ann", reason="ticket 42")
    *_, line = (await job_of(sf, job_id)).history
    assert (line.reason_code, line.attempt, line.by, line.reason) == ("replayed", 1, "ann", "ticket 42")
    assert (line.possible_duplicate, line.cls, line.worker) == (False, None, None)


async def test_a_replay_of_what_may_have_landed_is_a_possible_duplicate_before_it_starts(sf):
    receipt = await sf.enqueue("chat", {}, attempts=1)
    await drain(sf)
    await sf.dead_letters.replay(receipt.id, by="ann")
    *_, line = (await job_of(sf, receipt.id)).history
    assert (line.reason_code, line.possible_duplicate) == ("replayed", True)


@pytest.mark.parametrize(("died_after", "kept"), [(60, True), (600, False)])
async def test_a_replay_drops_only_an_expiry_that_is_past(sf, died_after, kept):
    """Whoever replays what expired wants it all the same; a limit that still lies ahead still holds."""
    until = sf.clock.wall() + 300
    job_id = await dead(sf, expires=until)
    sf.clock.advance(died_after)
    await sf.dead_letters.replay(job_id, by="ann")
    expires_at = (await job_of(sf, job_id)).expires_at
    assert (None if expires_at is None else expires_at.timestamp()) == (until if kept else None)
    sf.clock.advance(3600)
    await drain(sf)
    assert (await job_of(sf, job_id)).reason == ("expired" if kept else "denied")


@pytest.mark.parametrize(
    ("waited", "max_age", "limit"),
    [(60, None, 300), (300, None, None), (60, 100.0, 160), (60, 900.0, 300), (300, 100.0, 400)],
)
async def test_a_replay_ends_at_the_earlier_of_its_expiry_and_its_queues_age(store, clock, waited, max_age, limit):
    publish(store, mail=QueueRules(max_age=max_age))
    job_id = await one(store, expires=clock.wall() + 300)
    await ended(store, await claim_one(store), failed(Class.PERMANENT))
    clock.advance(waited)
    await replayed(store, job_id)
    expires_at = (await seen(store, job_id)).expires_at
    assert expires_at == (None if limit is None else START + timedelta(seconds=limit))


# --- exactly once


async def test_twenty_callers_in_four_processes_replay_once(tmp_path: Path, processes: Processes):
    """Capability 71."""
    path = str(tmp_path / "queue.db")
    async with Standfast(path) as app:
        app.queue("mail", attempts=1)

        @app.handler("mail")
        async def mail(_job):
            raise Permanent("refused")

        receipt = await app.enqueue("mail", {})
        await drain(app)
        assert receipt.id is not None
        others = [processes.ready("replay_at_once", path, receipt.id, "5") for _ in range(4)]
        for other in others:
            other.go()
        answers = [word for other in others for word in other.hear()]
        assert len(answers) == 20
        assert set(answers) <= {"replayed", "somebody else was first"}
        assert "replayed" in answers
        told = await _told(app, "replayed")
        assert [notice.job for notice in told] == [receipt.id]
        job = await job_of(app, receipt.id)
        assert (job.state, job.replays, job.max_attempts) == ("queued", 1, 2)
        assert await drain(app) == {"mail": 1}


async def _told(app: Standfast, kind: str) -> list[Notice]:
    """Give every notice of a kind so far; one of our own marks the end."""
    await app.queues.pause("mail")
    await app.queues.resume("mail")
    told = []
    async for notice in app.subscribe(kinds=[kind, "resumed"], after=0):
        if notice.kind == "resumed":
            break
        told.append(notice)
    return told


def name_of(outcome: object) -> str:
    return type(outcome).__name__


@pytest.mark.parametrize(
    "outcome", [Succeeded(), failed(), Snooze(60), Cancel(), NotEntered("draining"), Lapsed()], ids=name_of
)
async def test_a_worker_whose_job_was_given_up_and_replayed_cannot_end_it(store, look, outcome):
    """The job died behind its back and somebody replayed the letter: the new round is not its own, whatever it says."""
    publish(store, mail=QueueRules(attempts=2))
    job_id = await one(store)
    late = await claim_one(store)
    await ended(store, late, failed(Class.PERMANENT))
    await replayed(store, job_id)
    before = everything(look)
    assert not await ended(store, late, outcome)
    assert everything(look) == before
    assert (await claim_one(store)).token > late.token


async def test_whoever_decided_about_an_earlier_death_does_not_replay_the_next_one(store, clock):
    """Also if the job died again without having been claimed, so that only the replay came between."""
    publish(store, mail=QueueRules(max_age=60.0))
    job_id = await one(store)
    await ended(store, await claim_one(store), failed(Class.PERMANENT))
    late = await replayed(store, job_id)
    clock.advance(61)
    await swept(store)
    assert await states(store, job_id) == ["dead"]
    assert await store.write_all(apply, [late]) == [False]
    assert (await states(store, job_id), (await seen(store, job_id)).replays) == (["dead"], 1)


# --- retry, by state


async def test_retry_makes_a_waiting_job_due_now(sf):
    receipt = await sf.enqueue("mail", {"fail": "transient"})
    await drain(sf)
    reply = await sf.retry(receipt.id)
    assert (reply["status"], reply["queued_for_retry"], reply["reason_code"]) == ("queued", True, "timeout")
    assert await drain(sf) == {"mail": 1}, "without waiting for the backoff"
    scheduled = await sf.enqueue("mail", {}, delay=60)
    await sf.retry(scheduled.id)
    await drain(sf)
    assert (await job_of(sf, scheduled.id)).state == "completed"


async def test_retry_of_a_due_job_does_not_cost_it_its_place(sf):
    receipt = await sf.enqueue("mail", {})
    sf.clock.advance(60)
    await sf.retry(receipt.id)
    assert (await job_of(sf, receipt.id)).ready_at == START


async def test_retry_of_a_letter_is_a_replay(sf):
    job_id = await dead(sf)
    replies = await asyncio.gather(*(sf.retry(job_id) for _ in range(5)))
    assert [reply["status"] for reply in replies] == ["queued"] * 5
    assert (await job_of(sf, job_id)).replays == 1


async def test_retry_of_what_is_final_answers_with_its_end(sf):
    """Capability 49."""
    done = await sf.enqueue("mail", {})
    await drain(sf)
    assert await sf.retry(done.id) == {
        "operation_id": done.id,
        "status": "ok",
        "hint": "Nothing was retried. It is done; the result is here.",
        "result": "sent",
        "refused": True,
    }
    gone = await sf.enqueue("mail", {})
    await sf.cancel(gone.id)
    assert (await sf.retry(gone.id))["status"] == "cancelled"
    assert await drain(sf) == {}
    with pytest.raises(UnknownJob):
        await sf.retry("x")
