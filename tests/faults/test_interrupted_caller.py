"""A signal may break off a caller in the main thread after any call that it makes: nothing of the store stops by that.

A caller commits in its own turn where that is quicker, and has then the store's lock, other callers' requests and the
claim of an idle worker in its hands.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median_low
from types import FrameType
from typing import Any

import pytest

import standfast
from standfast import Standfast
from standfast.spine import intake
from standfast.store import requests
from standfast.store import waiting_requests as leading
from standfast.store.requests import Request, ThreadAnswer
from standfast.store.waiting_requests import Leader, Line
from standfast.worker import worker
from tests.store.suite import new_job
from tests.worker.inside import store_of

SOON = 3.0
"""Seconds; a claim that never arrived is given back after 20."""


CLEAN_RUNS = 9
"""Runs without a signal, which say how far the others must come: a few leave the round to the writer."""
TRIES = 20
OURS = str(Path(standfast.__file__).parent)
PASSED = {"Leader.offer", "Leader._lead", "Leader._lead_round", "Engine._lead", "Engine._finish", "deliver"}
"""Where a signal must have come if a caller leads."""


class Interrupted(BaseException):
    """What a signal handler raises, as for Ctrl-C."""


def seen(fact: Callable[[], Any]) -> bool:
    until = time.monotonic() + SOON
    while not fact() and time.monotonic() < until:
        time.sleep(0.001)
    return bool(fact())


def interrupted_after(
    calls: int, work: Callable[[], object], *, begins_in: str = requests.__file__
) -> tuple[str | None, int]:
    """Raise where Python would run a signal handler: after so many calls that are made inside of the store.

    That is at the end of each call of a C function, and at the beginning of any other. Only code of ours is counted:
    what tests put between, to look at the order of locks, is not made for signals. Give the place, or None where the
    work ends sooner, and how many calls were made.
    """
    made = -1
    place: str | None = None

    def signal(frame: FrameType, event: str, _: Any) -> None:
        nonlocal made, place
        if made < 0 and frame.f_code.co_filename != begins_in:
            return
        if event in {"call", "c_return"} and frame.f_code.co_filename.startswith(OURS):
            made += 1
            if made == calls:
                sys.setprofile(None)
                place = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
                raise Interrupted

    sys.setprofile(signal)
    try:
        work()
    except Interrupted:
        return place, made
    finally:
        sys.setprofile(None)
    return None, made


@contextmanager
def worker_in_a_thread(path: str, ran: Counter[int]) -> Iterator[None]:
    begun, loops = threading.Event(), list[asyncio.AbstractEventLoop]()
    stop = asyncio.Event()

    async def work() -> None:
        async with Standfast(path) as sf:
            sf.handler("mail")(lambda job: ran.update([job.payload]))
            async with sf.worker():
                loops.append(asyncio.get_running_loop())
                begun.set()
                await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(work(),), daemon=True)
    thread.start()
    assert begun.wait(10)
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(10)


class SecondCaller:
    """Hands in a request just before another caller takes what waits into its own round: that one must see to it.

    Its thread comes to nothing else meanwhile, as a busy one does. So it does not wake the writer itself.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.request: Request[Any] | None = None
        lead = Line.lead

        def lead_both(line: Line, most: int) -> list[Request[Any]]:
            if threading.current_thread() is threading.main_thread():
                request: Request[Any] = Request(intake.enqueue, [new_job(queue="other")], line.put)
                request.future = ThreadAnswer()
                line.waiting.append(request)
                self.request = request
            return lead(line, most)

        monkeypatch.setattr(Line, "lead", lead_both)

    def is_answered(self) -> bool:
        """Tell whether it got its answer, if it asked for anything."""
        return self.request is None or self.request.future.done()


@pytest.mark.parametrize("led", [True, False], ids=["in its own turn", "by the writer"])
def test_a_signal_after_any_call_stops_neither_the_store_nor_a_worker(tmp_path: Path, monkeypatch, led: bool):  # noqa: FBT001
    slowest = 10.0 if led else 0.0
    monkeypatch.setattr(leading, "SLOWEST_LED", slowest)
    monkeypatch.setattr(leading, "SLOWEST_AFTER_PAUSE", slowest)
    monkeypatch.setattr(worker, "POLL_EVERY", 3600.0)  # or a worker that lost its wake-up looks by itself
    path, ran, numbers, places = str(tmp_path / "queue.db"), Counter[int](), count(), list[str]()
    sf = Standfast(path)
    second = SecondCaller(monkeypatch)
    with worker_in_a_thread(path, ran):
        sf.enqueue_sync("mail", next(numbers))
        engine: Any = store_of(sf)._engine  # noqa: SLF001 - when the worker's claim stands there is nobody else's business

        def ready() -> bool:
            return engine._waiting.sleeping and bool(engine.standing_claims.waiting)  # noqa: SLF001

        def enqueue(calls: int) -> tuple[str | None, int, int]:
            """Enqueue where nothing else is under way, and be interrupted."""
            assert seen(ready), places[-1:]
            number, second.request = next(numbers), None
            return *interrupted_after(calls, partial(sf.enqueue_sync, "mail", number)), number

        def clean() -> int:
            place, made, number = enqueue(sys.maxsize)
            assert place is None
            assert seen(partial(ran.get, number))
            assert (second.request is not None) == led
            return made

        for calls in range(median_low(clean() for _ in range(CLEAN_RUNS))):
            tries = (enqueue(calls)[0] for _ in range(TRIES))  # one that was not led makes fewer calls
            place = next(filter(None, tries), None)
            assert place is not None, f"never came to call {calls}, after {places[-1]}"
            places.append(place)
            assert seen(second.is_answered), place
            assert seen(ready), place
            sf.enqueue_sync("mail", number := next(numbers))
            assert seen(partial(ran.get, number)), place
    if led:
        assert {place.partition(",")[0] for place in places} >= PASSED
    assert ran.most_common(1)[0][1] == 1, "what was enqueued once ran twice"
    asyncio.run(sf.close())


def test_a_signal_at_the_end_of_a_led_round_lets_go_of_the_lock_and_wakes_the_writer_for_what_is_left():
    """Where the round could not be served in the caller's turn, the writer must look, and must find the lock free."""
    for calls in count(1):  # the first is the call of the whole
        line, round_ = Line(), threading.Lock()
        leader = Leader(line, round_, list)
        request: Request[Any] = Request(intake.enqueue, [new_job()], line.put)
        request.future = ThreadAnswer()
        line.waiting.append(request)
        place, _ = interrupted_after(calls, leader._lead, begins_in=leading.__file__)  # noqa: SLF001
        assert not round_.locked(), place
        assert [*line.waiting] == [request], place
        assert not line._wake.empty(), place  # noqa: SLF001
        if place is None:
            break
    assert calls > 8, "it led nothing"
