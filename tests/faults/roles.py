"""What the children of the nursery do. Each reports to files that the product does not write."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from standfast import Job, Standfast, Transient
from standfast.application.wings import SCRIPTS, store_at
from standfast.clock import SystemClock
from standfast.failure import Class, Failure, Landed
from standfast.job import NewJob
from standfast.lifecycle import Move, State, Transition, asked_by
from standfast.outcome import Failed, Outcome, Succeeded
from standfast.rules import DEFAULTS
from standfast.spine import apply as scripts
from standfast.spine import claim as claiming
from standfast.spine import intake
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.store.engine import Engine
from standfast.store.postgres import driver
from standfast.store.postgres.connection import Connection
from standfast.store.postgres.session import Session
from standfast.store.sqlite import handle
from standfast.store.sqlite.files import Files
from standfast.store.sqlite.sqlite_engine import SqliteEngine
from standfast.wings.approvals.words import Filing, bound_to
from standfast.wings.audit.words import Decision
from standfast.wings.letters import scripts as letters
from standfast.wings.letters.scripts import Refusal
from standfast.wings.policy import scripts as policies
from standfast.wings.policy.load import load_policy
from standfast.wings.policy.policy_in_force import stored
from standfast.wings.policy.scripts import PolicyOffer
from standfast.wings.policy.triage import PolicyNow
from standfast.wings.records import reads
from standfast.worker.settling import settle
from tests.faults.faulty import underneath
from tests.faults.nursery import report

ATTEMPTS = 8
"""How often a job may be tried that kills nobody."""
REFUSED = Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="request_rejected")
ORDER = ClaimRequest("worker", (QueueDemand("post", ("post",), 2),))


class KillAt:
    """Ends this process at the n-th write or sync, before it happens."""

    def __init__(self, n: int) -> None:
        self._left = n

    def __call__(self, operation: str) -> None:
        if operation in ("write", "sync"):
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


def die_before_statement(n: int) -> None:
    """Have this process end before the n-th statement that it sends to a server, or before that commit."""
    execute, finish, left = driver._execute, Connection.finish, [n]  # noqa: SLF001 - what every statement passes

    def count() -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(*args: Any) -> Any:
        count()
        return execute(*args)

    def finished(self: Connection, *args: Any) -> None:
        count()
        finish(self, *args)

    driver._execute, Connection.finish = counted, finished  # type: ignore[assignment, method-assign]  # noqa: SLF001 - likewise


def live_and_die(directory: str, n: int) -> None:
    """Open a new store, accept, claim, complete and bury, and be killed on the way."""
    place = Path(directory)
    handle.SETTINGS["wal_autocheckpoint"] = 20
    with underneath(KillAt(n)):
        store = SqliteEngine(Files(str(place / "queue.db")), SystemClock(), SCRIPTS)
        store.open()
        for turn in range(3):
            _accept(store, place / "told", [f"job-{turn}-{n}" for n in range(3)])
            _end(store, place / "told")
        store.close()


def _accept(store: SqliteEngine, told: Path, ids: list[str]) -> None:
    report(told, offered=ids)
    jobs = [NewJob(id=id_, queue="post", handler="post", payload="null", budget=1) for id_ in ids]
    store.call(intake.enqueue, jobs, seconds=None).result()
    report(told, accepted=ids)


def _end(store: SqliteEngine, told: Path) -> None:
    [catch] = store.call(claiming.claim, [ORDER], seconds=None).result()
    report(told, claimed={claim.id: claim.token for claim in catch.claims})
    outcomes: list[Outcome] = [Succeeded('{"sent":true}'), Failed(REFUSED)]
    moves = [settle(claim, outcome, DEFAULTS, 0.0) for claim, outcome in zip(catch.claims, outcomes, strict=True)]
    report(told, ending=[move.id for move in moves])
    store.call(scripts.apply, moves, seconds=None).result()
    report(told, ended={move.id: move.target for move in moves})


# --- letters under a policy

GOVERNED = load_policy(
    """
version: v1
dlq_rules:
  - match: {queue: post}
    action: auto_replay
    max_replays: 9
  - match: {}
    action: require_approval
replay_rules:
  - match: {}
    decision: allow
"""
)


def govern_and_die(directory: str, n: int) -> None:
    """Have letters governed in a file, and be killed at a write."""
    place = Path(directory)
    handle.SETTINGS["wal_autocheckpoint"] = 20
    with underneath(KillAt(n)):
        store = SqliteEngine(Files(str(place / "queue.db")), SystemClock(), SCRIPTS)
        store.open()
        _govern(store, place / "told")
        store.close()


def govern_and_die_on_a_server(url: str, told: str, n: int) -> None:
    """Have letters governed on a server, and be killed at a statement: a commit is one, too."""
    store = store_at(url)
    store.open()
    engine = store._engine  # noqa: SLF001 - the role drives the engine as the store does
    report(Path(told), backend=engine._connection.info.backend_pid)  # type: ignore[union-attr]  # noqa: SLF001
    be_killed_at_a_statement(n)
    _govern(engine, Path(told))
    os._exit(0)


def be_killed_at_a_statement(n: int) -> None:
    """End this process at the n-th of: before a statement is sent, and before its answer is read."""
    kill = KillAt(n)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def at_a_step(*args: Any, **how: Any) -> Any:
            kill("write")
            return call(*args, **how)

        return at_a_step

    ways = [(Connection, "execute"), *((Session, name) for name in ("begin", "ask", "tell", "commit", "_next"))]
    for kind, name in ways:
        setattr(kind, name, counted(getattr(kind, name)))


def _govern(store: Engine[Any], told: Path) -> None:
    """Publish a policy; let jobs die by it, be replayed, refused and held for an approval."""
    offer = PolicyOffer(by="ops", source="test", snapshot=GOVERNED.snapshot, text="-", rules=stored(GOVERNED))
    store.call(policies.publish, [offer], seconds=None).result()
    report(told, published=GOVERNED.snapshot)
    jobs = [
        NewJob(id=f"{queue}-{n}", queue=queue, handler=queue, payload="null", budget=1)
        for queue in ("post", "pay")
        for n in range(2)
    ]
    store.call(intake.enqueue, jobs, seconds=None).result()
    for queue in ("post", "pay"):
        _die_governed(store, told, queue)
    _return(store, told)
    _die_governed(store, told, "post")


def _die_governed(store: Engine[Any], told: Path, queue: str) -> None:
    [catch] = store.call(
        claiming.claim, [ClaimRequest("worker", (QueueDemand(queue, (queue,), 2),))], seconds=None
    ).result()
    present = PolicyNow(GOVERNED, store.now())
    moves = [_filed(settle(claim, Failed(REFUSED), DEFAULTS, 0.0, present)) for claim in catch.claims]
    store.call(scripts.apply, moves, seconds=None).result()
    report(told, stopped={move.id: move.target for move in moves})


def _filed(move: Transition) -> Transition:
    if move.move != Move.HOLD:
        return move
    bound = bound_to(move.queue, move.queue, "null", 0, GOVERNED.snapshot)
    return move.carrying(Filing(id=f"approval of {move.id}", bound=bound))


def _return(store: Engine[Any], told: Path) -> None:
    """Replay one letter, and be refused the other."""
    [one, other] = [record.row for n in range(2) if (record := store.read(reads.job(f"post-{n}")).result())]
    decision = Decision(kind="auto_replay", rule="replay_rules#1", snapshot=GOVERNED.snapshot, outcome="replayed")
    move = Transition(
        one.n, one.token, one.id, one.queue, Move.REPLAY, State.DEAD, carries=(*asked_by("policy"), decision)
    )
    store.call(scripts.apply, [move], seconds=None).result()
    report(told, replayed=one.id)
    denial = Decision(kind="deny", job=other.id, queue=other.queue, outcome="denied")
    refusal = Refusal(other.n, other.token, other.id, other.queue, "denied", GOVERNED.snapshot, denial)
    store.call(letters.refuse, [refusal], seconds=None).result()
    report(told, refused=other.id)


# --- the kill storm


def produce(directory: str, name: str, lethal: float) -> None:
    """Hand in jobs without end, several at a time, reporting each before and after. A share of them is lethal."""
    once = os.urandom(4).hex()  # in a long storm the numbers of processes come again
    asyncio.run(_produce(Path(directory), f"{name}-{once}", lethal))


async def _produce(place: Path, name: str, lethal: float) -> None:
    async with Standfast(str(place / "queue.db")) as sf:
        await asyncio.gather(*(_produce_one_by_one(sf, place, f"{name}-{caller}", lethal) for caller in range(3)))


async def _produce_one_by_one(sf: Standfast, place: Path, name: str, lethal: float) -> None:
    for n in itertools.count():
        key = f"{name}-{n}"
        mode = _mode(n, lethal)
        attempts = 2 if mode in ("poison", "vanish") else ATTEMPTS
        report(place / "offered", key=key, mode=mode)
        receipt = await sf.enqueue("post", {"key": key, "mode": mode}, idempotency_key=key, attempts=attempts)
        report(place / "accepted", key=key, id=receipt.id, mode=mode)
        await asyncio.sleep(random.random() * 0.02)  # noqa: S311 - chance, not secrecy


def _mode(n: int, lethal: float) -> str:
    if random.random() < lethal:  # noqa: S311 - chance, not secrecy
        return random.choice(["poison", "vanish"])  # noqa: S311
    return "flaky" if n % 7 == 6 else "good"


def work(directory: str) -> None:
    """Run jobs until killed; some of them do it."""
    place = Path(directory)
    sf = Standfast(str(place / "queue.db"))
    sf.queue("post", lease=1.0, backoff="none")

    @sf.handler("post")
    async def post(job: Job) -> dict[str, Any]:
        if job.payload["mode"] == "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        if job.payload["mode"] == "vanish":
            os._exit(0)
        if job.payload["mode"] == "flaky" and random.random() < 0.5:  # noqa: S311
            raise Transient("try again")
        await asyncio.sleep(random.random() * 0.02)  # noqa: S311
        report(place / "effects", key=job.payload["key"], id=job.id, token=job.token)
        return {"sent": True}

    sf.run_worker(concurrency=4)


# --- frozen and blocked workers


LEASE = 2.0
"""Seconds: long enough for a busy machine, whose threads may wait for their turn."""


def work_when_let(directory: str, name: str, mode: str) -> None:
    """Run jobs whose handler waits for a file to appear; report entering, effect, and every warning logged."""
    place = Path(directory)
    logging.getLogger("standfast").addHandler(_Reporting(place / f"log-{name}"))
    sf = Standfast(str(place / "queue.db"))
    sf.queue("post", lease=LEASE, backoff="none")
    go = place / f"go-{name}"

    def entered(job: Job) -> None:
        report(place / "entered", by=name, id=job.id, token=job.token, attempt=job.attempt)

    def done(job: Job) -> dict[str, str]:
        report(place / "effects", by=name, id=job.id, token=job.token)
        return {"by": name}

    async def waits(job: Job) -> dict[str, str]:
        entered(job)
        while not go.exists():  # noqa: ASYNC110 - another process tells by this file
            await asyncio.sleep(0.01)
        return done(job)

    def waits_in_a_thread(job: Job) -> dict[str, str]:
        entered(job)
        while not go.exists():
            time.sleep(0.01)
        return done(job)

    async def blocks_the_loop(job: Job) -> dict[str, str]:
        return waits_in_a_thread(job)

    modes = {"async": waits, "plain": waits_in_a_thread, "blocking": blocks_the_loop}
    sf.handler("post")(modes[mode])
    sf.run_worker(concurrency=4)


class _Reporting(logging.Handler):
    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        report(self._path, message=record.getMessage())


# --- a wall clock that jumps


class MovingClock(SystemClock):
    """The machine's clocks, with the wall clock moved by what a file says."""

    def __init__(self, skew: Path) -> None:
        super().__init__()
        self._skew = skew

    def wall(self) -> float:
        """Give the moved time."""
        return super().wall() + float(self._skew.read_text() or 0)


def work_by_a_moving_clock(directory: str) -> None:
    """Run good, failing and long jobs; a long one takes longer than its lease."""
    place = Path(directory)
    sf = Standfast(str(place / "queue.db"), clock=MovingClock(place / "skew"))
    sf.queue("post", lease=1.5, backoff=lambda _: 0.3)

    @sf.handler("post")
    async def post(job: Job) -> None:
        report(place / "entered", payload=job.payload, attempt=job.attempt)
        if job.payload == "failing" and job.attempt == 1:
            raise Transient("not yet")
        if job.payload == "long":
            await asyncio.sleep(1.8)
        report(place / "effects", payload=job.payload)

    report(place / "working")
    sf.run_worker()
