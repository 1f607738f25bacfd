"""Hints: whoever listens hears which queue has work, and after how many seconds."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from standfast.outcome import NotEntered, Snooze, Succeeded
from standfast.rules import QueueRules, fixed
from standfast.spine import intake
from tests.store.suite import claim_one, ended, enqueued, failed, new_job, one

Hints = queue.SimpleQueue[dict[str, float]]
SOON = 10.0
"""Seconds a hint may take before it counts as lost; it takes milliseconds."""


@pytest.fixture
def heard(store) -> Iterator[Hints]:
    hints: Hints = queue.SimpleQueue()
    store.listen(hints.put)
    yield hints
    store.unlisten(hints.put)


async def test_new_work_is_told_at_once(store, heard):
    await one(store)
    assert heard.get(timeout=SOON) == {"mail": 0.0}


async def test_delayed_work_is_told_with_its_delay(store, heard, clock):
    await enqueued(store, new_job(delay=60.0), new_job(delay=5.0), new_job("chat", at=clock.wall() + 9))
    assert heard.get(timeout=SOON) == {"mail": 5.0, "chat": 9.0}


@pytest.mark.parametrize(("outcome", "delay"), [(failed(), 7.0), (Snooze(3.0), 3.0), (NotEntered("x"), 0.0)])
async def test_returning_work_is_told_with_its_delay(store, heard, outcome, delay):
    await one(store)
    heard.get(timeout=SOON)
    await ended(store, await claim_one(store), outcome, QueueRules(backoff=fixed(7)))
    assert heard.get(timeout=SOON) == {"mail": delay}


async def test_what_makes_no_work_is_not_told(store, heard):
    """Claims, ends and heartbeats wake nobody: the next hint is the next job's."""
    await one(store)
    assert heard.get(timeout=SOON) == {"mail": 0.0}
    await ended(store, await claim_one(store), Succeeded())
    await one(store, "chat")
    assert heard.get(timeout=SOON) == {"chat": 0.0}


async def test_a_job_handed_in_again_is_no_new_work(store, heard):
    job = new_job()
    await store.write_all(intake.enqueue, [job])
    assert heard.get(timeout=SOON) == {"mail": 0.0}
    await store.write_all(intake.enqueue, [job])
    await one(store, "chat")
    assert heard.get(timeout=SOON) == {"chat": 0.0}


async def test_whoever_stopped_listening_is_told_no_more(store, heard):
    mute: Hints = queue.SimpleQueue()
    store.listen(mute.put)
    store.unlisten(mute.put)
    await one(store)
    assert heard.get(timeout=SOON) == {"mail": 0.0}
    assert mute.empty()
