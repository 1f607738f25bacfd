"""How the statements run on PostgreSQL: by index, whatever the values, where a hundred thousand jobs are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from standfast.application.wings import store_at
from standfast.store.statements import UNRANKED, Statement, load
from tests.postgres import connect, drop_schema, fresh_schema, in_schema

STATEMENTS = load("postgres")
GROWING = {"job", "body", "ending", "history", "idempotency", "journal"}
"""The tables that grow with the backlog or with what is kept. The others hold a row for each queue or worker."""

INTENDED = {
    "lock_jobs": "job_pkey",
    "key_owners": "idempotency_pkey",
    "bodies_of": "body_pkey",
    "promote_due": "job_due",
    "next_due": "job_due",
    "lanes": "job_ready",
    "claim_lane": "job_ready",
    "claim_lanes": "job_ready",
    "take_jobs": "job_pkey",
    "take_lane": "job_ready",
    "complete_jobs": "job_pkey",
    "complete_jobs_at_once": "job_pkey",
    "held_claims": "job_pkey",
    "standing_states": "job_pkey",
    "move_jobs": "job_pkey",
    "write_history": "history_pkey",
    "release_keys": "idempotency_id",
    "held_by_worker": "job_running",
    "lapsed_numbers": "job_running",
    "overdue_jobs": "job_running",
    "running_of_workers": "job_running",
    "longest_running": "job_running",
    "expired_jobs": "job_expiring",
    "prunable_numbers": "job_ended",
    "delete_keys": "idempotency_until",
    "job_by_id": "body_id_key",
    "walk_jobs": "job_pkey",
    "walk_session": "body_session",
    "walk_stopped": "job_letter",
    "walk_history": "history_pkey",
    "walk_running": "job_running",
    "matching_jobs": "job_pkey",
    "list_jobs": "job_pkey",
    "jobs_by_ids": "body_id_key",
    "origins_of": "body_pkey",
    "history_of": "history_pkey",
    "journal_end": "journal_pkey",
    "newest_lines": "history_pkey",
    "mark_lines": "history_pkey",
    "delete_lines": "history_pkey",
    "thread_members": "job_thread",
    "newest_unclaimed": "job_thread",
    "next_parked": "job_parked",
    "next_in_line": "job_parked",
    "anyone_parked": "job_parked",
    "candidates": "job_pkey",
    "park_jobs": "job_pkey",
    "let_through": "job_pkey",
    "stale_tickets": "job_ticket",
    "due_in_threads": "job_due",
    "state_of": "body_id_key",
    "count_due": "job_ready",
    "waiting_lanes": "job_ready",
    "job_counts": "job_due",
    "recent_letters": "job_ended",
    "silent_jobs": "job_ready",
    "deferred_jobs": "job_parked",
    "longest_due": "job_ready",
    "nth_letter": "job_letter",
    "known_ids": "body_id_key",
    "forget_keys": "idempotency_id",
    "numbers_behind": "job_pkey",
    "restamp_expiry": "job_pkey",
}

SCANS = {
    "contents": "every row, once for a backup",
    "restored_jobs": "every job, once for a restore",
    "walked_counts": "every job, once for `doctor`",
}
"""The statements that may walk through a growing table, and why that is not much."""

FILL = """
INSERT INTO queue (name) SELECT 'queue-' || n FROM generate_series(1, 5) AS n;
INSERT INTO body (n, id, payload, details, created_at, idempotency_key)
  SELECT n, 'job-' || n, '{}', '{}', n, 'key-' || n FROM generate_series(1, 100000) AS n;
INSERT INTO job (n, queue, handler, priority, due_at, entered_at, state, ready_at, finished_at, worker, thread_gate,
    parked_on, expires_at)
  SELECT n, 'queue-' || n % 5, 'handler-' || n % 3, n % 4, n, n,
    CASE WHEN n % 10 < 4 THEN 'queued' WHEN n % 1000 = 4 THEN 'running' WHEN n % 10 < 9 THEN 'completed'
      ELSE 'dead' END,
    CASE WHEN n % 10 < 2 THEN n END, CASE WHEN n % 10 > 4 THEN n END,
    CASE WHEN n % 1000 = 4 THEN 'worker-' || n % 7 END,
    CASE WHEN n % 10 = 3 THEN 'gate-' || n % 977 END, CASE WHEN n % 20 = 3 THEN 'gate-' || n % 977 END,
    CASE WHEN n % 50 = 1 THEN n END
  FROM generate_series(1, 100000) AS n;
INSERT INTO ending (n, failure) SELECT n, repeat('x', 300) FROM generate_series(1, 100000) AS n;
INSERT INTO history (n, line, entry)
  SELECT n, line, '{}' FROM generate_series(9, 100000, 10) AS n, generate_series(1, 3) AS line;
INSERT INTO idempotency (queue, key, id, fingerprint, until)
  SELECT 'queue-' || n % 5, 'key-' || n, 'job-' || n, '', CASE WHEN n % 10 > 4 THEN n END
  FROM generate_series(1, 100000) AS n;
INSERT INTO journal (seq, at, entries) SELECT n, n, '[]' FROM generate_series(1, 100000) AS n;
ANALYZE
"""

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)(?:::(\w+(?: precision)?))?")
BOUNDS = {"limit": "200", "most": "1000", "wanted": "64", "depth": "100", "beyond": "0"}
BOUNDS |= {"aside": "1000", "some": "200", "share": "100"}
"""Bounds are known when a statement is planned, and plans differ by them; of all other values nothing is known."""


@pytest.fixture(scope="module")
def full(shared_server: str) -> Iterator[psycopg.Connection[Any]]:
    """Fill a store with jobs in every state."""
    url = in_schema(shared_server, fresh_schema())
    store = store_at(url)
    store.open()
    store.close()
    with connect(url) as connection:
        connection.execute(FILL.encode())
        connection.execute("SET plan_cache_mode = force_generic_plan")
        yield connection
    drop_schema(url)


def steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from steps(part)


def plan(connection: psycopg.Connection[Any], name: str, statement: Statement) -> list[dict[str, Any]]:
    """Ask how a statement runs, planned for any values: numbered parameters, and none of them known."""
    places: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        if found[1] in BOUNDS:
            return BOUNDS[found[1]]
        place = places.setdefault(found[1], f"${len(places) + 1}")
        return place + (f"::{found[2]}" if found[2] else "")

    sql = _PARAMETER.sub(numbered, statement.sql)
    connection.execute(f"PREPARE {name} AS {sql}".encode())
    values = ", ".join(["NULL"] * len(places))
    call = f"EXECUTE {name}({values})" if values else f"EXECUTE {name}"
    [(explained,)] = connection.execute(f"EXPLAIN (FORMAT JSON) {call}".encode()).fetchall()
    connection.execute(f"DEALLOCATE {name}".encode())
    found = explained if isinstance(explained, list) else json.loads(explained)
    return list(steps(found[0]["Plan"]))


PLANNED = {
    name: statement
    for name, statement in STATEMENTS.items()
    if statement.sql and not statement.sql.startswith(("SAVEPOINT", "ROLLBACK", "RELEASE", "LOCK"))
}


@pytest.mark.parametrize("name", PLANNED)
def test_no_statement_walks_through_a_growing_table(full, name):
    scanned = [
        step["Relation Name"]
        for step in plan(full, name, PLANNED[name])
        if step["Node Type"] == "Seq Scan" and step["Relation Name"] in GROWING
    ]
    assert scanned == [] or name in SCANS


@pytest.mark.parametrize(("name", "index"), INTENDED.items())
def test_a_statement_uses_the_index_it_was_written_for(full, name, index):
    assert index in [step.get("Index Name") for step in plan(full, name, PLANNED[name])]


def test_a_claim_does_not_look_at_all_that_was_deferred(full):
    """A handler that snoozes adds a line each time, without end."""
    given = {"numbers": "'[9]'", "since": "0", "most": "1000"}
    sql = _PARAMETER.sub(
        lambda found: given[found[1]] + (f"::{found[2]}" if found[2] else ""), STATEMENTS["held_claims"].sql
    )
    with full.transaction(force_rollback=True):
        full.execute("UPDATE job SET token = 5000, deferrals = 5000 WHERE n = 9")
        full.execute("INSERT INTO history (n, line, entry) SELECT 9, line, '{}' FROM generate_series(4, 5000) AS line")
        [(explained,)] = full.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}".encode()).fetchall()
    scans = [step for step in steps(explained[0]["Plan"]) if step.get("Relation Name") == "history"]
    read = [step["Actual Rows"] + step.get("Rows Removed by Filter", 0) for step in scans]
    assert sorted(read) == [1, 100]


@pytest.fixture(scope="module", params=["an empty store", "a store where all wait"])
def early(shared_server: str, request: pytest.FixtureRequest) -> Iterator[psycopg.Connection[Any]]:
    """Give a store as it was when a worker that runs for weeks had its statements planned."""
    url = in_schema(shared_server, fresh_schema())
    store = store_at(url)
    store.open()
    store.close()
    with connect(url) as connection:
        if request.param != "an empty store":
            connection.execute(ALL_WAIT.encode())
        for name in ("enable_seqscan", "enable_bitmapscan", "jit"):
            connection.execute(f"SET {name} = off".encode())
        connection.execute("SET plan_cache_mode = force_generic_plan")
        yield connection
    drop_schema(url)


ALL_WAIT = """
INSERT INTO body (n, id, payload, details, created_at)
  SELECT n, 'job-' || n, '{}', '{}', n FROM generate_series(1, 20000) AS n;
INSERT INTO job (n, queue, handler, priority, due_at, entered_at, state, ready_at)
  SELECT n, 'mail', 'mail', 60, n, n, 'queued', n FROM generate_series(1, 20000) AS n;
ANALYZE
"""


def test_a_claim_that_was_planned_early_does_not_compare_each_job_with_each_body(early):
    """Such a plan seems cheap for the one row that there seems to be, and takes milliseconds for 512."""
    found = plan(early, "take_lane", STATEMENTS["take_lane"])
    assert [step["Node Type"] for step in found if step.get("Join Type") == "Full"] != []
    loops = [[part.get("Node Type") for part in step["Plans"]] for step in found if step["Node Type"] == "Nested Loop"]
    assert ["CTE Scan", "Tid Scan"] in loops
    assert [
        parts for parts in loops if parts[1] in {"CTE Scan", "Materialize", "Index Scan"} and "Tid Scan" not in parts
    ] == []


def test_ends_that_were_planned_early_are_found_by_their_numbers(early):
    """job_running seems empty while all wait, and later has every job that runs; and a bitmap has no order of locks."""
    found = plan(early, "complete_jobs_at_once", STATEMENTS["complete_jobs_at_once"])
    assert [step.get("Index Name") for step in found if "Scan" in step["Node Type"]] == ["job_pkey"]
    assert [step["Node Type"] for step in found if step.get("Index Name")] == ["Index Scan"]


WHOLE_INDEXES = frozenset({"job_pkey", "body_pkey", "ending_pkey", "history_pkey", "idempotency_pkey", "journal_pkey"})
"""Indexes that have every row of a growing table."""
LOOKS_AT_AN_END = {"number_journal", "delete_journal", "begin_at_end"}
"""The statements that read the first or the last rows of such an index, and no more."""


@pytest.fixture
def writer(full: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Plan as the writer's transactions do: they only use indexes, so a walk through a table is an index scan."""
    for name in ("seqscan", "bitmapscan"):
        full.execute(f"SET enable_{name} = off".encode())
    yield full
    full.execute(b"RESET enable_seqscan; RESET enable_bitmapscan")


@pytest.mark.parametrize("name", [name for name, each in PLANNED.items() if each.rank != UNRANKED])
def test_no_statement_of_the_writer_walks_through_a_whole_index(writer, name):
    walked = [
        step["Index Name"]
        for step in plan(writer, name, PLANNED[name])
        if step.get("Index Name") in WHOLE_INDEXES and "Index Cond" not in step
    ]
    assert walked == [] or name in SCANS or name in LOOKS_AT_AN_END
