"""Several processes on one store: nothing is given twice, nobody starves, and everybody hears of new work."""

from __future__ import annotations

from collections import Counter

from standfast.application.wings import store_at
from tests.store.suite import claimed, enqueued, new_job

FAIR_SHARE = 4
"""How much more often than the other a process may come to write before the other counts as starved."""


async def test_eight_processes_open_a_new_store_at_once(shared_url, processes):
    """The first to get the write lock builds it, the others find it built."""
    child = processes.start("open_at_once", shared_url, "8")
    assert child.hear() == [0] * 8
    store = store_at(shared_url)
    assert sorted(claim.id for claim in await claimed(store, slots=99)) == [f"job-{number}" for number in range(8)]
    store.close()


async def test_two_processes_never_get_the_same_job(shared_url, processes):
    store = store_at(shared_url)
    ids = await enqueued(store, *(new_job() for _ in range(300)))
    children = [processes.ready("claim_all", shared_url, f"worker-{number}") for number in (1, 2)]
    for child in children:
        child.go()
    found = [child.hear() for child in children]
    assert Counter(found[0] + found[1]) == Counter(ids)
    store.close()


def test_of_two_busy_processes_neither_starves(shared_url, processes):
    """Both always have something to write. Each gets its share; how soon is the benchmark's to say."""
    children = [processes.ready("enqueue_until_told", shared_url, name) for name in "ab"]
    for child in children:
        child.go()
    while children[0].hear()[0] < 60:
        pass
    rounds = [60 + len(children[0].leave()), len(children[1].leave())]
    assert max(rounds) <= FAIR_SHARE * min(rounds)


async def test_new_work_wakes_another_process(shared_url, processes):
    child = processes.ready("listen", shared_url)
    store = store_at(shared_url)
    await enqueued(store, new_job("chat", delay=5.0))
    assert child.hear() == [{"chat": 5.0}]
    store.close()
