"""A closed object says so on every verb; what is called while the interpreter ends is stored, or says it is not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from standfast import Standfast, StoreUnavailable
from standfast.concurrency import threads as aside
from standfast.errors import StoreClosed
from standfast.spine.registry import Handler
from standfast.wings.notices.scripts import last_journal_number, number_journal
from tests.waiting import seen
from tests.worker.inside import is_open, store_of
from tests.worker.processes import environment

ENDING = Path(__file__).with_name("ending.py")


@pytest.fixture
async def closed(url: str) -> Standfast:
    """Give an object that was used and closed."""
    sf = Standfast(url)
    sf.handler("mail")(lambda job: job.payload)
    async with sf:
        await sf.enqueue("mail", 1)
    return sf


def handler_of(sf: Standfast) -> Handler:
    found = sf._registry.find("mail", "mail")  # noqa: SLF001
    assert found is not None
    return found


def started(sf: Standfast) -> Awaitable[str]:
    flow = sf.workflow("flow")
    flow.step("first", "mail")
    return flow.start()


VERBS: dict[str, Callable[[Standfast], Awaitable[Any]]] = {
    "enqueue": lambda sf: sf.enqueue("mail", 2),
    "enqueue with a fallback": lambda sf: sf.enqueue("mail", 2, otherwise=lambda: None),
    "enqueue_many": lambda sf: sf.enqueue_many("mail", [2, 3]),
    "enqueue_http": lambda sf: sf.enqueue_http("mail", "POST", "https://a.example/", idempotency_key="a"),
    "enqueue_sync": lambda sf: asyncio.to_thread(sf.enqueue_sync, "mail", 2),
    "ingest": lambda sf: sf.ingest("mail", 2),
    "handler.enqueue": lambda sf: handler_of(sf).enqueue(2),
    "handler.enqueue_many": lambda sf: handler_of(sf).enqueue_many([2]),
    "run": lambda sf: sf.run("mail", 2),
    "submit": lambda sf: sf.submit("mail", 2),
    "hand_over": lambda sf: sf.hand_over("mail", 2, "it failed"),
    "status": lambda sf: sf.status("a"),
    "wait": lambda sf: sf.wait("a", 1),
    "result": lambda sf: sf.result("a"),
    "retry": lambda sf: sf.retry("a"),
    "cancel": lambda sf: sf.cancel("a"),
    "explain": lambda sf: sf.explain("a"),
    "jobs": lambda sf: sf.jobs(),
    "stats": lambda sf: sf.stats(),
    "health": lambda sf: sf.health(),
    "subscribe": lambda sf: anext(aiter(sf.subscribe())),
    "worker": lambda sf: sf.worker().__aenter__(),
    "dead_letters.list": lambda sf: sf.dead_letters.list(),
    "dead_letters.replay": lambda sf: sf.dead_letters.replay("a", by="ann"),
    "queues.list": lambda sf: sf.queues.list(),
    "queues.pause": lambda sf: sf.queues.pause("mail"),
    "schedules.list": lambda sf: sf.schedules.list(),
    "approvals.list": lambda sf: sf.approvals.list(),
    "inbox.list": lambda sf: sf.inbox.list("s"),
    "tokens.list": lambda sf: sf.tokens.list(),
    "audit.verify": lambda sf: sf.audit.verify(),
    "workflow.start": started,
}


@pytest.mark.long_on_postgres  # the same check for every engine, in front of it
@pytest.mark.parametrize("verb", VERBS)
async def test_every_verb_of_a_closed_object_says_so_and_opens_nothing(closed, verb):
    with pytest.raises(StoreClosed, match=r"was closed; nothing was written.*async with sf") as refused:
        await VERBS[verb](closed)
    assert refused.value.definite
    assert isinstance(refused.value, StoreUnavailable)
    assert not is_open(closed)


async def test_opening_a_closed_object_makes_it_usable_again(closed):
    async with closed as sf:
        assert (await sf.enqueue("mail", 2)).outcome == "accepted"
        assert len(await sf.jobs()) == 2
    with pytest.raises(StoreClosed):
        await closed.enqueue("mail", 3)
    await closed.close()  # closing twice does no harm
    await closed.open()
    assert len(await closed.jobs()) == 2
    await closed.close()


def test_one_object_serves_one_event_loop_after_the_other(url):
    sf = Standfast(url)

    async def use() -> int:
        await sf.enqueue("mail", 1)
        return len(await sf.jobs())

    async def use_and_close() -> int:
        async with sf:
            return await use()

    assert [asyncio.run(use()), asyncio.run(use())] == [1, 2]
    assert [asyncio.run(use_and_close()), asyncio.run(use_and_close())] == [3, 4]


async def listen(sf: Standfast) -> None:
    """Hear whatever is told, also of what came before, until there is no more."""
    async for _ in sf.subscribe():
        pass


async def test_a_subscriber_of_a_closed_object_is_told(url):
    sf = Standfast(url)
    await sf.open()
    waiting = asyncio.ensure_future(listen(sf))
    following = sf._journals._of  # noqa: SLF001
    await seen(lambda: any(each._waiting for each in following.values()))  # noqa: SLF001
    await sf.close()
    with pytest.raises(StoreClosed):
        await waiting
    assert not is_open(sf)


async def test_a_cancellation_that_comes_just_as_a_read_is_answered_is_kept(url):
    """A look at the journal that missed its cancellation looked for good, and `close()` waited for it as long."""
    async with Standfast(url) as sf:
        engine = store_of(sf)._engine  # noqa: SLF001
        answer: Future[Any] = Future()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "_read", lambda _script: answer)
            reading = asyncio.ensure_future(engine.read(last_journal_number()))
            await asyncio.sleep(0)
            answer.set_result(0)
            # The answer is on its way to the task when it is cancelled.
            asyncio.get_running_loop().call_soon(reading.cancel)
            await asyncio.wait([reading])
        assert reading.cancelled()


async def test_a_call_whose_end_nobody_can_look_at_any_more_does_not_say_that_nothing_was_written(url):
    """It is stored: whoever believed otherwise would call again."""
    async with Standfast(url) as worker:
        worker.handler("mail")(lambda _job: None)
        await worker.enqueue("mail", delay=60)
        async with Standfast(url) as sf:
            waiting = asyncio.ensure_future(sf.run("mail", 1))
            [job] = await seen(lambda: worker.jobs(queue="mail", view="queued"))
        with pytest.raises(StoreUnavailable, match=f"the call is stored as job {job.id}") as refused:
            await waiting
        assert not refused.value.definite


async def test_a_call_that_comes_while_the_store_closes_is_answered(url):
    """It was handed to a writer that is gone: its caller would wait for good."""
    async with Standfast(url) as sf:
        engine = store_of(sf)._engine  # noqa: SLF001
    with pytest.raises(StoreClosed):
        engine.call(number_journal, [None], seconds=None).result()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is nothing to fork")
def test_a_child_that_is_forked_after_the_close_says_so_too(url):
    sf = Standfast(url)
    sf.enqueue_sync("mail", 1)
    asyncio.run(sf.close())
    child = os.fork()
    if child == 0:
        try:
            sf.enqueue_sync("mail", 2)
        except StoreClosed:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("opened", ["opened before", "not opened before"])
@pytest.mark.parametrize("when", ["a thread after the main thread", "an exit handler"])
def test_what_is_enqueued_while_the_interpreter_ends_is_stored(url, when, opened):
    ended = subprocess.run(
        [sys.executable, str(ENDING), url, when, opened],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.split()
    assert lines == ["accepted", "accepted", "queued", "closed"]


def test_where_no_thread_can_be_started_the_caller_is_told_that_nothing_was_written(url, monkeypatch):
    """As Python 3.12.0 and 3.12.1 answer inside exit handlers."""
    sf = Standfast(url)
    monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
    with pytest.raises(StoreUnavailable, match="nothing was written") as refused:
        store_of(sf).open()
    assert refused.value.definite
    monkeypatch.undo()
    assert sf.enqueue_sync("mail", 1).outcome == "accepted"
    asyncio.run(sf.close())


async def test_where_no_more_threads_can_be_started_an_open_store_still_works(url, monkeypatch):
    async with Standfast(url) as sf:
        monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
        receipt = await sf.enqueue("mail", 1)
        found = await sf.status(receipt.id)
        assert (found is not None, await aside.run_in_thread(lambda: 5)) == (True, 5)
        monkeypatch.undo()


def refuse_to_start(_thread: threading.Thread) -> None:
    raise RuntimeError("can't create new thread at interpreter shutdown")
