"""What other processes do to a store: `python child.py VERB PATH …` says `ready`, waits for a line, and goes."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sqlite3
import sys
import threading
from pathlib import Path
from queue import SimpleQueue

from standfast import Standfast, UnknownJob
from standfast.application.wings import store_at
from standfast.job import NewJob
from standfast.spine import intake
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.store.store import Store
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.anchor import Anchor
from standfast.wings.audit.words import Decision
from standfast.wings.schedules.ticker import Timetable

CALLERS = 64


def say(*words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def wait_for_go() -> None:
    say("ready")
    sys.stdin.readline()


def job(name: str) -> NewJob:
    return NewJob(id=name, queue="mail", handler="mail", payload="{}")


def open_at_once(path: str, count: str) -> None:
    """Have so many processes open a store that is not there yet, at the same moment, and store a job each."""
    go, wait = os.pipe()
    children = []
    for number in range(int(count)):
        child = os.fork()
        if child == 0:
            os.close(wait)
            os.read(go, 1)
            store = store_at(path)
            store.write_all(intake.enqueue, [job(f"job-{number}")]).result()
            store.close()
            os._exit(0)
        children.append(child)
    os.close(wait)
    say(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))


def claim_all(path: str, worker: str) -> None:
    """Claim by threes until nothing is left."""
    store = store_at(path)
    store.open()
    wait_for_go()
    found: list[str] = []
    order = ClaimRequest(worker, (QueueDemand("mail", ("mail",), 3),))

    async def claim() -> None:
        while claims := (await store.claim(order)).claims:
            found.extend(claim.id for claim in claims)

    asyncio.run(claim())
    say(*found)
    store.close()


def enqueue_until_told(path: str, name: str) -> None:
    """Have many callers store jobs at once, so that the writer always has some; tell of the rounds they made."""
    store = store_at(path)
    store.open()
    wait_for_go()
    told = threading.Event()

    def wait_until_told() -> None:
        sys.stdin.read()
        told.set()

    threading.Thread(target=wait_until_told, daemon=True).start()

    async def call(caller: int) -> None:
        number = 0
        while not told.is_set():
            number += 1
            await store.write_all(intake.enqueue, [job(f"{name}-{caller}-{number}")])
            if caller == 0:
                say(number)

    async def call_all() -> None:
        await asyncio.gather(*(call(caller) for caller in range(CALLERS)))

    asyncio.run(call_all())
    store.close()


def enqueue_in_thread(path: str, name: str, count: str) -> None:
    """Store jobs of one thread, one after the other; tell each payload's name with its receipt."""

    async def call() -> list[tuple[object, ...]]:
        async with Standfast(path) as sf:
            wait_for_go()
            names = [f"{name}-{number}" for number in range(int(count))]
            return [(each, *await sf.enqueue("gather", {"name": each}, thread_key="t")) for each in names]

    say(*asyncio.run(call()))


def replay_at_once(path: str, job_id: str, callers: str) -> None:
    """Have several callers replay one letter at the same moment; tell what each was told."""
    letters = Standfast(path).dead_letters

    async def call() -> str:
        try:
            return str((await letters.replay(job_id, by="ann"))["outcome"])
        except UnknownJob:
            return "somebody else was first"

    async def call_all() -> list[str]:
        return await asyncio.gather(*(call() for _ in range(int(callers))))

    wait_for_go()
    say(*asyncio.run(call_all()))


def replay_each(path: str, config: str, *ids: str) -> None:
    """Replay letters, all at the same moment; tell when that is done and noted."""
    os.environ["STANDFAST_CONFIG"] = config

    async def call_all() -> None:
        async with Standfast(path) as sf:
            wait_for_go()
            await asyncio.gather(*(sf.dead_letters.replay(job_id, by=f"ann-{os.getpid()}") for job_id in ids))

    asyncio.run(call_all())
    say("done")


def decide_and_die(path: str, audit_file: str) -> None:
    """Be killed when a decision is committed and its head is not noted outside yet."""
    Anchor.drop = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
    store = store_at(path, audit_file=audit_file)
    store.open()
    wait_for_go()
    store.write_all(audit.note, [Decision(kind="policy", by="ann")]).result()
    threading.Event().wait()


def listen(path: str) -> None:
    """Tell the first hint that comes."""
    store = store_at(path)
    heard: SimpleQueue[dict[str, float]] = SimpleQueue()
    store.listen(heard.put)
    say("ready")
    say(heard.get())
    store.close()


def hold_write_lock(path: str) -> None:
    """Hold SQLite's write lock, as a foreign program would."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    wait_for_go()
    connection.execute("ROLLBACK")
    say("released")


def hold_baton(path: str) -> None:
    """Hold the baton, as a process that was frozen at the wrong moment would."""
    with Path(f"{path}.turn").open("r+") as baton:
        fcntl.flock(baton, fcntl.LOCK_EX)
        wait_for_go()


def fork(path: str) -> None:
    """Fork with the store open and busy, twice; the children go on after their parent has let go."""
    store = store_at(path)
    store.write_all(intake.enqueue, [job("before")]).result()
    stop = threading.Event()
    busy = threading.Thread(target=keep_enqueueing, args=(store, stop))
    busy.start()
    go, wait = os.pipe()
    children = [fork_one(store, name, go, wait) for name in ("first", "second")]
    store.write_all(intake.enqueue, [job("parent")]).result()
    stop.set()
    busy.join()
    store.close()
    os.close(wait)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    say(codes, int(busy.name))


def fork_one(store: Store, name: str, go: int, wait: int) -> int:
    child = os.fork()
    if child == 0:
        os.close(wait)
        store.write_all(intake.enqueue, [job(name)]).result()
        os.read(go, 1)
        store.write_all(intake.enqueue, [job(f"{name}, without its parent")]).result()
        os._exit(0)
    return child


def tick_all(path: str) -> None:
    """Add a schedule that others add too, and enqueue what is due now, as a worker does."""
    asyncio.run(add_and_tick(Standfast(path)))


async def add_and_tick(sf: Standfast) -> None:
    await sf.open()
    wait_for_go()
    await sf.schedules.add("shared", "mail", every=3600)
    say(await Timetable(sf._store).run_due())  # noqa: SLF001
    await sf.close()


def keep_enqueueing(store: Store, stop: threading.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        store.write_all(intake.enqueue, [job(f"busy-{number}")]).result()
    threading.current_thread().name = str(number)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
