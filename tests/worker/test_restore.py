"""Restore: nothing in a restored store happens by itself that may have happened since its backup."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from standfast import Permanent, Standfast
from standfast.application.wings import store_at
from standfast.testing import drain
from standfast.wings.backup.verbs import restore
from standfast.wings.policy import scripts as policies
from tests.waiting import job_of, seen

AUTO = """
version: v1
dlq_rules:
  - match: {{queue: mail}}
    action: auto_replay
    max_replays: 3
    backoff: {{base: {base}, cap: {base}}}
"""
DENY = """replay_rules:
  - match: {}
    decision: deny
    why: not today
"""
EVER = 1e9


@pytest.fixture
def url(path):
    """Name a file: this is about SQLite."""
    return path


@pytest.fixture
def copy(tmp_path):
    return str(tmp_path / "backup.db")


@pytest.fixture
def again(tmp_path):
    """Where a backup is restored to."""
    return str(tmp_path / "again.db")


def failing(sf: Standfast) -> None:
    """Declare a queue whose jobs die at once."""

    @sf.handler("mail")
    def mail(_job):
        raise Permanent("the provider is down")


def counting(sf: Standfast) -> list[str]:
    """Declare a queue whose jobs succeed; return the ids of those that ran."""
    ran: list[str] = []
    sf.handler("mail")(lambda job: ran.append(job.id))
    return ran


async def dead_until(sf: Standfast, base: float, more: str = "") -> str:
    """Let a job of a session die, to be replayed automatically after so many seconds."""
    await sf.policy.load(AUTO.format(base=base) + more)
    failing(sf)
    job_id = (await sf.enqueue("mail", session="s")).id or ""
    await sf.worker().run_due()
    return job_id


# --- automatic replays


@pytest.mark.parametrize("run", [False, True])
async def test_a_letter_that_was_to_be_replayed_waits_for_a_person_after_a_restore(disk, copy, again, run):
    job_id = await dead_until(disk, base=2)
    await disk.backup(copy)
    before = await job_of(disk, job_id)
    assert before.triage.replay_status == "scheduled"
    assert restore(again, copy, store_at, run=run)["replays_taken_back"] == 1
    async with Standfast(again) as sf:
        ran = counting(sf)
        await seen(lambda: datetime.now(UTC) > before.triage.replay_at)
        await drain(sf)
        assert ran == [], "the lost store may have replayed it"
        letter = await job_of(sf, job_id)
        assert (letter.state, letter.triage.replay_status, letter.triage.replay_at) == ("dead", "pending_review", None)
        assert "restore" in letter.triage.note
        assert "restore" in await sf.explain(job_id)
        await sf.dead_letters.replay(job_id, by="ann")
        await drain(sf)
        assert ran == [job_id]


async def test_a_session_hears_that_a_restore_took_a_replay_back(disk, copy, again):
    """Its death was no news while a replay was to come; now nothing more happens by itself."""
    job_id = await dead_until(disk, base=3600)
    await disk.backup(copy)
    assert await disk.inbox.list("s") == []
    restore(again, copy, store_at)
    async with Standfast(again) as sf:
        [message] = await sf.inbox.list("s")
        assert (message["kind"], message["job_id"], message["state"]) == ("retry_exhausted", job_id, "dead")
        assert "restored" in message["hint"]


async def test_a_replay_that_a_policy_refused_does_not_come_back_with_another_policy(disk, copy, again):
    job_id = await dead_until(disk, base=0.01, more=DENY)

    async def refused() -> bool:
        await drain(disk)
        return (await job_of(disk, job_id)).triage.replay_status == "denied"

    await seen(refused)
    await disk.backup(copy)
    assert restore(again, copy, store_at)["replays_taken_back"] == 1
    async with Standfast(again) as sf:
        ran = counting(sf)
        await sf.policy.load(AUTO.format(base=0.01))
        await drain(sf)
        assert ran == []
        assert (await job_of(sf, job_id)).triage.replay_status == "pending_review"
        assert len(await sf.inbox.list("s")) == 1, "its session heard of the refusal, before the backup"


async def test_more_replays_than_one_transaction_takes_back_are_all_taken_back(disk, copy, again, monkeypatch):
    monkeypatch.setattr("standfast.wings.backup.scripts.BITE", 2)
    await dead_until(disk, base=3600)
    await disk.enqueue_many("mail", [1, 2, 3, 4])
    await disk.worker().run_due()
    await disk.backup(copy)
    assert restore(again, copy, store_at)["replays_taken_back"] == 5
    async with Standfast(again) as sf:
        assert len(await sf.dead_letters.list()) == 5
        assert await sf._store.read(policies.due(sf._store.now() + EVER)) == []  # noqa: SLF001
