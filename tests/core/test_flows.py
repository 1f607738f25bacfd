"""One body of code for callers with a loop and without: what it waits for is awaited, or waited for in its thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from standfast.application.wings import store_at
from standfast.concurrency.flows import run_off_loop, run_on_loop, run_sync
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.tokens import settings_scripts
from standfast.wings.tokens.settings_scripts import SharedSetting


def here() -> int:
    return threading.get_ident()


async def both(*, fails: bool = False) -> list[int]:
    async def inner() -> int:
        return await run_off_loop(refuse if fails else here)

    return [await run_off_loop(here), await inner()]


def refuse() -> int:
    raise LookupError("not here")


async def test_on_a_loop_blocking_work_is_done_beside_it():
    assert here() not in await both()


def test_without_a_loop_it_is_done_in_the_thread_that_asks():
    assert run_sync(both()) == [here(), here()]


def test_what_goes_wrong_is_raised_where_the_flow_waits():
    async def mended() -> str:
        try:
            await both(fails=True)
        except LookupError as error:
            return str(error)
        return ""

    assert run_sync(mended()) == "not here"
    with pytest.raises(LookupError, match="not here"):
        run_sync(both(fails=True))


async def test_code_that_blocks_inside_a_loop_does_not_make_the_loop_block_afterwards():
    assert run_sync(both()) == [here(), here()]
    assert here() not in await both()


def test_what_only_a_loop_can_give_gets_a_loop_of_its_own_in_which_nothing_blocks():
    async def of_a_user() -> list[int]:
        await asyncio.sleep(0)
        return await both()

    async def flow() -> list[int]:
        return await run_on_loop(of_a_user())

    assert here() not in run_sync(flow())
    assert run_sync(both()) == [here(), here()]


def test_a_flow_that_suspends_is_refused():
    async def sleeps() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="only a loop"):
        run_sync(sleeps())


@pytest.fixture
def store() -> Any:
    opened = store_at(":memory:")
    yield opened
    opened.close()


SETTING = SharedSetting("colour", '"red"', "ann")


async def test_a_writing_script_runs_once_however_often_its_answer_is_awaited(store):
    answer = store.write(settings_scripts.publish, SETTING)
    assert await store.read(settings_scripts.value("colour")) is None, "nothing is handed in before it is asked for"
    assert [await answer, await answer] == [None, None]
    assert await store.read(settings_scripts.value("colour")) == '"red"'
    with pytest.raises(TypeError, match="handed in before"):
        answer.result()


async def test_an_answer_that_is_started_is_on_its_way_before_it_is_awaited(store):
    answer = store.write(settings_scripts.publish, SETTING).start()
    await asyncio.wait([answer])
    assert await store.read(settings_scripts.value("colour")) == '"red"'


def test_a_caller_without_a_loop_asks_for_the_result(store):
    store.write(settings_scripts.publish, SETTING).result()
    assert store.read(settings_scripts.value("colour")).result() == '"red"'
    assert store.read(queue_scripts.queue_names()).result() == []
