"""Health names what nothing moves, a misspelt queue above all; a system that works has nothing to name."""

from __future__ import annotations

import pytest

from standfast.testing import drain
from tests.store.suite import beat, claim_one
from tests.worker.inside import store_of


async def issues(sf) -> list[str]:
    found: list[str] = (await sf.health())["issues"]
    return found


async def test_a_misspelt_queue_is_one_issue_however_long_its_job_waits(sf):
    sf.handler("mail")(lambda _job: None)
    await sf.enqueue("mial")
    await drain(sf)
    unserved = "and no worker serves this queue; no handler is known, so check the queue's name"
    assert await issues(sf) == [f"mial: 1 job is due {unserved}"]
    for seconds, waited in ((21, "21 s"), (339, "6 min")):
        sf.clock.advance(seconds)
        await drain(sf)
        of_queue = [each for each in await issues(sf) if each.startswith("mial")]
        assert of_queue == [f"mial: 1 job has been due for {waited} {unserved}"]


@pytest.mark.parametrize("how", [{"delay": 3600}, {"delay": 3600, "thread_key": "t"}])
async def test_a_misspelt_queue_shows_before_its_job_is_due(sf, how):
    sf.handler("mail")(lambda _job: None)
    await sf.enqueue("mial", **how)
    await drain(sf)
    assert await issues(sf) == ["mial: no handler is known"]


async def test_a_misspelt_handler_of_a_job_that_waits_for_its_thread_shows(sf):
    sf.handler("mail")(lambda _job: None)
    sf.queue("mail", coalesce="never")
    await sf.enqueue("mail", thread_key="t")
    await sf.enqueue("mail", thread_key="t", handler="mial")
    assert "mail: no handler 'mial' is known" in await issues(sf)


async def test_a_misspelt_handler_shows_while_its_queue_is_served(sf):
    sf.handler("mail")(lambda _job: None)
    await sf.enqueue("mail", handler="mial")
    await sf.enqueue("mail")
    await drain(sf)
    assert "mail: no handler 'mial' is known" in await issues(sf)


async def test_a_request_needs_no_declared_handler(sf):
    await sf.enqueue_http("feedback", "GET", "https://a.example/")
    assert not any("no handler" in issue for issue in await issues(sf))


async def test_a_paused_queue_says_so(sf):
    sf.handler("mail")(lambda _job: None)
    await sf.enqueue("mail")
    await sf.queues.pause("mail")
    sf.clock.advance(21)
    assert "mail: 1 job has been due for 21 s and no worker serves this queue; the queue is paused" in await issues(sf)


@pytest.mark.parametrize("pause", [0, 21, 3600])
async def test_a_system_that_works_has_nothing_to_name(sf, pause):
    sf.handler("mail")(lambda _job: None)
    for number in range(5):
        await sf.enqueue("mail", number, thread_key="t" if number % 2 else None)
    await sf.enqueue("mail", delay="2h")
    await drain(sf)
    sf.clock.advance(pause)
    assert not any("stuck" in issue or "due" in issue for issue in await issues(sf))


async def test_a_job_whose_worker_was_killed_says_so_everywhere(sf):
    sf.queue("mail", lease=90)
    sf.handler("mail")(lambda _job: None)
    receipt = await sf.enqueue("mail")
    beat(store_of(sf))
    claim = await claim_one(store_of(sf))
    sf.clock.advance(29)
    assert await sf.explain(receipt.id) == f"It has been running for 29 s on {claim.worker}, attempt 1 of 5."
    assert (await sf.stats())["worker_running"]
    assert not any("of a silent worker" in issue for issue in await issues(sf))
    sf.clock.advance(18)
    said = await sf.explain(receipt.id)
    assert f"on {claim.worker}, which has been silent for 47 s and may be gone. Its lease ends in 43 s" in said
    assert said.endswith("none is alive: start one with `standfast worker app:sf`.")
    counted = await sf.stats()
    assert (counted["workers"], counted["worker_running"]) == ([], False)
    assert (await sf.queues.describe())["mail"]["workers"] == 0
    assert "mail: 1 running job of a silent worker, and no worker is alive" in await issues(sf)


async def test_a_handler_is_past_its_timeout_if_its_worker_says_so_since_and_not_if_that_was_killed(sf):
    sf.queue("mail", timeout=5, lease=90)
    await sf.enqueue("mail")
    beat(store_of(sf))
    await claim_one(store_of(sf))
    sf.clock.advance(6)
    late = "mail: 1 handler past its timeout"
    assert late not in await issues(sf), "nothing was heard of its worker since"
    beat(store_of(sf))
    assert late in await issues(sf)
    sf.clock.advance(30)
    assert late not in await issues(sf), "it is silent"


async def test_a_short_lease_makes_its_worker_silent_sooner(sf):
    sf.queue("mail", lease=6)
    receipt = await sf.enqueue("mail")
    await claim_one(store_of(sf))
    sf.clock.advance(7)
    assert "silent for 7 s and may be gone. Its lease is over" in await sf.explain(receipt.id)
