"""Make a store with jobs in every state and of every feature, with the code of the commit this runs in.

    python -m tests.stores.make DIRECTORY

It writes what `tests/stores` keeps of an earlier version: a SQLite file, a dump of a PostgreSQL schema, and for each
what every job looked like, and what became of it when it was worked off. Through the public interface only.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from standfast import Standfast
from standfast.testing import FrozenClock, drain
from tests.postgres import PostgresServer, fresh_schema, in_schema
from tests.stores.application import AGAIN, BEGAN, POLICY, clock_at, declare, reopened
from tests.stores.looking import Look, look
from tests.stores.restoring import FILE, keep_file, keep_schema, restore_file, restore_schema
from tests.stores.working import work_off
from tests.waiting import reached, seen

HOST = "maker"


class Making:
    """One store being made, and its clock."""

    def __init__(self, sf: Standfast, clock: FrozenClock, url: str) -> None:
        self.sf = sf
        self.clock = clock
        self.url = url

    async def make(self) -> None:
        """Go through everything, one feature after the other."""
        await self.sf.policy.load(POLICY)
        await self.sf.tokens.create("operator", person="olga", role="operator", by="root")
        await self.sf.tokens.create("agent", person="ada", role="producer", sessions=["agent-1"], by="root")
        await self.sf.tokens.create("former", person="fay", role="viewer", by="root")
        await self.sf.tokens.revoke("former", by="root")
        await self._completed()
        await self._letters()
        await self._decisions()
        await self._sessions()
        await self._schedules()
        await self._effects()
        await self._waiting_for_a_repeat()
        await self._workflows()
        await self._redrive()
        await self._left_waiting()
        await self._killed()
        await self._alerts()

    async def _completed(self) -> None:
        for n in range(3):
            await self.sf.enqueue("mail", {"n": n}, idempotency_key=f"mail-{n}", labels={"tenant": "acme"})
        await self.sf.enqueue("mail", {"n": 0}, idempotency_key="mail-0", labels={"tenant": "acme"})
        await self.sf.enqueue("mail", {"unwanted": True}, requester="ann")
        await self.sf.enqueue("mail", {"n": 9, "text": "ü \x1b \u2028 '\"\\"}, session="agent-3", risk="medium")
        await self.sf.run("mail", {"called": 1}, idempotency_key="call-1")
        await drain(self.sf)

    async def _letters(self) -> None:
        """Let some die: at once, and after three attempts; then some that outlived their time."""
        for queue, number in (("broken", 5), ("refunds", 2), ("payments", 2), ("seats", 4), ("flaky", 2)):
            await self.sf.enqueue_many(queue, [{"n": n} for n in range(number)], requester="etl")
        await self.sf.enqueue("later", {"n": 1}, delay=20, expires=self.clock.wall() + 10)
        for _ in range(3):
            await drain(self.sf)
            self.clock.advance(AGAIN + 1)

    async def _decisions(self) -> None:
        letters = [letter.id for letter in await self.sf.dead_letters.list({"queue": "broken"})]
        why: dict[str, Any] = {"by": "olga", "reason": "looked into it"}
        await self.sf.dead_letters.amend(letters[0], {"n": 100}, **why)
        await self.sf.dead_letters.quarantine(letters[1], owner="integration-team", **why)
        await self.sf.dead_letters.discard(letters[2], **why)
        await self.sf.dead_letters.resolve(letters[3], result={"by": "hand"}, **why)
        await self.sf.dead_letters.replay(letters[4], **why)
        [payment, *_] = await self.sf.dead_letters.list({"queue": "payments"})
        await self.sf.dead_letters.replay(payment.id, **why)
        [refund, *_] = await self.sf.approvals.list()
        await self.sf.approvals.deny(refund["id"], by="tara", reason="the customer withdrew")

    async def _sessions(self) -> None:
        await self.sf.consent.grant("agent-2", "tools/tools", mode="always", by="tara")
        for session in ("agent-1", "agent-2"):
            await self.sf.enqueue("tools", {"for": session}, session=session)
        for n in range(2):
            await self.sf.submit("tools/open", {"n": n, "fail": n == 1}, session="agent-1")
            await self.sf.submit("tools/open", {"n": n}, session="agent-2")
        await drain(self.sf)
        [read, *_] = await self.sf.inbox.list("agent-2", unread=False)
        await self.sf.inbox.ack(read["id"])

    async def _effects(self) -> None:
        await self.sf.enqueue("tickets", {"n": 1, "look": "fine"})
        await self.sf.enqueue("tickets", {"n": 2, "look": "unclear"})
        await drain(self.sf)
        self.clock.advance(AGAIN + 1)
        await drain(self.sf)
        for n, found in enumerate(("there", "absent", "unclear"), 3):
            await self.sf.enqueue("tickets", {"n": n, "look": found})
        await drain(self.sf)

    async def _waiting_for_a_repeat(self) -> None:
        await self.sf.enqueue("flaky", {"n": 10}, priority=3)
        for n in (1, 2, 3):
            await self.sf.enqueue("ordered", {"n": n}, thread_key="order:7")
        await self.sf.enqueue_many("rated", [{"n": n, "tenant": "acme"} for n in (1, 2)])
        await self.sf.enqueue("gated", {"n": 1})
        await drain(self.sf)

    async def _workflows(self) -> None:
        """Have one that is done, one that is stuck, and one that is under way."""
        for name, second in (("done", "mail"), ("stuck", "seats")):
            flow = self.sf.workflow(name)
            first = flow.step("first", "mail", {"n": 1})
            flow.step("second", second, {"n": 2}, after=[first])
            flow.step("third", "mail", {"n": 3}, after=["second"])
            await flow.start(idempotency_key=name)
        await drain(self.sf)
        flow = self.sf.workflow("under way")
        ends = [flow.step(f"begin {n}", queue, {"n": n}) for n, queue in enumerate(("mail", "steps"))]
        flow.step("end", "mail", after=ends)
        started = await flow.start()
        steps = (await self.sf.workflows.get(started))["steps"]
        async with self.sf.worker(["mail"]):
            await reached(self.sf, steps["begin 0"]["job_id"], "completed")

    async def _redrive(self) -> None:
        """Begin one whose canary is released, and has not run yet."""
        plan = await self.sf.dead_letters.plan({"queue": "seats"})
        redrive = await self.sf.dead_letters.redrive(plan["token"], by="olga", canary=1, reason="seats were added")

        async def released() -> bool:
            return bool((await redrive.progress())["running"])

        async with self.sf.worker(["beats"]):
            await seen(released)

    async def _schedules(self) -> None:
        await self.sf.schedules.add("weekly", "ticks", {"n": 1}, cron="0 9 * * 1", tz="Europe/Berlin", by="olga")
        await self.sf.schedules.add("often", "ticks", {"n": 2}, every="2m", by="olga")
        await self.sf.schedules.add("halted", "ticks", {"n": 3}, every="1m", by="olga")
        await self.sf.schedules.pause("halted")
        async with self.sf.worker(["beats"]):
            self.clock.advance(121)
            await seen(lambda: self._ticked("often"))

    async def _ticked(self, name: str) -> bool:
        return any(each["name"] == name and each["last_job"] for each in await self.sf.schedules.list())

    async def _left_waiting(self) -> None:
        """Leave queued what nobody runs any more before the store is kept."""
        for n in range(3):
            await self.sf.enqueue("latest", {"n": n}, thread_key="doc:1", idempotency_key=f"latest-{n}")
            await self.sf.enqueue("collected", {"n": n}, thread_key="doc:1", requester=f"person-{n}")
            await self.sf.enqueue("mail", {"n": 20 + n}, priority=n, labels={"tenant": "acme"}, attempts=2)
        await self.sf.enqueue("mail", {"n": 30}, delay=90, idempotency_key="mail-30")
        await self.sf.enqueue("later", {"n": 31}, delay="30d")
        await self.sf.enqueue_http("feedback", "POST", "https://example.com/", body={"n": 1}, delay="30d")
        await self.sf.enqueue("gone", {"n": 32})
        [gone] = await self.sf.jobs(queue="gone")
        await self.sf.cancel(gone.id, by="olga")
        await self.sf.queues.pause("paused")
        await self.sf.enqueue("paused", {"n": 33})
        await self.sf.enqueue("nowhere", {"n": 34})  # a queue without a handler

    async def _killed(self) -> None:
        """Have jobs whose worker was killed while it ran them, and one that waits for the place of such a job."""
        for queue, number in (("limited", 2), ("orphans", 1)):
            await self.sf.enqueue_many(queue, [{"n": n, "tenant": "acme"} for n in range(number)])
            await self._worker_killed(queue)
        [behind] = await self.sf.jobs(queue="limited", state="queued")
        async with self.sf.worker(["limited"]):
            await reached(self.sf, behind.id, "parked")

    async def _worker_killed(self, queue: str) -> None:
        """Start a worker in a process of its own, for one queue, and wait until its handler has killed it."""
        passed = self.clock.wall() - BEGAN.timestamp()
        command = [sys.executable, "-m", "tests.stores.make", "--work", self.url, queue, str(passed)]
        with tempfile.TemporaryDirectory() as apart:  # where no other process sees that it is dead
            process = await asyncio.create_subprocess_exec(*command, env={**os.environ, "XDG_STATE_HOME": apart})
            assert await process.wait() == -signal.SIGKILL

    async def _alerts(self) -> None:
        """Look twice for what is wrong: an alert begins at the second look."""
        async with self.sf.alerting():
            for _ in range(4):
                self.clock.advance(10)
                if (await self.sf.health())["alerts"]:
                    return
                await asyncio.sleep(10)


def work(url: str, queue: str, passed: float) -> None:
    """Work for one queue until a handler kills this process."""

    async def live() -> None:
        async with Standfast(url, clock=clock_at(passed)) as sf:
            declare(sf, sick=True)
            async with sf.worker([queue]):
                await asyncio.sleep(30)

    asyncio.run(live())


async def make(url: str) -> float:
    """Make a store; give how many seconds of its time that took."""
    clock = clock_at(0)
    async with Standfast(url, clock=clock) as sf:
        declare(sf, sick=True)
        await Making(sf, clock, url).make()
    return clock.wall() - BEGAN.timestamp()


async def observe(restore: Callable[[], str], passed: float) -> Look:
    """Look at a copy of a store, and at what becomes of another one."""
    async with Standfast(restore(), clock=reopened(passed)) as sf:
        kept = await look(sf)
    clock = reopened(passed)
    async with Standfast(restore(), clock=clock) as sf:
        declare(sf, sick=False)
        kept["ends"] = await work_off(sf, clock, kept["jobs"])
    return {"passed": passed, **kept}


def main(directory: Path) -> None:
    """Make both stores, and write everything that is kept."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        kept = directory / "sqlite.zip"
        url = str(Path(place) / FILE)
        passed = asyncio.run(make(url))
        keep_file(Path(url), kept)
        copies = (Path(place) / f"copy-{n}" for n in count())
        write(directory / "sqlite.json", asyncio.run(observe(lambda: restore_file(kept, next(copies)), passed)))
    with PostgresServer() as server:
        kept = directory / "postgres.zip"
        url = in_schema(server.url, fresh_schema())
        passed = asyncio.run(make(url))
        keep_schema(url, kept, server)
        write(directory / "postgres.json", asyncio.run(observe(lambda: restore_schema(kept, server.url), passed)))


def write(path: Path, kept: Look) -> None:
    """Write what was seen, a line to each job and to each of the rest, so that a change can be read."""
    lines = [
        f'"passed": {kept["passed"]}',
        *(f'"{part}": {{\n{_lines(kept[part])}\n}}' for part in ("jobs", "ends", "beside")),
    ]
    path.write_text("{" + ",\n".join(lines) + "}\n")


def _lines(part: Look) -> str:
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(part[name], ensure_ascii=False)}" for name in sorted(part))


if __name__ == "__main__":
    socket.gethostname = lambda: HOST  # what is kept says nothing of the machine it was made on
    os.environ |= {"LOGNAME": HOST, "STANDFAST_CONFIG": os.devnull}
    if sys.argv[1] == "--work":
        work(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    else:
        main(Path(sys.argv[1]))
