"""A look that finds the effect does not swallow the code behind it: follow-ups, results of steps, receipts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from standfast import ConfigurationError, Effect, Found, HttpEffect, Transient, no_backoff
from standfast.spine.apply import apply
from standfast.testing import drain
from standfast.wings.records import reads
from tests.waiting import effects_of, failure_of, job_of, seen
from tests.worker.inside import store_of


class Bank:
    """Takes money, and cuts off the first so many answers."""

    def __init__(self, cuts: int = 1) -> None:
        self.cuts = cuts
        self.charges: list[str] = []
        self.looked = 0

    async def charge(self, key: str) -> dict[str, Any]:
        """Take the money, whether or not the answer arrives."""
        self.charges.append(key)
        if len(self.charges) <= self.cuts:
            raise TimeoutError
        return self.receipt(key)

    def receipt(self, key: str) -> dict[str, Any]:
        """Give what is known of a charge."""
        return {"charge": key, "number": self.charges.index(key) + 1}

    def find(self, _job: Any, effect: Any) -> bool | Found:
        """Look for a charge, and give its receipt."""
        self.looked += 1
        return Found(self.receipt(effect.key)) if effect.key in self.charges else False


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture(autouse=True)
def _rules(sf):
    sf.queue("pay", backoff=no_backoff(), attempts=3)


@pytest.fixture
def mails(sf) -> list[Any]:
    """Collect what the follow-up jobs got."""
    sent: list[Any] = []

    @sf.handler("mail")
    async def mail(job):
        sent.append(job.payload)

    return sent


def paying(sf, bank: Bank, **how: Any) -> Any:
    """Declare the handler of the README: a charge, and a follow-up behind it."""
    given = {"replay": "verify_first", "effects": [Effect("charge", bank.find)], **how}

    @sf.handler("pay", **given)
    async def pay(job):
        async with job.effect("charge") as e:
            if not e.done:
                e.record(await bank.charge(e.key))
        await sf.enqueue("mail", e.receipt, idempotency_key=f"{job.id}.mail")
        return e.receipt

    return pay


async def settled(sf, job_id):
    await drain(sf)
    return await job_of(sf, job_id)


async def test_the_mail_behind_a_charge_that_a_look_found_is_sent(sf, bank, mails):
    paying(sf, bank)
    receipt = await sf.enqueue("pay")
    job = await settled(sf, receipt.id)
    found = {"charge": f"{receipt.id}.charge", "number": 1}
    assert (len(bank.charges), bank.looked, mails) == (1, 1, [found])
    assert (job.state, job.result, job.warning, job.attempts) == ("completed", found, None, 2)
    [effect] = job.effects
    assert (effect["name"], effect["verdict"], effect["receipt"], effect["attempt"]) == ("charge", "verified", found, 2)
    assert effect["at"] is not None


async def test_a_handler_without_ledger_entries_is_completed_with_what_the_look_found(sf, bank, mails):
    @sf.handler("pay", replay="verify_first", effects=[Effect("charge", bank.find)])
    async def pay(job):
        await bank.charge(f"{job.id}.charge")

    receipt = await sf.enqueue("pay")
    job = await settled(sf, receipt.id)
    found = {"charge": f"{receipt.id}.charge", "number": 1}
    assert (job.state, job.warning, job.result) == ("completed", "post_write_recovery", found)
    assert effects_of(job) == [{"name": "charge", "verdict": "verified", "receipt": found}]
    reply = await sf.retry(receipt.id)
    assert (reply["status"], reply["result"], "what was found" in reply["hint"]) == ("ok", found, True)
    assert (bank.charges, mails) == ([f"{receipt.id}.charge"], [])


async def test_when_landed_complete_ends_a_handler_that_keeps_the_ledger(sf, bank, mails):
    paying(sf, bank, when_landed="complete")
    receipt = await sf.enqueue("pay")
    job = await settled(sf, receipt.id)
    found = {"charge": f"{receipt.id}.charge", "number": 1}
    assert (job.warning, job.result, mails) == ("post_write_recovery", found, [])


async def test_when_landed_resume_runs_a_handler_that_has_no_ledger_entries(sf, bank):
    """It was killed before it could write its intent, and somebody else's charge counts as its own."""
    runs = []

    @sf.handler("pay", replay="verify_first", effects=[Effect("charge", bank.find)], when_landed="resume")
    async def pay(job):
        runs.append(job.attempt)
        if job.attempt == 1:
            bank.charges.append(f"{job.id}.charge")
            raise TimeoutError
        async with job.effect("charge") as e:
            return [e.done, e.receipt]

    receipt = await sf.enqueue("pay")
    job = await settled(sf, receipt.id)
    assert (job.result, runs) == ([True, {"charge": f"{receipt.id}.charge", "number": 1}], [1, 2])


@pytest.mark.parametrize("when_landed", ["later", "", True])
async def test_another_word_for_when_landed_is_refused(sf, bank, when_landed):
    with pytest.raises(ConfigurationError, match="when_landed"):
        paying(sf, bank, when_landed=when_landed)


async def test_a_workflow_s_next_step_gets_the_real_result_of_a_resumed_one(sf, bank, mails):
    paying(sf, bank)
    got = []

    @sf.handler("ship")
    async def ship(job):
        got.append(job.parents["charge"])

    flow = sf.workflow("order")
    paid = flow.step("charge", "pay")
    flow.step("ship", "ship", after=[paid])
    await flow.start()
    await drain(sf)
    assert (len(bank.charges), [each["number"] for each in got], len(mails)) == (1, [1], 1)


async def test_a_receipt_that_was_recorded_needs_no_look_and_the_rest_is_run(sf, bank, mails):
    failures = [ConnectionError("mail is away")]

    @sf.handler("pay", replay="verify_first", effects=[Effect("charge", bank.find)])
    async def pay(job):
        charge = await job.once("charge", bank.charge, "key")
        if failures:
            raise failures.pop()
        await sf.enqueue("mail", charge)

    bank.cuts = 0
    await settled(sf, (await sf.enqueue("pay")).id)
    assert (bank.charges, bank.looked, mails) == (["key"], 0, [{"charge": "key", "number": 1}])


# --- a call that waits for its answer


async def test_a_call_that_timed_out_behind_its_charge_is_gone_on_with_and_says_so(sf, bank, mails):
    hang = asyncio.Event()

    @sf.handler("pay", replay="verify_first", effects=[Effect("charge", bank.find)])
    async def pay(job):
        async with job.effect("charge") as e:
            if not e.done:
                await bank.charge(e.key)
        if job.attempt == 1:
            await hang.wait()
        await sf.enqueue("mail", e.receipt)
        return "all"

    bank.cuts = 0
    reply = await sf.run("pay", timeout=0.1)
    assert (reply["status"], "Part of it is done (charge)" in reply["hint"]) == ("queued", True)
    job = await settled(sf, reply["operation_id"])
    assert (job.result, len(bank.charges), len(mails)) == ("all", 1, 1)


async def test_a_call_that_was_cut_off_in_its_charge_is_gone_on_with_on_its_last_attempt_too(sf, bank, mails):
    sf.queue("pay", backoff=no_backoff(), attempts=1)
    paying(sf, bank)
    reply = await sf.run("pay")
    assert (reply["status"], reply["reason_code"], bank.looked) == ("queued", "timeout", 1)
    job = await settled(sf, reply["operation_id"])
    assert (job.state, len(bank.charges), len(mails), job.attempts) == ("completed", 1, 1, 2)


async def test_a_manual_call_whose_charge_was_found_is_left_to_a_person_and_not_called_undone(sf, bank, mails):
    paying(sf, bank, replay="manual")
    reply = await sf.run("pay")
    assert (reply["status"], "after part of it was done (charge)" in reply["hint"]) == ("failed", True)
    answer = await sf.dead_letters.replay(reply["operation_id"], by="ann", reason="go on")
    assert answer["outcome"] == "replayed"
    job = await settled(sf, reply["operation_id"])
    assert (job.state, len(bank.charges), len(mails)) == ("completed", 1, 1)


# --- letters


async def dead(sf, bank: Bank, **how: Any) -> str:
    """Let a job die that charged and was cut off."""
    paying(sf, bank, replay="manual", **how)
    receipt = await sf.enqueue("pay")
    job = await settled(sf, receipt.id)
    assert job.reason == "unknown_commit_state"
    return str(job.id)


@pytest.mark.parametrize("door", ["replay", "retry"])
async def test_replaying_a_letter_whose_charge_landed_runs_the_code_behind_it(sf, bank, mails, door):
    job_id = await dead(sf, bank)
    if door == "replay":
        answer = await sf.dead_letters.replay(job_id, by="ann", reason="again")
        assert answer["outcome"] == "replayed"
        assert answer["why"] == "again; it had landed (charge verified), and is resumed behind that"
        assert not (await job_of(sf, job_id)).history[-1].possible_duplicate
    else:
        assert (await sf.retry(job_id, by="ann"))["status"] == "queued"
    job = await settled(sf, job_id)
    assert (job.state, len(bank.charges), len(mails)) == ("completed", 1, 1)


async def test_a_letter_that_is_completed_when_it_landed_is_resolved_with_what_was_found(sf, bank, mails):
    job_id = await dead(sf, bank, when_landed="complete")
    assert (await sf.dead_letters.replay(job_id, by="ann"))["outcome"] == "resolved"
    job = await job_of(sf, job_id)
    assert (job.result, job.warning, mails) == ({"charge": f"{job_id}.charge", "number": 1}, "post_write_recovery", [])


async def test_resolving_is_a_person_s_word_and_keeps_what_was_found(sf, bank, mails):
    job_id = await dead(sf, bank)
    job = await sf.dead_letters.resolve(job_id, by="ann", reason="the mail was sent by hand")
    assert (job.state, job.result["number"], mails) == ("completed", 1, [])


@pytest.mark.parametrize("when_landed", [None, "complete"])
async def test_a_redrive_resumes_what_landed_unless_it_is_complete(sf, mails, when_landed):
    @sf.handler("pay", replay="manual", effects=[Effect("charge")], when_landed=when_landed)
    async def pay(job):
        await job.once("charge", str)
        if job.attempt == 1:
            raise TimeoutError
        await sf.enqueue("mail", "sent")

    landed, outcome = (0, "completed") if when_landed is None else (1, "resolved")
    await settled(sf, (await sf.enqueue("pay")).id)
    plan = await sf.dead_letters.plan({"queue": "pay"})
    assert (plan["already_landed"], plan["would_run"]) == (landed, 1 - landed)
    redrive = await sf.dead_letters.redrive(plan["token"], by="ann")
    async with sf.worker():
        await seen(lambda: _is_over(redrive, outcome))
    await drain(sf)
    assert mails == ([] if landed else ["sent"])


async def _is_over(redrive, outcome: str) -> bool:
    progress = await redrive.progress()
    return bool(progress["state"] == "finished" and progress[outcome] == 1)


# --- looks that fail for now


async def test_a_look_that_fails_for_now_is_put_off_and_spends_nothing(sf, bank, mails):
    away = [ConnectionRefusedError("away"), Transient("busy"), ConnectionResetError()]

    def find(job, effect):
        if away:
            raise away.pop()
        return bank.find(job, effect)

    paying(sf, bank, effects=[Effect("charge", find)])
    receipt = await sf.enqueue("pay")
    job = await settled(sf, receipt.id)
    assert (job.state, job.attempts, job.deferrals, len(bank.charges), len(mails)) == ("completed", 2, 3, 1, 1)
    assert [line.reason_code for line in job.history] == ["timeout", "look_failed", "look_failed", "look_failed"]


async def test_a_look_that_keeps_failing_is_held_once_attempts_are_used_up(sf, bank):
    def find(_job):
        raise ConnectionRefusedError("away")

    paying(sf, bank, effects=[Effect("charge", find)])
    receipt = await sf.enqueue("pay")
    job = await settled(sf, receipt.id)
    assert (job.state, job.deferrals, job.attempts, len(bank.charges)) == ("held", 3, 1, 1)
    assert failure_of(job).reason_code == "unknown_commit_state"
    await sf.dead_letters.replay(receipt.id, by="ann", reason="it is back")
    job = await settled(sf, receipt.id)
    assert (job.state, job.deferrals) == ("held", 6), "a replay looks as often again"


async def test_a_look_that_is_put_off_says_when_it_looks_again(sf, bank):
    sf.queue("pay", attempts=3, backoff={"base": 2})

    def find(_job):
        raise Transient("busy", retry_after=40)

    paying(sf, bank, effects=[Effect("charge", find)])
    receipt = await sf.enqueue("pay")
    await drain(sf)
    await sf.retry(receipt.id)
    job = await settled(sf, receipt.id)
    assert (job.view, job.reason, job.deferrals) == ("retry_pending", "look_failed", 1)
    assert "the next look is in 40 s" in await sf.explain(receipt.id)
    assert "could not be looked up" in (await sf.retry(receipt.id))["hint"]


@pytest.mark.parametrize(("status", "state"), [(503, "queued"), (429, "queued"), (500, "queued"), (403, "held")])
async def test_the_status_of_a_reply_says_whether_to_look_again(sf, bank, status, state):
    class Broken(HttpEffect):
        async def look(self, job: Any, trace: Any, sender: Any) -> Any:
            from standfast.wings.http.words import Reply  # noqa: PLC0415 - a reply that nobody has to serve

            del sender
            reply = Reply()
            reply.status, reply.headers = status, {"retry-after": "40"}
            return self._judge(reply, job, trace)

    paying(sf, bank, effects=[Broken("charge", "https://example.org/{key}")])
    receipt = await sf.enqueue("pay")
    assert (await settled(sf, receipt.id)).state == state


async def test_what_was_found_and_cannot_be_kept_is_held_and_never_none(sf, bank):
    paying(sf, bank, effects=[Effect("charge", lambda _job: Found(object()))])
    job = await settled(sf, (await sf.enqueue("pay")).id)
    assert (job.state, "what it found cannot be stored" in failure_of(job).message) == ("held", True)


# --- every look is kept


async def test_a_look_that_found_nothing_is_kept_with_its_attempt(sf, bank):
    attempts = []

    @sf.handler("pay", replay="verify_first", effects=[Effect("charge", bank.find)])
    async def pay(job):
        attempts.append((await job_of(sf, job.id)).effects)
        raise TimeoutError

    await settled(sf, (await sf.enqueue("pay")).id)
    assert [[(each["verdict"], each["attempt"]) for each in effects] for effects in attempts] == [
        [],
        [("absent", 2)],
        [("absent", 2), ("absent", 3)],
    ]


async def test_a_worker_that_lost_its_job_while_it_looked_does_not_run_it(sf, bank):
    """Another one has it by then: what it would do is that one's."""
    runs = []

    async def find(job, effect):
        store = store_of(sf)
        record = await store.read(reads.job(job.id, store.boot()))
        assert record is not None
        if not bank.looked:
            from standfast.lifecycle import JobRef, State  # noqa: PLC0415
            from standfast.spine.settle import given_back  # noqa: PLC0415 - only here

            await store.write_all(
                apply, [given_back(JobRef(record.row.n, job.token, job.id, job.queue, State.RUNNING))]
            )
        return bank.find(job, effect)

    @sf.handler("pay", replay="verify_first", effects=[Effect("charge", find)])
    async def pay(job):
        runs.append(job.token)
        raise TimeoutError

    receipt = await sf.enqueue("pay")
    await drain(sf)
    assert (runs, (await job_of(sf, receipt.id)).state) == ([1, 3, 4], "dead")
