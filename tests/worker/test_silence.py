"""Health names what nothing moves, a misspelt queue above all; a system that works has nothing to name."""

from __future__ import annotations

import pytest

from standfast.testing import drain


async def issues(sf) -> list[str]:
    found: list[str] = (await sf.health())["issues"]
    return found


async def test_a_misspelt_queue_shows_at_once_and_within_two_sweeps_that_nothing_moves_its_job(sf):
    sf.handler("mail")(lambda _job: None)
    await sf.enqueue("mial")
    await drain(sf)
    assert "mial: no handler is known" in await issues(sf)
    sf.clock.advance(21)
    assert "mial: nothing moves 1 job" in await issues(sf)


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
    assert "mail: nothing moves 1 job (it is paused)" in await issues(sf)


@pytest.mark.parametrize("pause", [0, 21, 3600])
async def test_a_system_that_works_has_nothing_to_name(sf, pause):
    sf.handler("mail")(lambda _job: None)
    for number in range(5):
        await sf.enqueue("mail", number, thread_key="t" if number % 2 else None)
    await sf.enqueue("mail", delay="2h")
    await drain(sf)
    sf.clock.advance(pause)
    assert not any("nothing moves" in issue for issue in await issues(sf))
