"""What many processes do to one store at once: hand in, claim, end, sweep, prune, publish and follow the journal.

Each reports what it was told to files that the product does not write, and every warning that the product logs.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from standfast.application.wings import store_at
from standfast.failure import Class, Failure, Landed
from standfast.job import Claim, NewJob, Receipt
from standfast.outcome import Failed, Outcome, Succeeded
from standfast.rules import Backoff, QueueRules
from standfast.spine import intake
from standfast.spine.apply import apply
from standfast.spine.claim_requests import ClaimRequest, Conflict, Full, Publication, QueueDemand
from standfast.store import store as store_module
from standfast.store.postgres import connection, postgres_engine
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.notices.journal import journal
from standfast.wings.queues.publishing import publish
from standfast.worker import upkeep
from standfast.worker.settling import settle
from standfast.worker.sweeper import Sweeper
from standfast.worker.upkeep import PruneRequest, SweepRequest, WorkerCard
from tests.faults.nursery import report

HANDLERS = ("first", "second")
AT_ONCE = Backoff(table=(0.0,), jitter=0)
SOON = Backoff(table=(0.03,), jitter=0)
RULES = {
    "plain": QueueRules(backoff=SOON, attempts=3),
    "latest": QueueRules(coalesce="latest", backoff=AT_ONCE, attempts=3),
    "collect": QueueRules(coalesce="collect", backoff=AT_ONCE, attempts=3),
    "never": QueueRules(coalesce="never", backoff=SOON, attempts=3),
    "small": QueueRules(max_depth=40),
    "tiny": QueueRules(max_depth=10),
}
TRANSIENT = Failure(cls=Class.TRANSIENT, landed=Landed.NO, reason_code="timeout")
THREADS = 4
KEYS = 30
SLOTS = 7
PATIENT = 100.0


class Member:
    """One process of the crowd."""

    def __init__(self, url: str, place: Path, name: str, jobs: int) -> None:
        self.store = store_at(url)
        self.store.open()
        self.place = place
        self.name = name
        self._most = jobs
        self._rng = random.Random(name)  # noqa: S311 - chance, not secrecy
        self._handed_in = 0

    def going(self) -> bool:
        """Tell whether there is still something to hand in; so much happens on a slow machine too."""
        return self._handed_in < self._most

    # --- handing in

    async def hand_in(self) -> None:
        """Hand in batches of everything there is, several queues and threads in each, in any order."""
        while self.going():
            jobs = [self._job() for _ in range(self._rng.randint(1, 8))]
            await self.hand_in_these(jobs)
            await asyncio.sleep(self._rng.random() * 0.01)

    async def hand_in_these(self, jobs: Sequence[NewJob]) -> None:
        """Hand in, and report the answers."""
        for job in jobs:
            report(self.place / "offered", id=job.id, queue=job.queue, item=job.payload, key=job.idempotency_key)
        for job, answer in zip(jobs, await self.store.write_all(intake.enqueue, jobs), strict=True):
            report(self.place / "answered", id=job.id, queue=job.queue, key=job.idempotency_key, **told(answer))

    def _job(self) -> NewJob:
        queue = self._rng.choice(list(RULES))
        name = f"{self.name}-{self._handed_in}"
        self._handed_in += 1
        given: dict[str, Any] = {}
        if queue in ("latest", "collect", "never"):
            given["thread_key"] = f"thread-{self._rng.randrange(THREADS)}"
            given["delay"] = self._rng.choice([0.0, 0.0, 0.02])
        elif self._rng.random() < 0.5:
            key = f"key-{self._rng.randrange(KEYS)}"
            given |= {"idempotency_key": key, "fingerprint": key}
        handler = HANDLERS[0] if queue == "collect" else self._rng.choice(HANDLERS)
        payload = json.dumps(name)
        return NewJob(id=name, queue=queue, handler=handler, payload=payload, priority=self._rng.randrange(3), **given)

    # --- working

    async def work(self) -> None:
        """Claim, run for a moment, and end in any way; what is left at the end is ended well."""
        worker = f"{self.name}-worker"
        while True:
            going = self.going()
            queues = self._rng.sample(list(RULES), len(RULES))
            order = ClaimRequest(worker, tuple(QueueDemand(queue, HANDLERS, SLOTS) for queue in queues))
            catch = await self.store.claim(order)
            for want in order.demands:
                brought = [claim for claim in catch.claims if claim.queue == want.queue]
                assert len(brought) <= want.slots
            if not catch.claims and not going and catch.next_due is None:
                return
            await asyncio.gather(*(self._run(claim, well=not going) for claim in catch.claims))
            if not catch.claims:
                await asyncio.sleep(0.01)

    async def _run(self, claim: Claim, *, well: bool) -> None:
        report(self.place / "ran", step="start", id=claim.id, token=claim.token, gate=claim.gate, by=self.name)
        await asyncio.sleep(self._rng.random() * 0.005)
        outcome: Outcome = Succeeded(claim.payload) if well or self._rng.random() < 0.7 else Failed(TRANSIENT)
        report(self.place / "ran", step="end", id=claim.id, token=claim.token, gate=claim.gate, by=self.name)
        [landed] = await self.store.write_all(apply, [settle(claim, outcome, RULES[claim.queue], self._rng.random())])
        report(self.place / "settled", id=claim.id, landed=landed, payload=claim.payload, queue=claim.queue)

    # --- one thing at a time

    async def share_keys(self) -> None:
        """Hand in a job for each key that everybody hands in, several at a time and in any order."""
        keys = [f"key-{n}" for n in range(60)]
        self._rng.shuffle(keys)
        for some in (keys[start : start + 6] for start in range(0, len(keys), 6)):
            await self.hand_in_these(
                [
                    NewJob(
                        id=f"{self.name}-{key}",
                        queue="plain",
                        handler="first",
                        payload="1",
                        idempotency_key=key,
                        fingerprint="the same",
                    )
                    for key in some
                ]
            )

    async def fill(self) -> None:
        """Hand in to two queues that hold only so much, in either order, without pause, until both are full."""
        queues = ["small", "tiny"] if self._rng.random() < 0.5 else ["tiny", "small"]
        for turn in range(15):
            names = [(queue, f"{self.name}-{turn}-{queue}") for queue in queues]
            plain = [NewJob(id=f"{name}-0", queue=queue, handler="first", payload="1") for queue, name in names]
            threaded = [
                NewJob(id=f"{name}-1", queue=queue, handler="first", payload="1", thread_key=name)
                for queue, name in names
            ]
            jobs = [*plain, *threaded]
            await self.hand_in_these(jobs)

    # --- upkeep

    async def keep_up(self) -> None:
        """Beat, sweep, prune and publish without pause; the rules that are published differ in the age they allow."""
        sweeper = Sweeper(self.store, SweepRequest(every=60.0, patience=60.0))
        card = WorkerCard(f"{self.name}-worker", "host", 1, "[]", "{}")
        for turn in itertools.count():
            await self.store.write(upkeep.beat, card)
            await asyncio.gather(sweeper.sweep(), self.store.write(upkeep.prune, PruneRequest(keep_journal=3600.0)))
            if turn % 5 == 0:
                older = {name: rules_of(rules, 3600.0 + turn) for name, rules in RULES.items()}
                await asyncio.to_thread(publish, self.store, Publication(older, []))
            if not self.going():
                return
            await asyncio.sleep(0.02)

    async def follow(self) -> None:
        """Follow the journal from its beginning until told to stop, to its end; report each row as it is seen."""
        after = 0
        while True:
            stop = (self.place / "stop").exists() and after == await self.store.read(
                journal_scripts.last_journal_number()
            )
            rows = await journal(self.store, after, 100)
            for row in rows:
                after = row.seq
                report(self.place / f"followed-{self.name}", seq=row.seq, entries=row.entries)
            if stop:
                return
            if not rows:
                await asyncio.sleep(0.01)  # the others want the cores


def rules_of(rules: QueueRules, max_age: float) -> QueueRules:
    """Give the rules with another age."""
    return QueueRules(**{name: getattr(rules, name) for name in rules.__struct_fields__} | {"max_age": max_age})


def told(answer: Receipt | Conflict | Full) -> dict[str, Any]:
    """Put an answer into words."""
    if isinstance(answer, Receipt):
        return {"outcome": answer.outcome, "as": answer.id}
    return {"outcome": type(answer).__name__.lower(), "as": None}


class Reporting(logging.Handler):
    """Reports what the product logs."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Report one line."""
        report(self._path, message=record.getMessage())


def be_patient() -> None:
    """Wait for the store for as long as it takes: no deadline is judged here, and machines are busy."""
    store_module.PATIENCE = postgres_engine.PATIENCE = connection.LONGEST_CALL = PATIENT


def join(url: str, directory: str, name: str, jobs: int, does: Sequence[str]) -> None:
    """Do these things at once until so many jobs are handed in and everything is ended."""
    be_patient()
    place = Path(directory)
    logging.getLogger("standfast").addHandler(Reporting(place / "logged"))
    member = Member(url, place, name, jobs)
    doings: dict[str, Callable[[], Awaitable[None]]] = {
        "hand_in": member.hand_in,
        "work": member.work,
        "keep_up": member.keep_up,
        "follow": member.follow,
        "share_keys": member.share_keys,
        "fill": member.fill,
    }

    async def do_all() -> None:
        await asyncio.gather(*(doings[each]() for each in does))

    asyncio.run(do_all())
    member.store.close()
