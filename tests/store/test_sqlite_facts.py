"""What the writer remembers between its transactions is what it would read again."""

from __future__ import annotations

import asyncio
import sys
from itertools import combinations
from typing import Any

import pytest

from standfast import Standfast
from tests.store.suite import enqueued, new_job
from tests.worker.inside import store_of
from tests.worker.processes import environment


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "queue.db")


async def elsewhere(path: str, verb: str) -> None:
    """Have another process do something with the store."""
    program = (
        "import asyncio, standfast\n"
        "async def do():\n"
        f"    async with standfast.Standfast({path!r}) as sf:\n"
        f"        return await {verb}\n"
        "asyncio.run(do())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=environment())
    assert await process.wait() == 0


async def test_a_queue_that_another_process_pauses_is_paused_for_whoever_claimed_from_it_before(path):
    ran: list[int] = []
    async with Standfast(path) as sf:
        sf.handler("mail")(lambda job: ran.append(job.payload))
        async with sf.worker():
            await sf.wait((await sf.enqueue("mail", 1)).id, 10)
            await elsewhere(path, "sf.queues.pause('mail')")
            late = await sf.enqueue("mail", 2)
            with pytest.raises(TimeoutError):
                await sf.wait(late.id, 0.5)
            await sf.queues.resume("mail")
            await sf.wait(late.id, 10)
    assert ran == [1, 2]


async def test_numbers_of_jobs_that_another_process_stored_are_not_given_again(path):
    async with Standfast(path) as sf:
        first = await sf.enqueue("mail", 1)
        await elsewhere(path, "sf.enqueue_many('mail', [2, 3, 4])")
        last = await sf.enqueue("mail", 5)
        jobs = await sf.jobs()
        assert [each.payload for each in jobs] == [5, 4, 3, 2, 1]
        assert {first.id, last.id} <= {each.id for each in jobs}


async def test_a_call_that_is_undone_leaves_nothing_that_is_remembered(path):
    """`enqueue_many` stores all or none: of a queue that it made up and then had no room in, nothing is known."""
    async with Standfast(path) as sf:
        sf.queue("small", max_depth=1)
        await sf.enqueue("mail", 1)
        with pytest.raises(Exception, match="max_depth"):
            await sf.enqueue_many("small", [1, 2])
        await sf.enqueue("small", 3)
        await sf.enqueue("mail", 4)
        assert sorted(each.payload for each in await sf.jobs()) == [1, 3, 4]


async def test_nothing_is_remembered_beyond_a_connection(path):
    """A process that forks lets go of its connection, and another may write before it has a new one."""
    async with Standfast(path) as sf:
        await sf.enqueue("mail", 1)
        await sf.enqueue("mail", 2)
        engine: Any = store_of(sf)._engine  # noqa: SLF001
        assert engine.pause()
        known = engine._facts  # noqa: SLF001
        engine.resume()
        await elsewhere(path, "sf.enqueue_many('mail', [3, 4])")
        await sf.enqueue("mail", 5)
        assert engine._facts is not known  # noqa: SLF001
        assert sorted(each.payload for each in await sf.jobs()) == [1, 2, 3, 4, 5]


async def test_a_connection_that_is_opened_anew_brings_nothing_from_before(path):
    """The number that tells of other connections' commits counts from the start: it may be the old one by chance."""
    async with Standfast(path) as sf:
        engine = store_of(sf)._engine  # noqa: SLF001
        for payload in (1, 2):
            assert engine.pause()  # as before a fork
            engine.resume()
            await sf.enqueue("mail", payload)
        assert engine.pause()
        engine.resume()
        engine._connection = engine._open()  # noqa: SLF001 - it is open, and another process is before it in turn
        await elsewhere(path, "sf.enqueue_many('mail', [3, 4])")
        await sf.enqueue_many("mail", [5])
        assert [each.payload for each in await sf.jobs()] == [5, 4, 3, 2, 1]


async def test_what_is_remembered_does_not_grow_with_each_set_of_queues_that_a_round_is_about(path):
    """A producer for the queues of many tenants grew by a kilobyte with nearly each of its rounds."""
    async with Standfast(path) as sf:
        queues = [f"tenant-{number}" for number in range(26)]
        for queue in queues:
            await sf.enqueue(queue)
        store = store_of(sf)
        known: Any = store._engine._facts  # type: ignore[attr-defined]  # noqa: SLF001
        for pair in [*combinations(queues, 2)] * 2:
            await enqueued(store, *map(new_job, pair))
            assert len(known._rows) <= 256  # noqa: SLF001
        assert len(known._rows) == 256  # noqa: SLF001
        assert len(await sf.jobs(queue="tenant-0", limit=200)) == 51
