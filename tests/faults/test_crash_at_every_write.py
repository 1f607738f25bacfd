"""A crash is a SIGKILL of a child at a counted write, judged by a file the product does not write."""

from __future__ import annotations

import itertools
import random
import signal
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from standfast.application.wings import store_at
from standfast.store.sqlite.files import Files
from standfast.wings.audit.words import NOTHING, Link, digest
from tests.faults import roles
from tests.faults.nursery import nursery, reported, until
from tests.faults.verdict import read
from tests.postgres import connect

STEP = 9
"""Of so many writes one is tried, another in each run; `--soak` tries all."""
WIDE_STEP = 12
WIDE_STEP_ON_A_SERVER = 160


class Told:
    """What the child had reported when it was killed."""

    def __init__(self, path: Path) -> None:
        self.offered: set[str] = set()
        self.accepted: set[str] = set()
        self.ending: set[str] = set()
        self.claimed: dict[str, int] = {}
        self.ended: dict[str, str] = {}
        for line in reported(path):
            for what, ids in line.items():
                getattr(self, what).update(ids)


@pytest.mark.timeout(0)
def test_a_process_killed_at_any_write_loses_nothing_it_was_told(place, soak):
    first = random.randint(1, STEP)  # noqa: S311 - each run tries others; a failure names its directory
    with nursery() as children:
        for n in itertools.count(1) if soak else itertools.count(first, STEP):
            directory = place / str(n)
            directory.mkdir()
            status = children.spawn(roles.live_and_die, directory, n).wait()
            assert status in (0, -signal.SIGKILL)
            check(directory)
            if status == 0:
                break
    assert n > 250, "the scenario is shorter than it was"


def check(directory: Path) -> None:
    """Hold the file against what was told."""
    told = Told(directory / "told")
    jobs, flaws = read(directory / "queue.db")
    assert flaws == [], directory
    assert told.accepted <= set(jobs) <= told.offered
    assert {id_: jobs[id_].state for id_ in told.ended} == told.ended
    assert {job.id for job in jobs.values() if job.state in ("completed", "dead")} <= told.ending
    assert all(jobs[id_].token >= token for id_, token in told.claimed.items()), "an attempt that was not counted"


DIALECTS = {
    "sqlite": {"status": "triage->>'replay_status'", "at": "triage->>'replay_at'", "line": "h.entry", "has": "instr"},
    "postgres": {
        "status": "triage::jsonb->>'replay_status'",
        "at": "(triage::jsonb->>'replay_at')::double precision",
        "line": "h.entry::jsonb",
        "has": "0 < strpos",
    },
}
UNGOVERNED = {
    "a letter that is not whole": """
        SELECT j.n FROM job AS j LEFT JOIN ending AS e ON e.n = j.n WHERE j.state IN ('dead', 'held')
        AND (e.failure IS NULL OR e.triage IS NULL OR e.fingerprint IS NULL OR e.policy_snapshot IS NULL
             OR NOT EXISTS (SELECT 1 FROM history AS h WHERE h.n = j.n))""",
    "a replay that is due and not told, or told and not due": """
        SELECT n FROM ending WHERE replay_at IS DISTINCT FROM {at}
        OR ({status} = 'scheduled') <> (replay_at IS NOT NULL)""",
    "a letter held for nothing, or an approval of nothing": """
        SELECT j.n FROM job AS j LEFT JOIN approval AS a ON a.n = j.n
        WHERE (j.state = 'held') <> (a.id IS NOT NULL AND a.state = 'pending')""",
    "a replay without its decision, or a decision without its replay": """
        SELECT b.id FROM body AS b LEFT JOIN ending AS e ON e.n = b.n WHERE coalesce(e.replays, 0) <>
        (SELECT count(*) FROM audit WHERE {has}(entries, b.id) AND {has}(entries, '"auto_replay"'))""",
    "a replay without its line": """
        SELECT e.n FROM ending AS e WHERE e.replays <> (
          SELECT count(*) FROM history AS h WHERE h.n = e.n AND {line}->>'reason_code' = 'replayed')""",
    "a refusal without its decision, or a decision without its refusal": """
        SELECT b.id FROM body AS b LEFT JOIN ending AS e ON e.n = b.n WHERE (e.refused_at IS NOT NULL) <>
        EXISTS (SELECT 1 FROM audit WHERE {has}(entries, b.id) AND {has}(entries, '"deny"'))""",
    "a policy without its decision": """
        SELECT 1 WHERE (SELECT count(*) FROM policy) <> (
          SELECT count(*) FROM audit WHERE {has}(entries, '"kind":"policy"'))""",
}
"""What may never be in a store of letters under a policy: each change, and what was decided, is there or is not."""
GOVERNED_TABLES = ("job", "body", "ending", "history", "approval", "policy", "audit", "chain", "queue")


@pytest.mark.timeout(0)
def test_a_letter_is_judged_replayed_and_refused_whole_or_not_at_all(place, soak):
    first = random.randint(1, WIDE_STEP)  # noqa: S311 - as above
    made = Files(str(place / "new.db"))  # making a store is tried above
    made.close(made.open())
    with nursery() as children:
        for n in itertools.count(1) if soak else itertools.count(first, WIDE_STEP):
            directory = place / str(n)
            directory.mkdir()
            copy(place / "new.db", directory / "queue.db")
            status = children.spawn(roles.govern_and_die, directory, n).wait()
            assert status in (0, -signal.SIGKILL)
            files = Files(str(directory / "queue.db"))
            connection = files.open()
            try:
                check_governed(partial(rows_of, connection), "sqlite", directory / "told")
            finally:
                files.close(connection)
            if status == 0:
                break
    assert n > 200, "the scenario is shorter than it was"


@pytest.mark.timeout(0)
def test_a_letter_on_a_server_is_judged_replayed_and_refused_whole_or_not_at_all(postgres_url, tmp_path, soak):
    every = 1 if soak else WIDE_STEP_ON_A_SERVER
    with closing(store_at(postgres_url)) as store:
        store.open()
    with nursery() as children, connect(postgres_url) as connection:
        for n in itertools.count(random.randint(1, every), every):  # noqa: S311 - as above
            told = tmp_path / f"told-{n}"
            told.touch()
            status = children.spawn(roles.govern_and_die_on_a_server, postgres_url, told, n).wait()
            assert status in (0, -signal.SIGKILL)
            backend = reported(told)[0]["backend"]
            until(partial(is_gone, connection, backend))  # it may have a commit to carry out that nobody waits for
            check_governed(partial(rows_of, connection), "postgres", told)
            for table in GOVERNED_TABLES:
                connection.execute(f"DELETE FROM {table}".encode())  # noqa: S608 - names of ours
            if status == 0:
                break
    assert n > 60, "the scenario is shorter than it was"


def rows_of(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    """Look behind the verbs, on either engine."""
    return list(connection.execute(sql))


def is_gone(connection: Any, backend: int) -> bool:
    """Tell whether the server has let go of a client that is no more."""
    return not connection.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [backend]).fetchall()


def check_governed(look: Callable[[str], list[tuple[Any, ...]]], dialect: str, place: Path) -> None:
    """Hold the store against what was told."""
    told: dict[str, Any] = {"stopped": {}}
    for line in reported(place):
        told["stopped"] |= line.pop("stopped", {})
        told |= line
    words = DIALECTS[dialect]
    found = {flaw: look(query.format(**words)) for flaw, query in UNGOVERNED.items()}
    assert {flaw: rows for flaw, rows in found.items() if rows} == {}, place
    check_chain([Link(*row) for row in look("SELECT seq, at, entries, previous, hash FROM audit ORDER BY seq")])
    states = dict(look("SELECT b.id, j.state FROM job AS j JOIN body AS b ON b.n = j.n"))
    statuses = dict(look(f"SELECT b.id, {words['status']} FROM ending AS e JOIN body AS b ON b.n = e.n"))  # noqa: S608
    published = [snapshot for (snapshot,) in look("SELECT snapshot FROM policy")]
    left = {id_: target for id_, target in told["stopped"].items() if id_ != "post-0"}  # that one was replayed
    assert {id_: states[id_] for id_ in left} == left
    if "refused" in told:
        assert statuses[told["refused"]] == "denied"
    assert "published" not in told or published == [told["published"]]


def check_chain(links: list[Link]) -> None:
    """See that every link follows the one before it."""
    assert [link.seq for link in links] == list(range(len(links)))
    assert [link.previous for link in links] == [NOTHING, *(link.hash for link in links)][: len(links)]
    assert all(link.hash == digest(link.seq, link.at, link.entries, link.previous) for link in links)
