"""Workflows whose processes are killed, or work on the same graph at once: each change is there whole, once, or not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from standfast.application.wings import RIDERS, store_at
from standfast.lifecycle import Transition
from standfast.outcome import Succeeded
from standfast.rules import DEFAULTS
from standfast.spine import apply as scripts
from standfast.spine.apply import apply
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.spine.rounds import close
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import connect as pg_connect
from standfast.store.postgres.connection import opening
from standfast.store.postgres.driver import drive
from standfast.store.steps import Round
from standfast.wings.workflows import graphs
from standfast.worker.settling import settle
from tests.faults import flows
from tests.faults.killing import Look, at_statements, at_writes, which
from tests.faults.nursery import Nursery, nursery, reported
from tests.postgres import connect

STEP = 48
"""Of so many writes one is tried, another in each run; `--soak` tries all."""
WIDE_STEP = 64
WRITTEN = ("job", "body", "ending", "history", "workflow", "idempotency", "audit", "chain")

PARENTS = {
    "sqlite": "CROSS JOIN json_each(b.parents) AS e CROSS JOIN job AS p ON p.n = e.value",
    "postgres": "CROSS JOIN LATERAL jsonb_array_elements_text(b.parents::jsonb) AS e JOIN job AS p ON p.n = e::bigint",
}
FLAWS = {
    "a workflow without some of its steps, or steps without one": """
        SELECT w.id FROM workflow AS w
        WHERE w.total <> (SELECT count(*) FROM job AS j JOIN body AS b ON b.n = j.n WHERE b.workflow = w.id)
        UNION ALL SELECT id FROM body WHERE workflow IS NOT NULL AND workflow NOT IN (SELECT id FROM workflow)
        UNION ALL SELECT id FROM body WHERE n NOT IN (SELECT n FROM job)""",
    "a workflow without its key, or a key of none": """
        SELECT w.id FROM workflow AS w WHERE NOT EXISTS (SELECT 1 FROM idempotency AS k WHERE k.id = w.id)
        UNION ALL SELECT id FROM idempotency WHERE id NOT IN (SELECT id FROM workflow)""",
    "counts that are not those of the steps": """
        SELECT w.id FROM workflow AS w JOIN (
          SELECT b.workflow, sum(CASE WHEN j.state IN ('completed', 'cancelled') THEN 0 ELSE 1 END) AS unfinished,
            sum(CASE WHEN j.state IN ('dead', 'held') THEN 1 ELSE 0 END) AS stopped,
            sum(CASE WHEN j.state = 'cancelled' THEN 1 ELSE 0 END) AS dropped
          FROM body AS b JOIN job AS j ON j.n = b.n GROUP BY b.workflow) AS c ON c.workflow = w.id
        WHERE w.unfinished <> c.unfinished OR w.stopped <> c.stopped OR w.dropped <> c.dropped
          OR (w.finished_at IS NOT NULL) <> (c.unfinished = 0)
          OR w.state <> CASE WHEN c.unfinished = 0 AND c.dropped = 0 THEN 'completed'
            WHEN c.unfinished = 0 THEN 'cancelled' WHEN c.stopped > 0 THEN 'stuck' ELSE 'running' END""",
    "a step that counts other steps than those before it": """
        SELECT b.id FROM body AS b JOIN job AS j ON j.n = b.n WHERE j.pending <> (
          SELECT count(*) FROM body AS k {parents_of_k} WHERE k.n = b.n AND p.state <> 'completed')""",
    "a step that waits for nothing, or does not wait": """
        SELECT n FROM job WHERE (state = 'waiting') <> (pending > 0 AND state <> 'cancelled')""",
    "a step that waits for one that was cancelled": """
        SELECT b.id FROM body AS b {parents} JOIN job AS j ON j.n = b.n
        WHERE j.state = 'waiting' AND p.state = 'cancelled'""",
}
"""What may never be in a store: each change is there with all that follows from it, or not at all."""


def flaws(look: Look, dialect: str) -> dict[str, list[tuple[Any, ...]]]:
    joined = {"parents": PARENTS[dialect], "parents_of_k": PARENTS[dialect].replace("b.parents", "k.parents")}
    found = {flaw: look(query.format(**joined)) for flaw, query in FLAWS.items()}
    return {flaw: rows for flaw, rows in found.items() if rows}


def check(look: Look, dialect: str, told: Path) -> None:
    """Hold the store against what was told."""
    assert flaws(look, dialect) == {}, told
    lines = reported(told)
    workflows = {id_ for (id_,) in look("SELECT id FROM workflow")}
    assert {id_ for line in lines for id_ in line.get("started", ())} <= workflows
    ended = {id_: state for line in lines for id_, state in line.get("ended", {}).items()}
    states: dict[str, str] = dict(look("SELECT b.id, j.state FROM job AS j JOIN body AS b ON b.n = j.n"))
    final = {id_: state for id_, state in ended.items() if state in ("completed", "cancelled")}
    assert {id_: states[id_] for id_ in final} == final


@pytest.fixture(scope="module")
def children() -> Iterator[Nursery]:
    with nursery() as started:
        yield started


@pytest.mark.timeout(0)
def test_a_start_and_an_end_are_written_whole_or_not_at_all(place, soak, children):
    for look, told in at_writes(children, place, flows.flow_and_die, which(STEP, soak=soak)):
        check(look, "sqlite", told)


@pytest.mark.timeout(0)
def test_a_process_that_is_killed_before_a_statement_leaves_a_server_whole(postgres_url, tmp_path, soak, children):
    numbers, role = which(WIDE_STEP, soak=soak), flows.flow_and_die_on_a_server
    for look, told in at_statements(children, postgres_url, tmp_path, role, numbers, written=WRITTEN):
        check(look, "postgres", told)


@pytest.fixture
def look(postgres_url: str) -> Iterator[Look]:
    with closing(store_at(postgres_url)) as store:
        store.open()
    with connect(postgres_url) as connection:
        yield lambda question: connection.execute(question.encode()).fetchall()


async def test_two_connections_that_complete_the_last_two_parents_release_their_child_once(postgres_url, look):
    """The first has counted and not committed when the second comes to count."""
    store = store_at(postgres_url)
    await store.write(graphs.start, flows.graph("one", [("b", []), ("c", []), ("d", ["b", "c"])]))
    claims = (await store.claim(ClaimRequest("worker", (QueueDemand("post", ("post",), 9),)))).claims
    ends: list[Transition] = [settle(claim, Succeeded(), DEFAULTS, 0.0) for claim in claims]
    address = Address.read(postgres_url)
    with pg_connect(address) as first:
        first.begin(opening(address))
        round_ = Round(store.now(), 0.0, "", RIDERS)
        assert drive(first, scripts.apply(round_, ends[:1])) == [True]
        drive(first, close(round_))
        second = asyncio.ensure_future(store.write_all(apply, ends[1:]))
        while not look("SELECT 1 FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.005)
        assert look("SELECT state FROM job WHERE state = 'waiting'") == [("waiting",)]
        first.finish()
    assert await second == [True]
    assert flaws(look, "postgres") == {}
    [again] = (await store.claim(ClaimRequest("worker", (QueueDemand("post", ("post",), 9),)))).claims
    assert sorted(again.parents or {}) == ["b", "c"]
    store.close()


@pytest.mark.parametrize("size", [(2, 4), pytest.param((6, 30), marks=pytest.mark.long)])
def test_many_processes_share_the_steps_of_one_graph(postgres_url, look, tmp_path, children, size):
    many, each = size
    crowd = [children.spawn(flows.share, postgres_url, tmp_path, f"member-{n}", each) for n in range(many)]
    assert [child.wait(100.0) for child in crowd] == [0] * many
    assert flaws(look, "postgres") == {}
    assert dict(look("SELECT state, count(*) FROM workflow GROUP BY state"))["completed"] == many * (each - each // 4)
    runs = Counter((line["id"], line["token"]) for line in reported(tmp_path / "ran"))
    assert max(runs.values()) == 1
    waited = "LockNotAvailable: "  # as may happen where several processes share two cores
    assert [line for line in reported(tmp_path / "logged") if waited not in line["message"]] == []
