"""Consent: nothing is entered that its session did not allow, whoever runs it; what waits for a yes goes on by it."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter

import pytest

from standfast import ConfigurationError, Standfast, Transient, current_session
from standfast.testing import drain
from standfast.wings.audit.words import Decision
from standfast.wings.consent import scripts as consents
from standfast.wings.consent.scripts import GrantRequest
from standfast.wings.consent.words import Grant
from standfast.wings.health.measures import measure
from standfast.wings.health.verbs import wrong_now
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.waiting import failure_of, job_of, reached, seen
from tests.worker.governing import redriver
from tests.worker.processes import children


def paying(sf: Standfast, attempts: int = 3) -> list[tuple[str | None, int]]:
    """Declare a handler that asks; give the sessions and attempts that entered it."""
    entered: list[tuple[str | None, int]] = []
    sf.queue("pay", attempts=attempts, backoff="none")

    @sf.handler("pay", consent=True)
    async def pay(job):
        entered.append((current_session(), job.attempt))
        if job.attempt <= (job.payload or {}).get("fails", 0):
            raise Transient("later")

    return entered


async def asked(sf: Standfast, session: str | None = "s", **payload) -> str:
    """Enqueue a job and let it ask."""
    receipt = await sf.enqueue("pay", payload, session=session)
    await drain(sf)
    assert receipt.id is not None
    return receipt.id


async def states(sf: Standfast, *ids: str) -> list[str]:
    return [(await job_of(sf, job_id)).state for job_id in ids]


async def chained(sf: Standfast) -> list[tuple[str, str]]:
    return [(entry["kind"], entry["outcome"]) for entry in await sf.audit.entries()]


async def test_without_a_grant_a_job_is_held_untried_and_goes_on_once_it_is_given(sf):
    entered = paying(sf)
    job_id = await asked(sf)
    held = await job_of(sf, job_id)
    assert (held.state, held.attempts, held.reason) == ("held", 0, "consent_required")
    assert failure_of(held).landed == "no"
    assert [(each["job_id"], each["session"], each["handler"]) for each in await sf.consent.asks("s")] == [
        (job_id, "s", "pay/pay")
    ]
    assert (await sf.consent.check("s", "pay"))["verdict"] == "ask"
    await sf.consent.grant("s", "pay", by="anna")
    assert await sf.consent.asks() == []
    await drain(sf)
    assert entered == [("s", 1)]
    done = await job_of(sf, job_id)
    assert (done.state, done.attempts, done.replays) == ("completed", 1, 0)
    assert [line.reason_code for line in done.history] == ["consent_required", "released"]
    assert await chained(sf) == [("grant", "granted")]
    assert (await sf.audit.verify())["ok"]


async def test_history_counts_no_attempt_for_a_job_that_was_not_begun(sf, caplog):
    paying(sf)
    waits, late = (
        await job_of(sf, await asked(sf)),
        await sf.enqueue("pay", {}, session="s", expires=sf.clock.wall() + 5),
    )
    assert [(line.attempt, line.begun) for line in waits.history] == [(0, False)]
    sf.clock.advance(6)
    await drain(sf)
    assert [(line.reason_code, line.attempt, line.begun) for line in (await job_of(sf, late.id)).history] == [
        ("expired", 0, False)
    ]
    await sf.consent.grant("s", "pay", by="anna")
    await drain(sf)
    assert [line.attempt for line in (await job_of(sf, waits.id)).history] == [0, 0]
    assert "handler pay, not begun: consent_required" in caplog.text
    assert "attempt 1 of" not in caplog.text


async def test_once_is_for_one_job_and_its_repeats(sf):
    entered = paying(sf)
    await sf.consent.grant("s", "pay", by="anna")
    first, second = await asked(sf, fails=2), await asked(sf)
    assert await states(sf, first, second) == ["completed", "held"]
    assert [attempt for _, attempt in entered] == [1, 2, 3]
    await sf.consent.grant("s", "pay", by="anna")
    await drain(sf)
    assert await states(sf, second) == ["completed"]


async def test_one_grant_lets_one_of_many_go(sf):
    entered = paying(sf)
    ids = [await asked(sf) for _ in range(4)]
    await sf.consent.grant("s", "pay", by="anna")
    await redriver(sf, consent=sf.consent).step()  # and no worker lets another one go
    assert await states(sf, *ids) == ["queued", "held", "held", "held"]
    await drain(sf)
    assert sorted(await states(sf, *ids)) == ["completed", "held", "held", "held"]
    await sf.consent.grant("s", "pay", mode="timed", uses=2, by="anna")
    await drain(sf)
    assert sorted(await states(sf, *ids)) == ["completed", "completed", "completed", "held"]
    await sf.consent.grant("s", "pay", mode="always", by="anna")
    await drain(sf)
    assert len(entered) == 4


async def test_two_at_once_never_spend_the_same_use(sf):
    entered = paying(sf)
    await sf.consent.grant("s", "pay", mode="timed", uses=3, by="anna")
    receipts = await sf.enqueue_many("pay", [{}] * 20, session="s")
    await drain(sf)
    ended = await states(sf, *(receipt.id for receipt in receipts))
    assert (ended.count("completed"), ended.count("held"), len(entered)) == (3, 17, 3)
    [grant] = await sf.consent.list("s")
    assert (grant["uses"], grant["used"]) == (3, 3)


async def test_a_no_wins_and_kills_what_waits(sf):
    entered = paying(sf)
    waiting = await asked(sf)
    await sf.consent.grant("s", "pay", mode="deny", by="anna", reason="too risky")
    await sf.consent.grant("s", "pay", mode="always", by="bea")
    late = await asked(sf)
    for job_id in (waiting, late):
        job = await job_of(sf, job_id)
        assert (job.state, job.reason, job.attempts) == ("dead", "consent_denied", 0)
    assert entered == []
    assert (await sf.consent.check("s", "pay"))["verdict"] == "denied"
    assert await chained(sf) == [("deny", "denied"), ("grant", "granted")]
    assert await sf.consent.revoke("s", "pay", by="anna") == 2
    assert await chained(sf) == [("deny", "denied"), ("grant", "granted"), ("revoke", "revoked")]
    assert await sf.consent.revoke("s", "pay") == 0
    assert len(await chained(sf)) == 3, "nothing was taken back"


async def test_a_blanket_grant_covers_what_is_done_first_hand_and_no_repeat(sf):
    entered = paying(sf)
    await sf.consent.grant("s", "*", mode="always", by="anna")
    fine, fails = await asked(sf), await asked(sf, fails=1)
    assert await states(sf, fine, fails) == ["completed", "held"]
    assert entered == [("s", 1), ("s", 1)]
    assert (await job_of(sf, fails)).attempts == 1
    await sf.consent.grant("s", "pay", by="anna")
    await drain(sf)
    assert await states(sf, fails) == ["completed"]


async def test_a_replay_asks_for_a_grant_of_its_own_handler(sf):
    entered = paying(sf, attempts=1)
    await sf.consent.grant("s", "*", mode="always", by="anna")
    job_id = await asked(sf, fails=1)
    assert await states(sf, job_id) == ["dead"]
    await sf.dead_letters.replay(job_id, by="anna")
    await drain(sf)
    assert await states(sf, job_id) == ["held"]
    await sf.consent.grant("s", "pay", mode="timed", by="anna")
    await drain(sf)
    assert await states(sf, job_id) == ["completed"]
    assert len(entered) == 2


async def test_grants_end(sf):
    paying(sf)
    await sf.consent.grant("s", "pay", mode="timed", seconds=60, by="anna")
    sf.clock.advance(61)
    assert await states(sf, await asked(sf)) == ["held"]
    await sf.consent.grant("s", "pay", mode="always", by="anna")
    sf.clock.advance("31d")
    assert await states(sf, await asked(sf)) == ["held"]
    await sf._store.write(upkeep.prune, PruneRequest())  # noqa: SLF001
    assert await sf.consent.list() == []


async def test_another_sessions_grant_is_none_and_no_session_is_one_of_its_own(sf):
    entered = paying(sf)
    await sf.consent.grant("other", "pay", mode="always", by="anna")
    theirs, nobodys = await asked(sf), await asked(sf, session=None)
    assert await states(sf, theirs, nobodys) == ["held", "held"]
    await sf.consent.grant(None, "pay", by="anna")
    await drain(sf)
    assert await states(sf, theirs, nobodys) == ["held", "completed"]
    assert entered == [(None, 1)]


async def test_an_amended_payload_is_other_work(sf):
    paying(sf, attempts=1)
    await sf.consent.grant("s", "pay", by="anna")
    job_id = await asked(sf, fails=1)
    await sf.dead_letters.amend(job_id, {"amount": 1_000_000}, by="anna", reason="more")
    await sf.dead_letters.replay(job_id, by="anna")
    await drain(sf)
    assert (await job_of(sf, job_id)).reason == "consent_required"


async def test_what_was_given_while_a_job_was_on_its_way_to_be_held_is_seen_by_any_worker(sf):
    """The grant comes between the question and the holding: nobody who gives it sees the job wait."""
    entered = paying(sf)
    job_id = await asked(sf)
    await sf._store.write(consents.give, _given(sf))  # noqa: SLF001 - a giver that is killed before it lets go what waits
    assert await states(sf, job_id) == ["held"]
    await redriver(sf, consent=sf.consent).step()
    await drain(sf)
    assert entered == [("s", 1)]


async def repeats(sf: Standfast, session: str, number: int) -> list[str]:
    """Have jobs of a session wait that ran before: a blanket grant does not let them run again."""
    await sf.consent.grant(session, "*", mode="always", by="anna")
    ids = [await asked(sf, session, fails=1) for _ in range(number)]
    assert {*await states(sf, *ids)} == {"held"}
    return ids


async def test_requests_that_a_blanket_grant_does_not_answer_keep_nobody_elses_answer_waiting(sf, monkeypatch):
    monkeypatch.setattr(consents, "BITE", 3)
    paying(sf)
    ids = await repeats(sf, "s", 4)
    theirs = await asked(sf, "other")
    await sf.consent.grant("other", "pay", by="anna")
    await drain(sf)
    assert await states(sf, theirs) == ["completed"]
    assert {*await states(sf, *ids)} == {"held"}


async def test_a_persons_yes_to_one_job_counts_whatever_else_waits(sf, monkeypatch):
    monkeypatch.setattr(consents, "BITE", 3)
    paying(sf)
    ids = await repeats(sf, "s", 4)
    await sf.consent.answer(ids[-1], by="anna")
    await drain(sf)
    assert await states(sf, *ids) == ["held", "held", "held", "completed"]


async def test_requests_that_ended_before_their_answer_was_written_hide_none_behind_them(sf, monkeypatch):
    """They are cancelled between the reading and the writing, as by another process."""
    monkeypatch.setattr(consents, "BITE", 2)
    paying(sf)
    first, second, third = [await asked(sf) for _ in range(3)]
    settle = sf.consent._settle  # noqa: SLF001 - the moment between the two

    async def overtaken(request, ruling):
        if request.id != third:
            await sf.cancel(request.id)
        return await settle(request, ruling)

    monkeypatch.setattr(sf.consent, "_settle", overtaken)
    await sf.consent.grant("s", "pay", mode="always", by="anna")
    assert await states(sf, first, second, third) == ["cancelled", "cancelled", "queued"]


def _given(sf: Standfast) -> GrantRequest:
    now = sf._store.now()  # noqa: SLF001
    grant = Grant(
        id="g",
        session="s",
        queue="pay",
        handler="pay",
        mode="once",
        given_by="anna",
        reason=None,
        granted_at=now,
        expires_at=now + 60,
        uses=1,
    )
    return GrantRequest(grant, Decision(kind="grant"))


async def test_a_policy_does_not_consent_in_the_sessions_place(sf):
    paying(sf)
    await sf.policy.load("version: v1\ndlq_rules:\n  - match: {}\n    action: auto_replay\n")
    held = await job_of(sf, await asked(sf))
    assert held.triage is not None
    assert (held.state, held.triage.rule, held.triage.replay_status) == ("held", "consent", "pending_review")


async def test_held_time_does_not_count_as_age(sf):
    entered = paying(sf)
    sf.queue("pay", max_age=60)
    await asked(sf)
    sf.clock.advance(3600)
    await sf.consent.grant("s", "pay", by="anna")
    await drain(sf)
    assert entered == [("s", 1)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mode": "sometimes"}, "unknown mode"),
        ({"mode": "always", "seconds": 40 * 86400}, "no consent is for ever"),
        ({"mode": "timed", "seconds": 0}, "more than 0"),
        ({"mode": "once", "uses": 2}, "does not fit"),
        ({"mode": "deny", "uses": 1}, "does not fit"),
        ({"by": " "}, "by must be"),
    ],
)
async def test_what_no_grant_can_be(sf, given, words):
    paying(sf)
    with pytest.raises(ConfigurationError, match=words):
        await sf.consent.grant("s", "pay", **given)
    assert await sf.consent.list() == []


@pytest.mark.parametrize("mode", ["once", "deny"])
async def test_a_mistyped_handler_is_refused_and_one_of_a_later_program_is_taken_with_a_warning(sf, mode):
    paying(sf)
    assert "warning" not in await sf.consent.grant("s", "pay", mode=mode, by="anna")
    assert "warning" not in await sf.consent.grant("s", "*", mode=mode, by="anna")
    with pytest.raises(ConfigurationError, match="no process has declared a handler 'pya'; nothing was granted"):
        await sf.consent.grant("s", "pya", mode=mode, by="anna")
    ahead = await sf.consent.grant("s", "later/later", mode=mode, by="anna")
    assert "no process has declared later/later so far" in ahead["warning"]
    assert len(await sf.consent.list("s")) == 3
    assert await sf.consent.revoke("s", "later", by="anna") == 1, "what went away can be taken back"


async def test_what_another_process_declared_is_known_here(disk, url):
    paying(disk)
    await disk.enqueue("pay", {}, session="s")  # which publishes what it declares
    async with Standfast(url) as other:
        assert "warning" not in await other.consent.grant("s", "pay", by="anna")


async def test_a_call_that_needs_consent_is_held_and_says_so(sf):
    entered = paying(sf)
    reply = await sf.run("pay", {}, session="s")
    assert (reply["status"], reply["reason_code"]) == ("held", "consent_required")
    await sf.consent.grant("s", "pay", by="anna")
    await drain(sf)
    assert entered == [("s", 1)]
    await sf.consent.grant("s", "pay", by="anna")
    assert (await sf.run("pay", {}, session="s"))["status"] == "ok"


async def test_another_process_asks_the_sessions_grants(disk, url, log):
    """One job by the grant that is there, and the other once it is given, by somebody in a third process."""
    await disk.consent.grant("s", "mail/mail", by="anna")
    ids = [(await disk.enqueue("mail", {"name": name}, session="s")).id for name in ("first", "second")]
    with children(url, log, consent=True):
        await seen(lambda: _counted(disk, ids, held=1, completed=1))
        assert len(log.lines()) == 1
        await disk.consent.grant("s", "mail/mail", by="anna")
        await seen(lambda: _counted(disk, ids, completed=2))


async def _counted(sf: Standfast, ids: list[str], **wanted: int) -> bool:
    return Counter(await states(sf, *ids)) == wanted


@pytest.mark.long
async def test_a_killed_process_has_spent_its_grant_and_its_job_needs_no_other(disk, url, log):
    """A consented job kills its worker; the next worker needs no second grant for it, and another job does."""
    rules = {"mail": {"lease": 0.6, "wait": 0.05, "attempts": 2}}
    await disk.consent.grant("s", "mail/mail", by="anna")
    dies = await disk.enqueue("mail", {"name": "dies", "do": "kill"}, session="s")
    with children(url, log, rules=rules, consent=True) as [child]:
        assert await asyncio.to_thread(child.wait, 15) == -signal.SIGKILL
    waits = await disk.enqueue("mail", {"name": "waits"}, session="s")
    with children(url, log, rules=rules, consent=True) as [child]:
        await reached(disk, waits.id, "held")
        assert await asyncio.to_thread(child.wait, 15) == -signal.SIGKILL  # its second attempt, by the same grant
    assert len(log.lines(name="dies")) == 2
    assert (await job_of(disk, dies.id)).attempts == 2
    await disk.consent.grant("s", "mail/mail", by="anna")
    with children(url, log, rules=rules, consent=True):
        await reached(disk, waits.id, "completed")
    await seen(lambda: len(log.lines("end", name="waits")) == 1)


async def test_jobs_that_wait_for_consent_are_no_dead_letters_to_health_and_alerts(sf):
    @sf.handler("pay", consent=True)
    async def pay(_job):
        raise AssertionError("it must not begin")

    sf.queue("pay", dead_warning=10)
    for _ in range(12):
        await sf.enqueue("pay", session="s")
    await drain(sf)
    health, store = await sf.health(), sf._store  # noqa: SLF001
    assert health["issues"] == ["pay: 12 jobs wait for consent"]
    assert await wrong_now(store) == {}
    assert (health["total_awaiting_consent"], health["total_dead_letter"]) == (12, 12)
    jobs = (await measure(store, None)).queues["pay"].jobs
    assert (jobs["dead"], jobs["held"], jobs["awaiting_consent"]) == (0, 0, 12)


async def test_a_grant_that_a_denial_outweighs_says_so(sf):
    sf.handler("pay", consent=True)(lambda _job: None)
    await sf.consent.deny("planner", "pay", by="ann")
    given = await sf.consent.grant("planner", "pay", mode="always", by="ben")
    assert "pay/pay is denied to session planner, and a denial wins over every grant" in given["warning"]
    assert (await sf.consent.check("planner", "pay"))["verdict"] == "denied"
    await sf.consent.revoke("planner", "pay", by="ann")
    assert "warning" not in await sf.consent.grant("planner", "pay", mode="always", by="ben")
    assert (await sf.consent.check("planner", "pay"))["verdict"] == "allowed"
