"""The wall clock jumps both ways by hours: leases, order, retries and ages do not notice; `at=` does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from standfast import Standfast, Transient
from standfast.application.wings import store_at
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.testing import FrozenClock, drain
from standfast.worker import upkeep
from tests.faults import roles
from tests.faults.nursery import Nursery, nursery, reported, until

HOUR = 3600.0
JUMPS = pytest.mark.parametrize("jump", [5 * HOUR, -5 * HOUR], ids=["forward", "back"])
LEASE = 90.0
BEAT = 30.0
CARD = upkeep.WorkerCard("worker", "host", 1, "[]", "{}")
SWEEP = upkeep.SweepRequest(every=BEAT, patience=BEAT)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
async def sf(place, clock) -> AsyncIterator[Standfast]:
    async with Standfast(str(place / "queue.db"), clock=clock) as sf:
        yield sf


class Held:
    """A job that a worker holds, seen from the store."""

    def __init__(self, path: Path, clock: FrozenClock) -> None:
        self._path = path
        self._clock = clock
        self.store = store_at(str(path), clock)

    async def claim(self) -> None:
        async with Standfast(str(self._path), clock=self._clock) as sf:
            await sf.enqueue("post")
            self.store.write(upkeep.beat, CARD).result()
            catch = await self.store.claim(ClaimRequest(CARD.id, (QueueDemand("post", ("post",), 1),)))
        assert len(catch.claims) == 1
        await self.lapsed()

    async def lapsed(self) -> int:
        """Sweep as often as a sweeper does, without a gap; give how many jobs count as lost."""
        return len((await self.store.write(upkeep.sweep, SWEEP)).lapsed)

    async def lapsed_after(self, seconds: float, *, beating: bool) -> int:
        """Let time pass, in steps of one beat."""
        found = 0
        for _ in range(int(seconds / BEAT)):
            self._clock.advance(BEAT)
            if beating:
                self.store.write(upkeep.beat, CARD).result()
            found = await self.lapsed()
        return found

    def reboot(self) -> None:
        """Close the store, start the machine anew, and open it again."""
        self.store.close()
        self._clock.reboot()
        self.store = store_at(str(self._path), self._clock)


@pytest.fixture
async def held(place, clock) -> AsyncIterator[Held]:
    held = Held(place / "queue.db", clock)
    await held.claim()
    yield held
    held.store.close()


@JUMPS
async def test_a_jump_kills_no_lease(held, clock, jump):
    clock.jump_wall(jump)
    assert await held.lapsed() == 0
    assert await held.lapsed_after(10 * LEASE, beating=True) == 0


@JUMPS
async def test_a_jump_revives_no_lease(held, clock, jump):
    assert await held.lapsed_after(LEASE, beating=False) == 0
    clock.jump_wall(jump)
    assert await held.lapsed_after(BEAT, beating=False) == 1


@pytest.mark.parametrize("jump", [0.0, 5 * HOUR, -5 * HOUR], ids=["no-jump", "forward", "back"])
async def test_after_a_reboot_every_lease_has_lapsed_and_time_has_not_gone_back(held, clock, jump):
    before = held.store.now()
    clock.jump_wall(jump)
    held.reboot()
    assert held.store.now() >= before
    assert await held.lapsed() == 1, "a worker of an earlier boot is gone for certain"


async def test_time_does_not_go_back_over_a_reboot_when_the_journal_is_pruned_away(held, clock):
    for _ in range(50):
        clock.advance(HOUR)
        held.store.write(upkeep.beat, CARD).result()
        await held.store.write(upkeep.prune, upkeep.PruneRequest())
    before = held.store.now()
    clock.jump_wall(-20 * HOUR)
    held.reboot()
    assert held.store.now() >= before


@JUMPS
async def test_a_jump_reorders_nothing(sf, clock, jump):
    ran: list[int] = []

    @sf.handler("post")
    async def post(job):
        ran.append(job.payload)

    for n in range(6):
        await sf.enqueue("post", n)
        clock.advance(1)
        clock.jump_wall(jump if n % 2 else -jump)
    await drain(sf)
    assert ran == [0, 1, 2, 3, 4, 5]


@JUMPS
async def test_a_jump_neither_stalls_nor_hurries_a_retry_or_a_delay(sf, clock, jump):
    ran: list[str] = []
    sf.queue("post", backoff=lambda _: 60.0)

    @sf.handler("post")
    async def post(job):
        ran.append(job.payload)
        if job.payload == "failing" and job.attempt == 1:
            raise Transient("not yet")

    await sf.enqueue("post", "failing")
    await drain(sf)
    await sf.enqueue("post", "delayed", delay=60)
    clock.jump_wall(jump)
    clock.advance(59)
    await drain(sf)
    assert ran == ["failing"]
    clock.advance(1)
    await drain(sf)
    assert sorted(ran) == ["delayed", "failing", "failing"]


@JUMPS
async def test_a_jump_ages_no_job(sf, clock, jump):
    sf.queue("post", max_age="1h")
    sf.handler("post")(lambda _job: None)
    receipt = await sf.enqueue("post")
    clock.jump_wall(jump)
    clock.advance(HOUR - 1)
    await drain(sf)
    job = await sf.status(receipt.id)
    assert job is not None
    assert job.state == "completed"


@JUMPS
async def test_what_is_asked_for_by_wall_time_comes_by_wall_time(sf, clock, jump):
    ran: list[float] = []

    @sf.handler("post")
    async def post(_job):
        ran.append(clock.wall())

    await sf.open()
    clock.jump_wall(jump)
    at = clock.wall() + 2 * HOUR
    await sf.enqueue("post", at=at)
    expired = await sf.enqueue("post", at=at, expires=at - 1)
    clock.advance(2 * HOUR - 1)
    await drain(sf)
    assert ran == []
    clock.advance(1)
    await drain(sf)
    assert ran == [at]
    job = await sf.status(expired.id)
    assert job is not None
    assert (job.state, job.reason) == ("dead", "expired")


# --- a whole worker process


@pytest.fixture
def children() -> Iterator[Nursery]:
    with nursery() as warm:
        yield warm


def test_a_worker_process_works_on_while_its_wall_clock_jumps(place, children):
    (place / "skew").write_text("0")
    children.spawn(roles.work_by_a_moving_clock, place)
    until(lambda: reported(place / "working"))

    async def enqueue() -> None:
        async with Standfast(str(place / "queue.db")) as sf:
            await sf.enqueue_many("post", ["good", "failing", "long"])

    for n, skew in enumerate((6 * HOUR, -6 * HOUR, 0), start=1):
        asyncio.run(enqueue())
        wait_for(place, "entered", {"long": n})
        (place / "skew").write_text(str(skew))
        wait_for(place, "effects", {"good": n, "failing": n, "long": n})
    attempts = [(line["payload"], line["attempt"]) for line in reported(place / "entered")]
    assert sorted(attempts) == sorted([("good", 1), ("failing", 1), ("failing", 2), ("long", 1)] * 3)


def wait_for(place: Path, what: str, times: dict[str, int]) -> None:
    """Wait until this was reported so often for each payload."""

    def counted() -> bool:
        counts = Counter(line["payload"] for line in reported(place / what))
        return all(counts[payload] == number for payload, number in times.items())

    until(counted)
