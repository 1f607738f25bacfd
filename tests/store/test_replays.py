"""Replays: the same job in a new round, exactly once, however many ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from standfast import ConfigurationError, Permanent, Standfast, Transient, UnknownJob, fixed
from standfast.queue.notices import Notice
from standfast.testing import drain, memory
from standfast.testing.kit import InMemory
from tests.store.processes import Processes
from tests.store.suite import everything
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
    files: Any = sf._store._engine._files  # noqa: SLF001 - to see that looking leaves no trace

    def look(sql: str) -> list[tuple[Any, ...]]:
        return files.read(sql, lambda connection, text: connection.execute(text).fetchall()).result()  # type: ignore[no-any-return]

    return everything(look, *TABLES)


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
    with pytest.raises(ConfigurationError, match="unknown filter 'colour'; known are queue, reason_code"):
        await sf.dead_letters.list({"colour": "red"})
    with pytest.raises(ConfigurationError, match="no duration"):
        await sf.dead_letters.list({"older_than": "soon"})


async def test_what_is_no_letter_is_refused_by_name(sf):
    receipt = await sf.enqueue("mail", {})
    for ask in (sf.dead_letters.get(receipt.id), sf.dead_letters.replay(receipt.id, by="ann")):
        with pytest.raises(UnknownJob, match=f"job {receipt.id} is no letter: it is queued"):
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
    for name in ("id", "payload", "payload_sha256", "idempotency_key", "labels", "generation", "history", "created_at"):
        assert getattr(after, name) == getattr(before, name), name
    assert (after.state, after.attempts, after.max_attempts, after.replays) == ("queued", 2, 4, 1)
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
        assert [line.attempt for line in again.history] == list(range(1, attempts + 1))
        assert again.history[:2] == first.history
        assert again.triage == first.triage


async def test_a_replay_that_completes_leaves_its_history(sf):
    job_id = await dead(sf, "transient")
    sf._registry.find("mail", "mail").function = _well  # noqa: SLF001 - the receiver is mended
    await sf.dead_letters.replay(job_id, by="ann")
    await drain(sf)
    done = await job_of(sf, job_id)
    assert (done.state, done.failure, done.replays, len(done.history)) == ("completed", None, 1, 2)
    assert done.triage is not None
    assert done.triage.replay_status == "replayed"


async def _well(_job):
    return "sent"


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
        "hint": "It is done; the result is here.",
        "result": "sent",
    }
    gone = await sf.enqueue("mail", {})
    await sf.cancel(gone.id)
    assert (await sf.retry(gone.id))["status"] == "cancelled"
    assert await drain(sf) == {}
    with pytest.raises(UnknownJob):
        await sf.retry("x")
