"""A full queue says so to its callers, with what to do, and `otherwise=` takes over."""

from __future__ import annotations

import pytest

from standfast import Backpressure, ConfigurationError, Receipt

DEEP = "queue 'mail' has 2 jobs due.*nothing was written.*max_depth"


@pytest.fixture
async def full(sf):
    sf.queue("mail", max_depth=2)
    await sf.enqueue_many("mail", [1, 2])
    return sf


async def test_every_way_in_is_refused(full):
    with pytest.raises(Backpressure, match=DEEP):
        await full.enqueue("mail", 3)
    with pytest.raises(Backpressure, match=DEEP):
        full.enqueue_sync("mail", 3)
    with pytest.raises(Backpressure, match=DEEP):
        await full.enqueue_many("mail", [3, 4])
    with pytest.raises(Backpressure, match=DEEP):
        await full.enqueue_http("mail", "GET", "https://a.example/")
    assert len(await full.jobs()) == 2


async def test_a_full_queue_sends_the_call_to_its_fallback(full):
    called = []
    assert await full.enqueue("mail", 3, otherwise=lambda: called.append(3)) == Receipt(None, "fallback", None)
    assert called == [3]
    assert "mail: 1 call went to its fallback" in (await full.health())["issues"]


async def test_work_makes_room(full):
    full.handler("mail")(lambda _job: None)
    await full.worker().run_due()
    assert (await full.enqueue("mail", 3)).outcome == "accepted"


@pytest.mark.parametrize("depth", [0, -1, 1.5, "many"])
async def test_a_limit_that_makes_no_sense_is_refused(sf, depth):
    with pytest.raises(ConfigurationError):
        sf.queue("mail", max_depth=depth)
