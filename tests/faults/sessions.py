"""A child that ends jobs of sessions, asks for consent and alerts somebody, and is killed on the way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from standfast.application.wings import SCRIPTS, store_at
from standfast.clock import SystemClock
from standfast.failure import Class, Failure, Landed
from standfast.job import Claim, Details, NewJob
from standfast.lifecycle import JobRef, State, Transition
from standfast.outcome import Failed, Outcome, Succeeded, Unconsented
from standfast.rules import DEFAULTS
from standfast.spine import apply as scripts
from standfast.spine import claim as claiming
from standfast.spine import intake
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.store.engine import Engine
from standfast.store.sqlite import handle
from standfast.store.sqlite.files import Files
from standfast.store.sqlite.sqlite_engine import SqliteEngine
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.announcer import cause_told, tell
from standfast.wings.alerts.scripts import Cause, Found
from standfast.wings.audit.words import Decision
from standfast.wings.consent import scripts as consents
from standfast.wings.consent.rules import release
from standfast.wings.consent.scripts import GrantRequest
from standfast.wings.consent.words import Attempt, Grant, Use
from standfast.wings.records import reads
from standfast.wings.replays.rules import replay
from standfast.wings.sessions import scripts as sessions
from standfast.wings.sessions.scripts import ReadRequest
from standfast.worker.settling import settle
from tests.faults.faulty import underneath
from tests.faults.nursery import report
from tests.faults.roles import KillAt, die_before_statement

REFUSED = Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="request_rejected")
DETAILS = msgspec.json.encode(Details(session="s")).decode()


def tell_and_die(directory: str, n: int) -> None:
    """Let jobs die, be replayed and done, wait for consent and get it; alert somebody; be killed at a write."""
    place = Path(directory)
    handle.SETTINGS["wal_autocheckpoint"] = 20
    with underneath(KillAt(n)):
        store = SqliteEngine(Files(str(place / "queue.db")), SystemClock(), SCRIPTS)
        store.open()
        _live(store, place / "told")
        store.close()


def tell_and_die_on_a_server(url: str, told: str, n: int) -> None:
    """Do the same on a server, and be killed before a statement."""
    store = store_at(url)
    store.open()
    die_before_statement(n)
    _live(store._engine, Path(told))  # noqa: SLF001 - the role drives the engine as the store does
    os._exit(0)


def _live(store: Engine[Any], told: Path) -> None:
    _enqueue(store, "post", 3)
    _end(store, told, "post", Failed(REFUSED))
    _return(store, "post-0")
    _end(store, told, "post", Succeeded('{"sent":true}'))
    _read(store)
    _consent(store, told)
    _alert(store, told)


def _enqueue(store: Engine[Any], queue: str, number: int) -> None:
    jobs = [
        NewJob(id=f"{queue}-{n}", queue=queue, handler=queue, payload="null", details=DETAILS, budget=2)
        for n in range(number)
    ]
    store.call(intake.enqueue, jobs, seconds=None).result()


def _claims(store: Engine[Any], queue: str) -> list[Claim]:
    order = ClaimRequest("worker", (QueueDemand(queue, (queue,), 3),))
    return list(store.call(claiming.claim, [order], seconds=None).result()[0].claims)


def _end(store: Engine[Any], told: Path, queue: str, outcome: Outcome) -> None:
    moves = [settle(claim, outcome, DEFAULTS, 0.0) for claim in _claims(store, queue)]
    store.call(scripts.apply, moves, seconds=None).result()
    report(told, ended={move.id: move.target for move in moves})


def _return(store: Engine[Any], job_id: str) -> None:
    record = store.read(reads.job(job_id)).result()
    assert record is not None
    row = record.row
    move = replay(JobRef(row.n, row.token, row.id, row.queue, State(row.state)), by="anna")
    assert isinstance(move, Transition)
    store.call(scripts.apply, [move], seconds=None).result()


def _read(store: Engine[Any]) -> None:
    found = store.read(sessions.messages("s", 10, unread=True)).result()
    store.call(sessions.read, [ReadRequest([each.id for each in found], "s")], seconds=None).result()


def _consent(store: Engine[Any], told: Path) -> None:
    _enqueue(store, "pay", 2)
    _end(store, told, "pay", Unconsented("nobody consented"))
    now = store.now()
    grant = Grant(
        id="g",
        session="s",
        queue="pay",
        handler="pay",
        mode="timed",
        given_by="anna",
        reason=None,
        granted_at=now,
        expires_at=now + 3600,
        uses=2,
    )
    store.call(consents.give, [GrantRequest(grant, Decision(kind="grant", by="anna"))], seconds=None).result()
    report(told, granted="g")
    ask = store.read(consents.answered_requests(now, consents.START)).result().found[0][0]
    job = JobRef(ask.n, ask.token, ask.id, ask.queue, State.HELD)
    released = release(job, by="consent", reason="g").carrying(Use("g", ask.job))
    store.call(scripts.apply, [released], seconds=None).result()
    [claim] = _claims(store, "pay")
    store.call(consents.enter, [Attempt("s", "pay", "pay", "another", first=True)], seconds=None).result()
    store.call(scripts.apply, [settle(claim, Succeeded(), DEFAULTS, 0.0)], seconds=None).result()


def _alert(store: Engine[Any], told: Path) -> None:
    store.call(alerts.follow, [Found("notify", 0, ())], seconds=None).result()
    causes = tuple(Cause(n, "cause", ("ops",), "{}") for n in (2, 3))
    store.call(alerts.follow, [Found("notify", 3, causes)], seconds=None).result()
    store.call(alerts.follow, [Found("notify", 3, causes)], seconds=None).result()
    report(told, followed=2)
    [due] = store.read(alerts.due(store.now())).result()
    job = NewJob(id="alert", queue="standfast.notify", handler="standfast.notify", payload=f'{{"count":{due.number}}}')
    telling = cause_told(due, store.now(), 300.0, (job,))
    for _ in range(2):
        store.call(tell, [telling], seconds=None).result()
    report(told, told=2)
