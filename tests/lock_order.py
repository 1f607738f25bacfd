"""Whether every transaction of the tests locks in the order of `RANKS`.

Two transactions that lock in one order cannot wait for each other. What a transaction has locked it locks again without
waiting. Where ranks fall all the same, FALLS says why nobody waits in a circle.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import pytest

from standfast.store.postgres import connection as postgres_connection
from standfast.store.postgres import driver as postgres
from standfast.store.sqlite import neighbours
from standfast.store.sqlite import sqlite_engine as sqlite
from standfast.store.statements import RANKS, UNRANKED, load
from standfast.store.steps import Batch, Rows

Given = dict[str, Any] | Batch

STATEMENTS = load("postgres")
PLACE = {rank: place for place, rank in enumerate(RANKS)}
ANSWERED_IN = {
    **dict.fromkeys(("thread_members", "called_job", "unfinished_steps", "stale_tickets", "ask_to_stop"), 0),
    **dict.fromkeys(("old_letters", "surplus_letters", "purgeable_letters", "hurry_job", "insist_on_job"), 0),
    "next_in_line": 1,
}
"""Statements that lock jobs which they choose, and the column that says which."""
CLAIMS = frozenset({"claim_lane", "claim_lanes", "claim_suspects"})


class Fall(NamedTuple):
    """Statements that may come after these ranks, and why that is safe."""

    statements: frozenset[str]
    after: frozenset[str]
    why: str


def fall(statements: str, *, after: str, why: str) -> Fall:
    return Fall(frozenset(statements.split()), frozenset(after.split()), why)


ALL = " ".join(RANKS)
TRIED_AGAIN = "after a second the server refuses one of them, which is then tried again by itself"

FALLS = (
    # --- what is over
    fall(
        "delete_aliases delete_approvals delete_conditions delete_consent_uses delete_consents delete_ended_schedules"
        " delete_forgotten delete_former_letters delete_journal delete_pains delete_redriven delete_redrives"
        " delete_sinks delete_surplus_messages delete_ticks delete_timings write_timings",
        after=ALL,
        why="One transaction prunes at a time: it marks that first. What it deletes is over, and nobody else locks it.",
    ),
    fall(
        "delete_workers retire_workers",
        after=ALL,
        why="They are over, and nobody else locks them. To the tallies of queues both add, in one order; behind that a"
        " prune deletes what nobody else locks, and any other transaction takes only what is free, or ends.",
    ),
    fall(
        "keep_former_letters",
        after="workflows",
        why="New rows, about steps whose workflow the only transaction that prunes has just deleted.",
    ),
    fall(
        "return_queues forget_queues",
        after=ALL,
        why="Part of pruning. Whoever locks a queue's row declared the queue, and such a queue is not forgotten.",
    ),
    fall(
        "mark_upkeep forget_upkeep",
        after=ALL,
        why="A mark is held by a sweep, which then only tries; by the one prune; or by the publishing and restamping of"
        " ages, each alone in its transaction, which take the jobs that are free.",
    ),
    # --- an end
    fall(
        "release_keys",
        after="jobs aliases approvals policy redrives consent workflows alerts",
        why="A newcomer does not even lock a key that an unfinished job has: only whoever has the job's row does.",
    ),
    fall(
        "tally_workflows set_progress end_workflow",
        after="workers",
        why="A heartbeat in the round of a step's end. Another process locks a worker's row only when it takes"
        " the worker for dead; a circle needs one that does so while the worker lives, and has the workflow."
        f" Even so, {TRIED_AGAIN}.",
    ),
    fall(
        "release_workflow_key",
        after="jobs approvals policy redrives consent workflows workers",
        why="The key of a workflow that has not ended is locked only by whoever has the workflow's row.",
    ),
    fall(
        "lock_jobs",
        after="approvals policy redrives consent workflows",
        why="Steps behind a step: a waiting step is locked only by whoever has a step before it, or all that can move.",
    ),
    fall(
        "answer_approval void_approvals",
        after="policy redrives consent workflows",
        why="An approval is locked only by whoever has its letter's row, or its redrive's.",
    ),
    fall(
        "file_asks",
        after="workflows",
        why="A question about consent is written only by whoever has the row of its job.",
    ),
    # --- newcomers
    fall(
        "forget_keys hand_key_over",
        after="jobs aliases followers alerts",
        why="This transaction took the key itself.",
    ),
    fall(
        "insert_bodies insert_step_bodies",
        after="aliases workflows followers alerts",
        why="A new row waits only for one of the same id: drawn at random, or brought by one spool in its order.",
    ),
    fall(
        "write_aliases alias_folded",
        after="approvals",
        why="What is buried as it comes in has its alias written last. Whoever writes the same one has waited for the"
        " body of that id before.",
    ),
    fall(
        "thread_members unpark_job",
        after="aliases approvals policy redrives consent workflows",
        why="The jobs of a thread are locked only under its gate, which is locked before everything else.",
    ),
    fall(
        "take_keys",
        after="jobs aliases",
        why="One newcomer after another: the jobs are new, or of a thread whose gate is held. A spool is brought by one"
        " process at a time.",
    ),
    fall(
        "take_keys",
        after="jobs approvals",
        why="letters.amend: a letter gets another key. A circle needs a round that brings a job with this key and moves"
        f" the letter too; {TRIED_AGAIN}.",
    ),
    fall(
        "lock_queue ensure_queues",
        after="keys jobs followers alerts",
        why="What tells of an alert is enqueued once its row is taken. A circle needs a round that enqueues into this"
        f" queue and tells of the same alert; {TRIED_AGAIN}.",
    ),
    fall(
        "write_ticks move_schedule",
        after="gates queues keys jobs aliases",
        why="The row of the schedule was taken first, by lock_free_schedules.",
    ),
    # --- single rows
    fall(
        "file_approvals answer_approval void_plans_approval",
        after="redrives",
        why="An approval of a redrive is written only by whoever has the redrive's row.",
    ),
    fall(
        "number_journal sum_counters sum_job_counts forget_slots",
        after="workers followers alerts tokens limits",
        why="Only whoever has the journal's lock does this, and that was tried, or taken before anything else.",
    ),
    fall(
        "keep_counters keep_job_counts delete_counters delete_job_counts",
        after=ALL,
        why="The same, at the end of pruning.",
    ),
    fall(
        "tally_workflows set_progress end_workflow",
        after="journal",
        why="Only what begins alerts waits for the journal's lock, alone in its transaction: it holds nothing yet.",
    ),
    fall(
        "begin_following lock_follower move_follower",
        after="alerts",
        why="All follow under one name, whose row comes first; the second time it is held.",
    ),
    fall(
        "lock_jobs complete_jobs",
        after="followers alerts",
        why="Before an end: a round follows the journal and notes sinks before it locks a job that others know of.",
    ),
    fall(
        "lock_jobs complete_jobs",
        after="tokens",
        why="What makes and ends tokens and browser sessions has its turn before all that locks jobs, in every round.",
    ),
    # --- alone
    fall(
        "set_replay_status void_approvals pause_redrives recount_workflows",
        after="approvals redrives workflows limits",
        why="A restore: nobody else uses the store yet.",
    ),
)


class Transaction:
    """What a transaction has locked so far."""

    def __init__(self) -> None:
        self.ranks: dict[str, str] = {}
        """Each rank it holds locks of, with the first statement that took one."""
        self.jobs: set[int] = set()
        self.every_job = False
        self.gates: set[str] = set()

    def falls(self, name: str, given: Given) -> list[str]:
        """Tell where a statement would wait for a lock of a lower rank than one that is held; note what it locks."""
        statement = STATEMENTS[name]
        if statement.rank == UNRANKED:
            return []
        rank = _rank(name, given)
        waits = statement.waits and not self._has(rank, given)
        higher = {held: by for held, by in self.ranks.items() if waits and PLACE[held] > PLACE[rank]}
        self._note(name, rank, given)
        return [f"{name} ({rank}) after {by} ({held})" for held, by in higher.items() if not _is_listed(name, held)]

    def _has(self, rank: str, given: Given) -> bool:
        if rank == "jobs":
            numbers = _numbers(given)
            return self.every_job or (numbers is not None and numbers <= self.jobs)
        return rank in {"gates", "limits"} and _gates(given) <= self.gates

    def _note(self, name: str, rank: str, given: Given) -> None:
        self.ranks.setdefault(rank, name)
        self.every_job |= name == "lock_all_jobs"
        if rank == "jobs":
            self.jobs |= _numbers(given) or set()
        if rank in {"gates", "limits"}:
            self.gates |= _gates(given) - {""}

    def answered(self, name: str, rows: Rows) -> None:
        """Note the jobs that a statement chose and locked."""
        if name in ANSWERED_IN:
            self.jobs |= {row[ANSWERED_IN[name]] for row in rows}
        elif name == "take_lane":
            self.jobs |= {row[2] for row in rows}
        elif name == "lane_heads":
            self.jobs |= {n for row in rows for n in json.loads(row[2] or "[]")}
        elif name in CLAIMS:
            self.jobs |= set(json.loads(rows[0][0]))


def _rank(name: str, given: Given) -> str:
    """Threads, schedules and limits are locked by one statement: their names say which they are."""
    if name != "lock_gates":
        return STATEMENTS[name].rank
    [rank] = {{"thread": "gates", "schedule": "schedules"}.get(key.split(":")[0], "limits") for key in _gates(given)}
    return rank


def _numbers(given: Given) -> set[int] | None:
    """Give the numbers of the jobs that a statement is about; None where it names them otherwise."""
    if not isinstance(given, dict):
        return {row[0] for row in given} if all(isinstance(row[0], int) for row in given) else None
    if "numbers" in given:
        numbers = given["numbers"]
        return set(numbers if isinstance(numbers, list) else json.loads(numbers))
    if "effects" in given:
        return {n for n, *_ in json.loads(given["effects"])}
    return {given["n"]} if "n" in given else None


def _gates(given: Given) -> set[str]:
    if not isinstance(given, dict):
        return {row[0] for row in given}
    return set(json.loads(given["gates"])) if "gates" in given else {given.get("gate", "")}


def _is_listed(name: str, held: str) -> bool:
    return any(name in each.statements and held in each.after for each in FALLS)


class LockOrder:
    """Looks at every statement that this process runs for a store. Other processes of a test are not looked at."""

    def __init__(self) -> None:
        self.falls: list[str] = []
        self._open: WeakKeyDictionary[Any, Transaction] = WeakKeyDictionary()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Look at both drivers."""
        for driver in (postgres, sqlite):
            patch.setattr(driver, "_execute", self._checked(driver._execute))  # noqa: SLF001
        for name in ("begin", "begin_at_once"):
            begin = getattr(postgres_connection.Connection, name)
            patch.setattr(postgres_connection.Connection, name, self._beginning(begin))
        begin_file = neighbours.begin
        patch.setattr(sqlite, "begin", lambda connection, *how, **more: begin_file(self._new(connection), *how, **more))

    def _beginning(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        return lambda own, *given: begin(self._new(own), *given)

    def _new(self, connection: Any) -> Any:
        self._open[connection] = Transaction()
        return connection

    def _checked(self, execute: Callable[[Any, str, Given], Rows]) -> Callable[[Any, str, Given], Rows]:
        def checked(connection: Any, name: str, given: Given) -> Rows:
            transaction = self._open.setdefault(connection, Transaction())
            self.falls += transaction.falls(name, given)
            rows = execute(connection, name, given)
            transaction.answered(name, rows)
            return rows

        return checked
