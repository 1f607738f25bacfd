"""A handler that cannot find its own effect is believed, not its receipt: somebody looks before the repeat."""

from __future__ import annotations

from typing import Any

import pytest

from standfast import Effect, Job, fixed
from standfast.errors import NotVerified
from standfast.testing import drain
from tests.waiting import effects_of, failure_of, job_of

WAIT = 10.0
NAMED = {"ticket": "absent"}


class Receiver:
    """Says yes to everything, and drops the first so many."""

    def __init__(self, drops: int = 1) -> None:
        self.drops = drops
        self.calls = 0
        self.there: set[str] = set()
        self.looked: list[Any] = []

    def create(self, key: str) -> int:
        """Take it, and perhaps keep it."""
        self.calls += 1
        if self.calls > self.drops:
            self.there.add(key)
        return self.calls

    def check(self, _job: Job, effect: Any) -> bool:
        """Look for it."""
        self.looked.append(effect.receipt)
        return effect.key in self.there


@pytest.fixture(autouse=True)
def _rules(sf):
    sf.queue("acts", backoff=fixed(WAIT), attempts=3)


async def tried(sf, receipt):
    await drain(sf)
    sf.clock.advance(WAIT)
    return await job_of(sf, receipt.id)


def declare(sf, receiver: Receiver, mode: str, bad: Any, *, verify: bool = True) -> None:
    """Make a ticket, look for it, and say so if it is not there."""

    @sf.handler("acts", replay=mode, effects=[Effect("ticket", receiver.check if verify else None)])
    async def handler(job):
        ticket = await job.once("ticket", receiver.create, key := f"{job.id}.ticket")
        return {"ticket": ticket, "verified": True if key in receiver.there else bad}


@pytest.mark.parametrize("bad", [NAMED, False, "absent", {"tickt": "absent"}], ids=str)
@pytest.mark.parametrize("mode", ["verify_first", "replay"])
async def test_what_its_handler_could_not_find_is_looked_for_and_done_again(sf, mode, bad):
    """A name that are undeclared may be a slip for any effect."""
    receiver = Receiver()
    declare(sf, receiver, mode, bad)
    receipt = await sf.enqueue("acts")
    first = await tried(sf, receipt)
    assert (first.view, failure_of(first).reason_code, failure_of(first).landed) == (
        *("retry_pending", "unverified"),
        "maybe",
    )
    assert effects_of(first) == [{"name": "ticket", "verdict": "indeterminate", "receipt": 1}]
    job = await tried(sf, receipt)
    assert (job.state, job.result, receiver.calls) == ("completed", {"ticket": 2, "verified": True}, 2)
    looked, stands = effects_of(job)
    assert looked == {"name": "ticket", "verdict": "absent", "receipt": None}
    assert (stands, receiver.looked) == ({"name": "ticket", "verdict": "verified", "receipt": 2}, [1])
    [again] = [line for line in job.history if line.reason_code == "doubted_receipt"]
    assert "with the receipt 1" in (again.message or "")


async def test_what_is_there_after_all_keeps_its_receipt(sf):
    """It came to light late: nothing is done again, and the handler goes on behind it."""
    receiver = Receiver()
    declare(sf, receiver, "verify_first", NAMED)
    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    receiver.there.add(f"{receipt.id}.ticket")
    job = await tried(sf, receipt)
    assert (job.state, job.result, receiver.calls) == ("completed", {"ticket": 1, "verified": True}, 1)
    assert effects_of(job) == [{"name": "ticket", "verdict": "verified", "receipt": 1}]


async def test_a_replay_that_finds_it_gives_the_receipt_back(sf):
    receiver = Receiver()
    declare(sf, receiver, "replay", NAMED)
    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    receiver.there.add(f"{receipt.id}.ticket")
    job = await tried(sf, receipt)
    assert (job.state, job.result, receiver.calls) == ("completed", {"ticket": 1, "verified": True}, 1)
    assert effects_of(job) == [{"name": "ticket", "verdict": "verified", "receipt": 1}]


async def test_without_a_check_the_mode_decides(sf):
    """What may be done twice is done again, and history says so before."""
    receiver = Receiver()
    declare(sf, receiver, "replay", NAMED, verify=False)
    receipt = await sf.enqueue("acts")
    assert (await tried(sf, receipt)).history[0].possible_duplicate
    assert ((await tried(sf, receipt)).state, receiver.calls) == ("completed", 2)


async def test_what_has_no_check_is_held_where_it_must_be_verified(sf):
    @sf.handler("acts", replay="verify_first", effects=[Effect("ticket", lambda _job: False), Effect("mail")])
    async def handler(job):
        await job.once("mail", str)
        return {"verified": {"mail": False}}

    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    job = await tried(sf, receipt)
    assert (job.state, job.attempts) == ("held", 1)
    assert "'mail' cannot be told: its handler could not find it, and it has no verify" in failure_of(job).message


async def test_a_manual_one_is_looked_for_before_its_letter_ends(sf):
    receiver = Receiver()
    declare(sf, receiver, "manual", "absent")
    receipt = await sf.enqueue("acts")
    assert failure_of(await tried(sf, receipt)).reason_code == "unknown_commit_state"
    with pytest.raises(NotVerified):
        await sf.dead_letters.resolve(receipt.id, by="ann", reason="the ledger says so")
    assert (await sf.dead_letters.replay(receipt.id, by="ann"))["outcome"] == "replayed"
    assert ((await tried(sf, receipt)).state, receiver.calls) == ("completed", 2)


async def test_only_what_is_named_is_doubted(sf):
    receiver = Receiver(drops=0)
    sent: list[str] = []

    @sf.handler("acts", effects=[Effect("ticket"), Effect("mail")])
    async def handler(job):
        await job.once("mail", sent.append, job.id)
        await job.once("ticket", receiver.create, job.id)
        return {"verified": {"mail": True, "ticket": job.attempt > 1}}

    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    assert ((await tried(sf, receipt)).state, len(sent), receiver.calls) == ("completed", 1, 2)


async def test_one_that_never_finds_it_dies_and_is_never_complete(sf):
    receiver = Receiver(drops=9)
    declare(sf, receiver, "verify_first", NAMED)
    receipt = await sf.enqueue("acts")
    for _ in range(3):
        job = await tried(sf, receipt)
    assert (job.state, job.reason, receiver.calls, len(receiver.looked)) == ("dead", "max_attempts", 3, 2)
