"""Callers and their deadlines: each is answered or told in time, and what was taken is written all the same."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from standfast.errors import StoreUnavailable
from standfast.spine import intake
from standfast.store.requests import NEVER, Request, calls
from standfast.store.waiting_requests import Deadlines, Line
from standfast.wings.audit import scripts as audit
from tests.store.suite import new_job, one, states


def request(deadline: float = NEVER) -> Request[Any]:
    made: Request[Any] = Request(audit.note, [1], lambda _: None)
    made.start()
    made.deadline = deadline
    return made


def soon(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_a_caller_that_gave_up_waiting_is_written_all_the_same(store):
    job = new_job()
    caller = asyncio.ensure_future(store.write_all(intake.enqueue, [job]))
    await asyncio.sleep(0)
    caller.cancel()
    await one(store)
    assert await states(store, job.id) == ["queued"]


async def test_every_call_ends_by_its_own_deadline():
    line = Line()
    deadlines = Deadlines(line)
    late, never, early = request(soon(0.2)), request(), request(soon(0.05))
    for each in (late, never, early):
        line.put(each)
        deadlines.watch(each)
    with pytest.raises(StoreUnavailable) as caught:
        await early.future  # type: ignore[misc]
    assert caught.value.definite
    assert not late.future.done()
    with pytest.raises(StoreUnavailable):
        await late.future  # type: ignore[misc]
    assert not never.future.done()


async def test_a_call_in_a_transaction_ends_by_its_deadline_too_and_may_have_been_written():
    line = Line()
    deadlines = Deadlines(line)
    taken = request(soon(0.05))
    line.put(taken)
    deadlines.watch(taken)
    line.join([], most=10)
    assert calls([taken], {})
    with pytest.raises(StoreUnavailable, match="may have written this; call again with the same key") as caught:
        await taken.future  # type: ignore[misc]
    assert not caught.value.definite


async def test_a_call_that_gave_up_is_not_taken_any_more():
    waiting = request()
    waiting.give_up()
    assert calls([waiting], {}) == []


async def test_a_doubtful_call_is_never_told_that_nothing_was_written():
    tried = request()
    assert calls([tried], {})
    tried.put_back(doubtful=True)
    calls([tried], {})
    tried.put_back(doubtful=False)
    assert not tried.give_up().definite


async def test_a_request_is_seen_while_it_moves_from_the_line_into_a_round():
    """The loop looks at deadlines whenever it likes: a request it cannot see would never end."""
    line, moving = Line(), request()
    seen: list[list[Request[Any]]] = []

    class Watched(deque[Any]):
        def popleft(self) -> Any:
            found = super().popleft()
            seen.append(line.unanswered(asyncio.get_running_loop()))
            return found

    line.waiting = Watched()
    line.put(moving)
    line.join([], most=10)
    assert seen == [[moving]]


async def test_a_round_takes_so_many_items_and_leaves_the_rest_in_line():
    line = Line()
    waiting = [request() for _ in range(5)]
    for each in waiting:
        line.put(each)
    first: list[Request[Any]] = []
    line.join(first, most=3)
    assert first == waiting[:3]
    assert line.waiting
    rest: list[Request[Any]] = []
    line.join(rest, most=3)
    assert rest == waiting[3:]
    assert not line.waiting
