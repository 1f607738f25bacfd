"""Restore: nothing in a restored store happens by itself that may have happened since its backup."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from standfast import Permanent, Standfast, Transient
from standfast.application.wings import store_at
from standfast.rules import Breaker
from standfast.testing import drain
from standfast.views import Triage
from standfast.wings.approvals import scripts as approvals
from standfast.wings.approvals.scripts import ApprovalAnswer
from standfast.wings.approvals.words import Answer, ApprovalState
from standfast.wings.backup import scripts as backup_scripts
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


async def triage_of(sf: Standfast, job_id: str) -> Triage:
    triage = (await job_of(sf, job_id)).triage
    assert triage is not None
    return triage


# --- automatic replays


@pytest.mark.parametrize("run", [False, True])
async def test_a_letter_that_was_to_be_replayed_waits_for_a_person_after_a_restore(disk, copy, again, run):
    job_id = await dead_until(disk, base=2)
    await disk.backup(copy)
    before = await triage_of(disk, job_id)
    due = before.replay_at
    assert isinstance(due, datetime)
    assert before.replay_status == "scheduled"
    assert restore(again, copy, store_at, run=run)["replays_taken_back"] == 1
    async with Standfast(again) as sf:
        ran = counting(sf)
        await seen(lambda: time.time() > due.timestamp())
        await drain(sf)
        assert ran == [], "the lost store may have replayed it"
        left = await triage_of(sf, job_id)
        assert (left.replay_status, left.replay_at) == ("pending_review", None)
        assert "restore" in str(left.note)
        assert "restore" in str(await sf.explain(job_id))
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
        return (await triage_of(disk, job_id)).replay_status == "denied"

    await seen(refused)
    await disk.backup(copy)
    assert restore(again, copy, store_at)["replays_taken_back"] == 1
    async with Standfast(again) as sf:
        ran = counting(sf)
        await sf.policy.load(AUTO.format(base=0.01))
        await drain(sf)
        assert ran == []
        assert (await triage_of(sf, job_id)).replay_status == "pending_review"
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


async def test_replays_are_taken_back_alike_on_each_engine(sf):
    """A restore is SQLite's; its scripts run on both, as every script does."""
    job_id = await dead_until(sf, base=3600)
    taken_back = [await sf._store.write(backup_scripts.take_back_replays, 10) for _ in range(2)]  # noqa: SLF001
    assert taken_back == [1, 0]
    left = await triage_of(sf, job_id)
    assert (left.replay_status, left.replay_at, left.note) == ("pending_review", None, backup_scripts.TAKEN_BACK)
    authority = await sf._store.read(backup_scripts.authority(sf._store.now()))  # noqa: SLF001
    assert authority == (0, 0)
    await sf.tokens.create("one", person="ann", role="admin")
    assert await sf._store.write(backup_scripts.revoke_tokens, "bea") == 1  # noqa: SLF001
    assert await sf.tokens.list() == []


# --- redrives and approvals


async def letters(sf: Standfast, number: int) -> None:
    """Let so many jobs die, for a person to decide."""
    failing(sf)
    await sf.enqueue_many("mail", range(number))
    await sf.worker().run_due()


@pytest.mark.parametrize("run", [False, True])
async def test_a_redrive_is_paused_after_a_restore(disk, copy, again, run):
    await letters(disk, 3)
    plan = await disk.dead_letters.plan({})
    await disk.dead_letters.redrive(plan["token"], by="ann", reason="the provider is up again")
    await disk.backup(copy)
    restore(again, copy, store_at, run=run)
    async with Standfast(again) as sf:
        ran = counting(sf)
        await drain(sf)
        assert ran == []
        assert (await sf.dead_letters.redrives.progress(plan["token"]))["state"] == "paused"
        await (await sf.dead_letters.redrives.get(plan["token"], by="ann")).resume()
        await drain(sf)
        assert len(ran) == 3


APPROVAL = """
version: v1
replay_rules:
  - match: {}
    decision: require_approval
    approver_group: governance
"""


@pytest.mark.parametrize("run", [False, True])
async def test_approvals_that_were_given_and_not_used_are_void_after_a_restore(disk, copy, again, run):
    """However many: an approver's process may have died in the middle of a long list."""
    await disk.policy.load(APPROVAL)
    number = approvals.BITE + 1
    await letters(disk, number)
    for letter in await disk.dead_letters.list(limit=number):
        asked = await disk.dead_letters.replay(letter.id, by="ann")
        answer = Answer(asked["approval"], ApprovalState.PENDING, ApprovalState.APPROVED, "bea")
        await disk._store.write(approvals.answer, ApprovalAnswer(answer))  # noqa: SLF001 - and then it died
    await disk.backup(copy)
    restore(again, copy, store_at, run=run)
    async with Standfast(again) as sf:
        assert await sf._store.read(approvals.due(EVER, EVER)) == []  # noqa: SLF001
        assert await sf.approvals.list(state="approved") == []


CRM = Breaker(dependency="crm", failures=1, open_for=3600)


async def test_with_run_what_a_gate_held_back_goes_on(disk, copy, again):
    """Breakers and closed gates are what processes of the lost store found out; threads and limits count jobs."""
    disk.queue("mail", breaker=CRM, coalesce="never")

    @disk.handler("mail")
    def mail(_job):
        raise Transient("the provider is down")

    await disk.enqueue("mail", 0, attempts=1)
    for number in (1, 2):
        await disk.enqueue("mail", number, thread_key="t")
    await disk.worker().run_due()
    assert [gate["kind"] for gate in (await disk.stats())["gates"]] == ["breaker"]
    await disk.backup(copy)
    restore(again, copy, store_at, run=True)
    async with Standfast(again) as sf:
        assert (await sf.stats())["gates"] == []
        ran: list[int] = []
        sf.queue("mail", breaker=CRM, coalesce="never")
        sf.handler("mail")(lambda job: ran.append(job.payload))
        async with sf.worker():
            await seen(lambda: ran == [1, 2])


# --- tokens and consents


async def authorities(sf: Standfast) -> list[str]:
    """Make two tokens, and let a session consent and deny; return the tokens."""
    made = [await sf.tokens.create(name, person="mallory", role="admin") for name in ("one", "two")]
    await sf.tokens.create("old", person="ann", role="viewer")
    await sf.tokens.revoke("old")
    sf.handler("mail", consent=True)(lambda _job: None)
    await sf.consent.grant("s1", "mail/mail", mode="always")
    await sf.consent.grant("s2", "mail/mail", mode="deny")
    return [each["token"] for each in made]


async def test_a_restore_says_what_is_valid_again(disk, copy, again):
    """Whatever was revoked since the backup is among them, and cannot be told from the rest."""
    one, _ = await authorities(disk)
    await disk.backup(copy)
    await disk.tokens.revoke("one")
    await disk.consent.revoke("s1")
    report = restore(again, copy, store_at)
    assert (report["valid_tokens"], report["valid_consents"], report["revoked_tokens"]) == (2, 1, 0)
    async with Standfast(again) as sf:
        assert await sf.tokens.grant(one) is not None


async def test_a_restore_revokes_every_token_if_that_is_wanted(disk, copy, again):
    made = await authorities(disk)
    await disk.backup(copy)
    report = restore(again, copy, store_at, revoke_tokens=True)
    assert (report["valid_tokens"], report["valid_consents"], report["revoked_tokens"]) == (0, 1, 2)
    async with Standfast(again) as sf:
        assert [await sf.tokens.grant(each) for each in made] == [None, None]
        *_, first, second, restored = await sf.audit.entries()
        assert [each["outcome"] for each in (first, second, restored)] == ["revoked", "revoked", "restored"]
        assert restored["kind"] == "restore"
