"""Children that start workflows and end their steps: one is killed on the way, others share the work."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from standfast.application.wings import SCRIPTS, store_at
from standfast.clock import SystemClock
from standfast.failure import Class, Failure, Landed
from standfast.job import Claim, NewJob
from standfast.lifecycle import JobRef, State, Transition
from standfast.outcome import Failed, Outcome, Succeeded
from standfast.rules import DEFAULTS
from standfast.spine import apply as scripts
from standfast.spine import claim as claiming
from standfast.spine.apply import apply
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.store.engine import Engine
from standfast.store.sqlite import handle
from standfast.store.sqlite.files import Files
from standfast.store.sqlite.sqlite_engine import SqliteEngine
from standfast.store.store import Store
from standfast.wings.records import reads
from standfast.wings.replays.rules import discard, replay
from standfast.wings.workflows import graphs
from standfast.wings.workflows.graphs import Cancellation, Start
from standfast.wings.workflows.rules import Plan, plan
from standfast.worker.settling import settle
from tests.faults.faulty import underneath
from tests.faults.nursery import report
from tests.faults.roles import KillAt, die_before_statement

REFUSED = Failure(cls=Class.PERMANENT, landed=Landed.NO, reason_code="request_rejected")
GRAPH = [("a", []), ("b", ["a"]), ("c", ["a"]), ("d", ["b", "c"]), ("e", ["d"])]


def graph(id_: str, steps: Sequence[tuple[str, Sequence[str]]] = GRAPH) -> Start:
    """Lay a workflow out."""
    planned = plan(steps)
    assert isinstance(planned, Plan)
    jobs = [
        NewJob(id=f"{id_}-{name}", queue="post", handler="post", payload="null", budget=1) for name in planned.order
    ]
    return Start(id=id_, name="flow", jobs=jobs, steps=planned.order, parents=planned.parents, fingerprint="-", key=id_)


# --- killed on the way


def flow_and_die(directory: str, n: int) -> None:
    """Work on a file, and be killed at a write."""
    place = Path(directory)
    handle.SETTINGS["wal_autocheckpoint"] = 20
    with underneath(KillAt(n)):
        engine = SqliteEngine(Files(str(place / "queue.db")), SystemClock(), SCRIPTS)
        engine.open()
        _live(engine, place / "told")
        engine.close()


def flow_and_die_on_a_server(url: str, told: str, n: int) -> None:
    """Work on a server, and be killed before a statement."""
    store = store_at(url)
    store.open()
    die_before_statement(n)
    _live(store._engine, Path(told))  # noqa: SLF001 - the role drives the engine as the store does
    os._exit(0)


def _live(engine: Engine[Any], told: Path) -> None:
    """Start workflows; complete, bury, replay and discard steps of one, cancel another."""
    for id_ in ("one", "two"):
        engine.call(graphs.start, [graph(id_)], seconds=None).result()
        report(told, started=[id_])
    _end(engine, told, {"one-a": Succeeded('"a"'), "two-a": Succeeded('"a"')})
    _end(engine, told, {"one-b": Succeeded('"b"'), "one-c": Failed(REFUSED), "two-b": Failed(REFUSED)})
    engine.call(scripts.apply, [replay(_standing(engine, "one-c"), by="ann")], seconds=None).result()
    dropped = discard(_standing(engine, "two-b"), by="ann", reason="unwanted")
    engine.call(scripts.apply, [dropped], seconds=None).result()
    report(told, ended={"two-b": "cancelled"})
    _end(engine, told, {"one-c": Succeeded('"c"')})
    _end(engine, told, {"one-d": Succeeded('"d"')})
    engine.call(graphs.cancel, [Cancellation("one", "ann")], seconds=None).result()
    report(told, ended={"one-e": "cancelled"})


def _standing(engine: Engine[Any], job_id: str) -> JobRef:
    record = engine.read(reads.job(job_id)).result()
    assert record is not None
    row = record.row
    return JobRef(row.n, row.token, row.id, row.queue, State(row.state))


def _end(engine: Engine[Any], told: Path, outcomes: dict[str, Outcome]) -> None:
    """Claim what can be claimed, and end what has an outcome, in one transaction."""
    [catch] = engine.call(
        claiming.claim, [ClaimRequest("worker", (QueueDemand("post", ("post",), 9),))], seconds=None
    ).result()
    moves = [settle(claim, outcomes[claim.id], DEFAULTS, 0.0) for claim in catch.claims if claim.id in outcomes]
    assert len(moves) == len(outcomes)
    engine.call(scripts.apply, moves, seconds=None).result()
    report(told, ended={move.id: move.target for move in moves})


# --- sharing the work


def share(url: str, place: str, name: str, flows: int) -> None:
    """Start workflows, end steps of anybody's in any way, put stopped ones back and cancel some, until all is over."""
    logging.getLogger("standfast").addHandler(_Reporting(Path(place) / "logged"))
    asyncio.run(_share(url, Path(place), name, flows))


class _Reporting(logging.Handler):
    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        report(self._path, message=record.getMessage())


async def _share(url: str, place: Path, name: str, flows: int) -> None:
    store, rng = store_at(url), random.Random(name)  # noqa: S311 - chance, not secrecy
    ids = [f"{name}-{n}" for n in range(flows)]
    for id_ in ids:
        await store.write(graphs.start, graph(id_, wide(12)))
    dropped = set(ids[: flows // 4])
    while await store.read(graphs.list_workflows("running", 1, None)) or await store.read(
        graphs.list_workflows("stuck", 1, None)
    ):
        catch = await store.claim(ClaimRequest(name, (QueueDemand("post", ("post",), 5),)))
        await asyncio.gather(*(_run(store, claim, rng, place) for claim in catch.claims))
        if dropped and rng.random() < 0.2:
            await store.write(graphs.cancel, Cancellation(dropped.pop(), name))
        await _put_back(store)
        if not catch.claims:
            await asyncio.sleep(0.005)
    store.close()


def wide(width: int) -> list[tuple[str, list[str]]]:
    """Give a graph that is wide, then narrow, twice."""
    first, second = [f"f{n}" for n in range(width)], [f"s{n}" for n in range(width)]
    begin = [("a", []), *((name, ["a"]) for name in first), ("m", first)]
    return [*begin, *((name, ["m", first[place]]) for place, name in enumerate(second)), ("z", [*second, "a"])]


async def _run(store: Store, claim: Claim, rng: random.Random, place: Path) -> None:
    report(place / "ran", id=claim.id, token=claim.token, parents=sorted(claim.parents or {}))
    outcome: Outcome = Succeeded(json.dumps(claim.id)) if rng.random() < 0.9 else Failed(REFUSED)
    [landed] = await store.write_all(apply, [settle(claim, outcome, DEFAULTS, rng.random())])
    report(place / "settled", id=claim.id, landed=landed)


async def _put_back(store: Store) -> None:
    for record in await store.read(reads.letters(reads.SoughtLetters(limit=5))):
        row = record.row
        move = replay(JobRef(row.n, row.token, row.id, row.queue, State(row.state)), by="ann")
        if isinstance(move, Transition):
            await store.write_all(apply, [move])
