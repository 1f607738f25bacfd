"""How the statements run: each by the index it was written for, and none at a cost that grows with the backlog."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self

import apsw
import msgspec
import pytest

from standfast.application.wings import store_at
from standfast.job import NewJob
from standfast.outcome import Snooze, Succeeded
from standfast.rules import DEFAULTS, Limit, QueueRules
from standfast.spine import intake
from standfast.spine.apply import apply
from standfast.spine.claim_requests import ClaimRequest, Publication, QueueDemand
from standfast.store.sqlite.sqlite_engine import drive
from standfast.store.statements import Statement, load
from standfast.store.store import Store
from standfast.testing import FrozenClock
from standfast.wings.health import scripts as health_scripts
from standfast.wings.queues import publishing
from standfast.worker.settling import settle

STATEMENTS = load("sqlite")

GROWING = ("job", "body", "ending", "history", "idempotency", "journal", "tick")
"""The tables that grow with the backlog or with what is kept. The others hold a row for each queue or worker."""

INTENDED = {
    "key_owners": "SEARCH k USING PRIMARY KEY (queue=? AND key=?)",
    "promote_due": "USING INDEX job_due (due_at<?)",
    "next_due": "USING INDEX job_due",
    "lanes": "USING COVERING INDEX job_ready (queue=? AND handler=? AND priority<?)",
    "claim_lane": "USING COVERING INDEX job_ready (queue=? AND handler=? AND priority=?",
    "claim_lanes": "USING COVERING INDEX job_ready (queue=? AND handler=? AND priority=?",
    "take_jobs": "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)",
    "held_claims": "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
    "standing_states": "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
    "move_jobs": "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)",
    "write_history": "SEARCH h USING PRIMARY KEY (n=?)",
    "release_keys": "SEARCH idempotency USING INDEX idempotency_id (id=?)",
    "held_by_worker": "USING INDEX job_running (worker=?)",
    "lapsed_numbers": "SCAN j USING INDEX job_running",
    "expired_jobs": "USING INDEX job_expiring (expires_at<?)",
    "prunable_numbers": "job_ended (queue=? AND state=? AND finished_at<?)",
    "delete_keys": "USING COVERING INDEX idempotency_until (until<?)",
    "job_by_id": "USING INDEX sqlite_autoindex_body_1 (id=?)",
    "walk_jobs": "SEARCH job USING INTEGER PRIMARY KEY (rowid<?)",
    "walk_session": "USING INDEX body_session (<expr>=? AND n<?)",
    "walk_stopped": "USING INDEX job_letter (n<?)",
    "walk_history": "SEARCH history USING PRIMARY KEY (n<?)",
    "walk_running": "INDEX job_running",
    "matching_jobs": "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
    "list_jobs": "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
    "unread_messages": "USING INDEX message_session (session=?)",
    "lock_consents": "USING INDEX consent_session (session=?)",
    "due_alerts": "USING INDEX alert_due (tell_at<?)",
    "jobs_by_ids": "USING INDEX sqlite_autoindex_body_1 (id=?)",
    "origins_of": "SEARCH b USING INTEGER PRIMARY KEY (rowid=?)",
    "history_of": "SEARCH history USING PRIMARY KEY (n=?)",
    "journal_end": "SEARCH journal",
    "newest_lines": "SEARCH h USING PRIMARY KEY (n=? AND line=?)",
    "mark_lines": "SEARCH history USING PRIMARY KEY (n=? AND line=?)",
    "delete_lines": "SEARCH history USING PRIMARY KEY (n=? AND line=?)",
    "open_approvals": "USING INDEX approval_open (n=?)",
    "void_approvals": "USING INDEX approval_open (n=?)",
    "due_approvals": "USING COVERING INDEX approval_expiring (expires_at<?)",
    "moved_on": "USING INDEX job_thread_ended (thread_gate=? AND n>?)",
    "recent_outcomes": "USING INDEX redriven_ended (redrive=? AND episode=?)",
    "delete_redriven": "SEARCH redriven USING PRIMARY KEY (redrive=? AND place<?)",
    "candidates": "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
    "park_jobs": "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)",
    "occupy_gates": "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)",
    "let_through": "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)",
    "next_in_line": "USING COVERING INDEX job_parked (parked_on=? AND n>?)",
    "anyone_parked": "USING COVERING INDEX job_parked (parked_on=?)",
    "forget_gates": "USING COVERING INDEX job_parked (parked_on=?)",
    "due_gates": "INDEX gate_opening",
    "destination_gates": "USING INDEX gate_hold",
    "stale_tickets": "USING INDEX job_ticket",
    "places_taken": "USING INDEX job_ticket",
    "doubtful_gates": "USING INDEX gate_regulating",
    "waiting_lanes": "USING COVERING INDEX job_ready (queue=? AND handler=? AND priority>?)",
    "job_counts": "USING INDEX job_due (due_at>? AND due_at<?)",
    "late_since": "USING INDEX job_due (due_at<?)",
    "longest_due": "USING COVERING INDEX job_parked (parked_on=?)",
    "recent_letters": "job_ended (queue=? AND state=? AND finished_at>?)",
    "silent_jobs": "job_ready (queue=? AND handler=? AND priority=? AND ready_at>? AND ready_at<?)",
    "deferred_jobs": "USING INDEX job_parked (parked_on=?)",
    "nth_letter": "USING INDEX job_letter (n<?)",
    "list_letters": "USING INDEX job_letter (n>? AND n<?)",
    "walk_letters": "USING INDEX job_letter (n>? AND n<?)",
    "purgeable_letters": "job_ended (queue=? AND state=? AND finished_at<?)",
    "old_letters": "job_ended (queue=? AND state=? AND finished_at<?)",
    "surplus_letters": "job_ended (queue=? AND state=?",
    "due_schedules": "INDEX schedule_next_wall (",
    "known_ticks": "SEARCH tick USING PRIMARY KEY (schedule=? AND tick>? AND tick<?)",
    "delete_ticks": "USING COVERING INDEX tick_at (at<?)",
    "delete_conditions": "INDEX condition_ended (ended_at<?)",
}

SCANS = {
    "next_due": "the first entry of the index of jobs that must run alone, which holds only those",
    "lapsed_numbers": "what runs now, by a partial index",
    "abandoned_jobs": "what runs now, by a partial index",
    "overdue_jobs": "what runs now, by a partial index",
    "walk_running": "what runs now, by a partial index",
    "running_of_workers": "what runs now, by a partial index",
    "longest_running": "what runs now, by a partial index",
    "job_counts": "what runs now, by a partial index",
    "walked_counts": "every job, once for `doctor`",
    "places_taken": "what runs or holds a ticket, by partial indexes",
    "doubtful_gates": "what runs or holds a ticket, by partial indexes",
    "stale_tickets": "what holds a ticket, by a partial index",
    "silent_jobs": "what runs or is parked, by partial indexes and up to a bound",
    "waiting_suspects": "what ran when its worker died, by a partial index and up to a bound",
    "contents": "every row, once for a backup",
    "restored_jobs": "every job, once for a restore",
    "forget_queues": "what runs, is scheduled or parked, by partial indexes and up to a bound",
    "waiting_lanes": "the first entry of an index, to begin a loose scan",
    "unknown_handlers": "what is scheduled or parked, by partial indexes and up to a bound",
    "delete_journal": "as many of the oldest rows as a bite takes",
}
"""The statements that may walk through a growing table or an index of one, and why that is not much."""

OF_GATES = ("try_gates", "read_gates", "destination_gates", "candidates", "occupy_gates", "write_gates", "due_gates")
MOST_COLUMNS = 20
_NAMED = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO)\s+(\w+)(?:\s+AS\s+(\w+))?", re.IGNORECASE)
_SCAN = re.compile(r"SCAN (\w+)")
_INNER = re.compile(r"(?:CO-ROUTINE|MATERIALIZE) (\w+)")


@pytest.fixture(scope="module")
def connection() -> Iterator[apsw.Connection]:
    store = store_at(":memory:")
    store.open()
    yield writer_of(store)
    store.close()


def writer_of(store: Store) -> apsw.Connection:
    connection = store._engine._connection  # noqa: SLF001 - the plans are the engine's own
    assert isinstance(connection, apsw.Connection)
    return connection


def plan(connection: apsw.Connection, statement: Statement) -> list[str]:
    """Ask how a statement would run."""
    if ":rows" not in statement.sql:
        return _explained(connection, statement.sql, _Anything())
    for columns in range(1, MOST_COLUMNS):
        with suppress(apsw.SQLError):  # the batch has another number of columns
            return _explained(connection, statement.for_rows(2, columns), [None] * 2 * columns)
    raise AssertionError(statement.sql)


def _explained(connection: apsw.Connection, sql: str, parameters: Any) -> list[str]:
    return [detail for _, _, _, detail in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]


class _Anything(dict[str, Any]):
    """Binds every parameter of every statement."""

    def __missing__(self, name: str) -> None:
        return None


def scanned(connection: apsw.Connection, statement: Statement) -> list[str]:
    """Give the steps of a plan that walk through a growing table, under whatever name."""
    sql = statement.sql
    if "job_row" in sql:
        sql += connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'job_row'").get
    names = {alias or table for table, alias in _NAMED.findall(sql) if table in GROWING}
    steps = [step for step in plan(connection, statement) if "VIRTUAL TABLE" not in step]
    inner = {f"SCAN {found[1]}" for step in steps if (found := _INNER.match(step))}
    return [step for step in steps if (found := _SCAN.match(step)) and found[1] in names and step not in inner]


@pytest.mark.parametrize(("name", "index"), INTENDED.items())
def test_a_statement_uses_the_index_it_was_written_for(connection, name, index):
    assert [step for step in plan(connection, STATEMENTS[name]) if index in step]


@pytest.mark.parametrize("name", [name for name, statement in STATEMENTS.items() if statement.sql])
def test_no_statement_walks_through_a_growing_table(connection, name):
    steps = scanned(connection, STATEMENTS[name])
    assert name in SCANS or steps == []


@pytest.mark.parametrize("name", [name for name, statement in STATEMENTS.items() if statement.spanned])
def test_no_statement_about_numbers_without_gaps_walks_further_than_they_go(connection, name):
    along = msgspec.structs.replace(STATEMENTS[name], sql=STATEMENTS[name].spanned)
    assert name in SCANS or scanned(connection, along) == []


@pytest.mark.parametrize("name", ["insert_jobs", "take_jobs", "plain_claims", "complete_jobs", "complete_some"])
def test_what_every_job_runs_walks_along_the_jobs_themselves_and_no_index_of_all_that_runs(connection, name):
    along = msgspec.structs.replace(STATEMENTS[name], sql=STATEMENTS[name].spanned)
    steps = [step for step in plan(connection, along) if "INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in step]
    assert len(steps) == along.sql.count("BETWEEN")


@pytest.mark.parametrize("name", SCANS)
def test_every_exception_is_still_needed(connection, name):
    assert scanned(connection, STATEMENTS[name])


@pytest.mark.parametrize("name", ["lapsed_numbers", "overdue_jobs", "running_of_workers", "longest_running"])
def test_what_runs_is_found_by_its_own_index(connection, name):
    assert all("job_running" in step for step in scanned(connection, STATEMENTS[name]))


# --- the cost


class Backlog:
    """A store with work waiting, some of it due later, some of it done."""

    def __init__(self, waiting: int) -> None:
        self._clock = FrozenClock()
        self._store = store_at(":memory:", self._clock)
        self._made = 0
        for start in range(0, waiting, 5000):
            self._store.write_all(
                intake.enqueue, [self._job(n) for n in range(start, min(waiting, start + 5000))]
            ).result()
        self._clock.advance(60)

    def _job(self, n: int) -> NewJob:
        """Make one of five priorities, every tenth of them due tomorrow."""
        delay = 86400.0 if n % 10 == 9 else float(n % 7)
        return NewJob(id=f"job-{n}", queue="mail", handler="mail", payload="{}", priority=n % 5, delay=delay)

    def _keyed_job(self) -> NewJob:
        self._made += 1
        name = f"new-{self._made}"
        return NewJob(id=name, queue="mail", handler="mail", payload="{}", idempotency_key=name, fingerprint="the same")

    async def steps(self) -> dict[str, int]:
        """Count the steps SQLite takes for each verb, once everything that came due is made ready."""
        order = ClaimRequest("worker-1", (QueueDemand("mail", ("mail",), 32),))
        while (await self._store.claim(ClaimRequest("worker-1", (QueueDemand("mail", ("other",), 1),)))).next_due == 0:
            pass
        with _Counted(writer_of(self._store)) as counted:
            catch = await self._store.claim(order)
        costs = {"claim": counted.steps}
        assert len(catch.claims) == 32
        with _Counted(writer_of(self._store)) as counted:
            await self._store.write_all(intake.enqueue, [self._keyed_job() for _ in range(32)])
        costs["enqueue"] = counted.steps
        with _Counted(writer_of(self._store)) as counted:
            landed = await self._store.write_all(
                apply, [settle(claim, Succeeded("1"), DEFAULTS, 0.0) for claim in catch.claims]
            )
        costs["complete"] = counted.steps
        declared = Publication({"mail": QueueRules(max_age=604800.0)}, [])
        publishing.publish(self._store, declared)
        with _Counted(writer_of(self._store)) as counted:
            publishing.publish(self._store, declared)
        costs["publish again"] = counted.steps
        costs["look"] = self._look()
        assert all(landed)
        self._store.close()
        return costs

    def _look(self) -> int:
        """Count the steps of everything that stats and health read of jobs."""
        self._clock.advance(60)
        with _Counted(writer_of(self._store)) as counted:
            drive(
                writer_of(self._store), health_scripts.survey(self._store.now(), self._store.boot(), silent_after=30.0)
            )
            health = health_scripts.facts(self._store.now(), self._store.boot(), silent_after=30.0, unmoved_for=20.0)
            found = drive(writer_of(self._store), health)
        assert found.silent["mail"] > 1
        assert found.queues[0].counts.due > 1
        return counted.steps


class _Counted:
    """Counts the virtual machine's steps on a connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.steps = 0

    def __enter__(self) -> Self:
        self._connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._profiled, id=self)
        return self

    def _profiled(self, event: dict[str, Any]) -> None:
        self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def __exit__(self, *_: object) -> None:
        self._connection.trace_v2(0, None, id=self)


async def parked_costs(parked: int) -> int:
    """Count the steps of a claim and an end in a queue where so many jobs of one tenant wait for a place."""
    store = store_at(":memory:")
    limit = Limit(key="payload.tenant", limit=2)
    publishing.publish(store, Publication({"mail": QueueRules(concurrency=limit)}, []))
    jobs = [_of_tenant("full", n) for n in range(parked + 2)]
    store.write_all(intake.enqueue, jobs).result()
    while (await store.claim(ClaimRequest("worker-1", (QueueDemand("mail", ("mail",), 512),)))).next_due == 0:
        pass
    store.write_all(intake.enqueue, [_of_tenant(f"tenant-{n}", n) for n in range(8)]).result()
    with _Counted(writer_of(store)) as counted:
        caught = await store.claim(ClaimRequest("worker-1", (QueueDemand("mail", ("mail",), 9),)))
        await store.write_all(apply, [settle(claim, Succeeded(), DEFAULTS, 0.0) for claim in caught.claims])
    assert len(caught.claims) == 8
    store.close()
    return counted.steps


def _of_tenant(tenant: str, n: int) -> NewJob:
    payload = f'{{"tenant":"{tenant}"}}'
    return NewJob(id=f"{tenant}-{n}", queue="mail", handler="mail", payload=payload)


async def test_a_claim_does_not_look_at_what_is_parked():
    few, many = await parked_costs(100), await parked_costs(20_000)
    assert few > 10
    assert many <= 1.1 * few


async def deferred_costs(lines: int) -> int:
    """Count the steps of claiming and snoozing a job once more that was snoozed so many times."""
    store = store_at(":memory:")
    store.write_all(intake.enqueue, [_of_tenant("any", 1)]).result()
    order = ClaimRequest("worker-1", (QueueDemand("mail", ("mail",), 1),))
    [claim] = (await store.claim(order)).claims
    await store.write_all(apply, [settle(claim, Snooze(0), DEFAULTS, 0.0)])
    again = "INSERT INTO history SELECT n, ?, entry FROM history WHERE line = 1"
    writer_of(store).executemany(again, [(line,) for line in range(2, lines)])
    with _Counted(writer_of(store)) as counted:
        [claim] = (await store.claim(order)).claims
        await store.write_all(apply, [settle(claim, Snooze(0), DEFAULTS, 0.0)])
    store.close()
    return counted.steps


async def test_a_claim_does_not_look_at_all_that_was_deferred():
    few, many = await deferred_costs(1_000), await deferred_costs(20_000)
    assert few > 10
    assert many <= 1.1 * few


async def test_a_queue_without_limits_pays_nothing_for_them():
    """Claim and end of a plain job run no statement that a gate needs."""
    store = store_at(":memory:")
    store.write_all(intake.enqueue, [_of_tenant("any", n) for n in range(4)]).result()
    ran: list[str] = []
    store.open()
    writer_of(store).trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: ran.append(event["sql"]), id=ran)
    caught = await store.claim(ClaimRequest("worker-1", (QueueDemand("mail", ("mail",), 4),)))
    await store.write_all(apply, [settle(claim, Succeeded(), DEFAULTS, 0.0) for claim in caught.claims])
    writer_of(store).trace_v2(0, None, id=ran)
    ours = {STATEMENTS[name].sql for name in OF_GATES}
    assert len(ran) > 8
    assert [sql for sql in ran if sql in ours] == []
    store.close()


async def test_what_a_verb_costs_does_not_depend_on_the_backlog(monkeypatch):
    for bound in ("LOOKED_THROUGH", "LOOKED_AT"):
        monkeypatch.setattr(health_scripts, bound, 50)
    few, many = await Backlog(1_000).steps(), await Backlog(20_000).steps()
    assert list(few) == ["claim", "enqueue", "complete", "publish again", "look"]
    assert all(cost > 10 for cost in few.values())
    for verb, cost in few.items():
        assert many[verb] <= 1.1 * cost, verb
