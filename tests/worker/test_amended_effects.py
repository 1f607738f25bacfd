"""Amending a letter whose effect may exist: it is refused until a look says what is so, and nothing happens twice."""

from __future__ import annotations

from typing import Any

import pytest

from standfast import Effect, Found, Permanent, Transient
from standfast.errors import NotVerified
from standfast.testing import drain
from tests.waiting import job_of

ASKED: dict[str, Any] = {"by": "ann", "reason": "wrong amount"}


class Bank:
    """Charges by reference, and says whether it has one while it answers."""

    def __init__(self) -> None:
        self.charges: list[str] = []
        self.answers = False
        self.fails = True

    def charge(self, key: str) -> None:
        """Charge a card; the reply may be lost."""
        self.charges.append(key)
        if self.fails:
            raise RuntimeError("500 after the charge")

    def find(self, _job, effect):
        """Look for a charge."""
        if not self.answers:
            raise Transient("the bank does not answer")
        return Found({"ref": effect.key}) if effect.key in self.charges else False


@pytest.fixture
def bank() -> Bank:
    return Bank()


def charges(sf, bank: Bank, replay: str = "verify_first", effect: Effect | None = None) -> None:
    sf.queue("charge", attempts=2)

    @sf.handler("charge", replay=replay, effects=[effect or Effect("card", bank.find)])
    async def charge(job):
        async with job.effect("card") as e:
            if not e.done:
                bank.charge(e.key)
                e.record({"ref": e.key})
        return job.payload["amount"]


async def stopped(sf) -> str:
    """Enqueue a charge, and let it be tried until it stops."""
    receipt = await sf.enqueue("charge", {"amount": 1})
    return await retried(sf, receipt.id)


async def retried(sf, job_id: str) -> str:
    for _ in range(8):
        await drain(sf)
        sf.clock.advance(600)
    return job_id


async def refused(sf, job_id: str) -> str:
    with pytest.raises(NotVerified) as error:
        await sf.dead_letters.amend(job_id, {"amount": 2}, **ASKED)
    unchanged = await job_of(sf, job_id)
    assert (unchanged.generation, unchanged.payload) == (0, {"amount": 1})
    return str(error.value)


@pytest.mark.parametrize("mode", ["verify_first", "manual", "replay"])
async def test_a_card_that_may_be_charged_is_not_charged_again_under_another_key(sf, bank, mode):
    charges(sf, bank, mode)
    job_id = await stopped(sf)
    before = len(bank.charges)
    told = await refused(sf, job_id)
    assert f"effect 'card' (key {job_id}.card) of job {job_id} may exist" in told
    assert f"standfast dead resolve app:sf {job_id}" in told
    assert "nothing was changed" in told
    assert "\n" not in told
    bank.answers = True
    bank.fails = False
    resolved = await sf.dead_letters.resolve(job_id, **ASKED)
    assert (resolved.state, resolved.result) == ("completed", {"ref": f"{job_id}.card"})
    assert len(bank.charges) == before


async def test_a_look_that_cannot_tell_does_not_let_it_be_amended(sf, bank):
    charges(sf, bank)
    job_id = await stopped(sf)
    with pytest.raises(NotVerified, match="does not answer"):
        await sf.dead_letters.resolve(job_id, **ASKED)
    await refused(sf, job_id)


@pytest.mark.parametrize("mode", ["verify_first", "manual", "replay"])
async def test_once_a_look_says_absent_it_is_amended_and_charged_once(sf, bank, mode):
    charges(sf, bank, mode)
    job_id = await stopped(sf)
    await refused(sf, job_id)
    bank.charges.clear()  # the charge was rolled back
    bank.answers, bank.fails = True, False
    sf.clock.advance(1)
    with pytest.raises(NotVerified, match="card absent"):
        await sf.dead_letters.resolve(job_id, **ASKED)
    amended = await sf.dead_letters.amend(job_id, {"amount": 2}, **ASKED)
    assert amended.generation == 1
    await sf.dead_letters.replay(job_id, by="ann")
    await retried(sf, job_id)
    done = await job_of(sf, job_id)
    assert (done.state, done.result, bank.charges) == ("completed", 2, [f"{job_id}~g1.card"])


async def test_a_look_from_before_the_last_attempt_does_not_count(sf, bank):
    charges(sf, bank)
    bank.answers = True
    bank.charge = lambda key: Bank.charge(bank, f"lost {key}")  # looks say absent
    job_id = await stopped(sf)
    looks = [effect["verdict"] for effect in (await job_of(sf, job_id)).effects]
    assert "absent" in looks
    await refused(sf, job_id)


async def test_an_effect_that_is_done_stays_done_after_an_amendment(sf, bank):
    bank.fails = False
    sf.queue("charge", attempts=1)

    @sf.handler("charge", replay="verify_first", effects=[Effect("card", bank.find)])
    async def charge(job):
        async with job.effect("card") as e:
            if not e.done:
                bank.charge(e.key)
        if job.payload["amount"] == 1:
            raise Permanent("the mail has no address")
        return "told"

    job_id = await stopped(sf)
    await sf.dead_letters.amend(job_id, {"amount": 2}, **ASKED)
    await sf.dead_letters.replay(job_id, by="ann")
    await retried(sf, job_id)
    assert ((await job_of(sf, job_id)).result, bank.charges) == ("told", [f"{job_id}.card"])


async def test_an_effect_that_was_withdrawn_leaves_its_letter_free_to_be_amended(sf, bank):
    charges(sf, bank)
    bank.charge = lambda _key: (_ for _ in ()).throw(Permanent("declined"))
    job_id = await stopped(sf)
    assert (await sf.dead_letters.amend(job_id, {"amount": 2}, **ASKED)).generation == 1


async def test_what_may_happen_twice_and_has_no_check_is_amended(sf, bank):
    charges(sf, bank, "replay", Effect("card"))
    job_id = await stopped(sf)
    assert (await sf.dead_letters.amend(job_id, {"amount": 2}, **ASKED)).generation == 1


async def test_what_must_not_happen_twice_and_has_no_check_is_not_amended(sf, bank):
    charges(sf, bank, "manual", Effect("card"))
    assert "enqueue the new payload as a new job" in await refused(sf, await stopped(sf))


async def test_a_handler_that_keeps_no_ledger_is_looked_for_before_its_key_changes(sf, bank):
    sf.queue("charge", attempts=2)

    def find(job):
        return bank.find(job, type("Named", (), {"key": job.idempotency_key}))

    @sf.handler("charge", replay="verify_first", effects=[Effect("card", find)])
    async def charge(job):
        bank.charge(job.idempotency_key)

    job_id = await stopped(sf)
    assert bank.charges == [job_id]
    await refused(sf, job_id)
    bank.charges.clear()
    bank.answers, bank.fails = True, False
    sf.clock.advance(1)
    with pytest.raises(NotVerified, match="card absent"):
        await sf.dead_letters.resolve(job_id, **ASKED)
    await sf.dead_letters.amend(job_id, {"amount": 2}, **ASKED)
    await sf.dead_letters.replay(job_id, by="ann")
    await retried(sf, job_id)
    assert bank.charges == [f"{job_id}~g1"]


async def test_a_process_without_the_handler_refuses_by_what_is_stored(sf, bank, monkeypatch):
    charges(sf, bank)
    job_id = await stopped(sf)
    monkeypatch.setattr(sf.dead_letters._disposal._registry, "own", {})  # noqa: SLF001 - a server has no handlers
    await refused(sf, job_id)
