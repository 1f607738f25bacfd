"""Many processes on one store: nothing is claimed twice, nothing runs beside itself, nobody waits for a deadlock."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from standfast.application.wings import RIDERS, store_at
from standfast.job import NewJob
from standfast.lifecycle import Move, State, Transition
from standfast.spine import apply as scripts
from standfast.spine import claim as claiming
from standfast.spine import intake
from standfast.spine.apply import apply
from standfast.spine.claim_requests import ClaimRequest, Publication, QueueDemand
from standfast.spine.riders import KnownQueue
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import connect as pg_connect
from standfast.store.postgres.connection import opening
from standfast.store.postgres.driver import STATEMENTS, drive
from standfast.store.requests import Request
from standfast.store.scripts import Write
from standfast.store.steps import Round, Script
from standfast.store.store import Store
from standfast.store.waiting_requests import Line
from standfast.wings.jobs import scripts as operations
from standfast.wings.notices.journal import journal
from standfast.wings.queues import depth, publishing
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.threads import scripts as threads
from standfast.wings.threads.scripts import gate_of
from tests.faults import crowd
from tests.faults.nursery import Nursery, nursery, reported
from tests.postgres import connect, fresh_schema, in_schema, split_schema

pytestmark = pytest.mark.timeout(150)  # eight processes need some time where many others want the same two cores

FIND_DEADLOCKS = "options=-cdeadlock_timeout=100ms"
"""Has the server look for a deadlock long before anybody's patience ends: no deadlock is taken for a long wait."""
WAITED = "LockNotAvailable: "
"""What is logged by whoever waits for a lock for a second, as may happen where eight processes share two cores."""

Look = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    opened = store_at(postgres_url)
    opened.open()
    publishing.publish(opened, Publication(crowd.RULES, []))
    yield opened
    opened.close()


@pytest.fixture
def look(postgres_url: str) -> Iterator[Look]:
    with connect(postgres_url) as connection:
        yield lambda question: connection.execute(question.encode()).fetchall()


@pytest.fixture(scope="module")
def children() -> Iterator[Nursery]:
    with nursery() as started:
        yield started


def gathered(children: Nursery, url: str, place: Path, does: list[str], *, many: int = 4, jobs: int = 0) -> None:
    """Have so many processes do these things at once, beside one that follows the journal to its end."""
    follower = children.spawn(crowd.join, url, place, "follower", 0, ["follow"])
    crowd_ = [children.spawn(crowd.join, url, place, f"member-{n}", jobs, does) for n in range(many)]
    assert [child.wait(crowd.PATIENT) for child in crowd_] == [0] * many
    (place / "stop").touch()
    assert follower.wait() == 0


def told(place: Path, outcome: str) -> list[dict[str, Any]]:
    return [line for line in reported(place / "answered") if line["outcome"] == outcome]


# --- everything at once


@pytest.fixture(scope="module")
def after_the_crowd(shared_server: str, children: Nursery, tmp_path_factory: pytest.TempPathFactory):
    """Let a crowd do everything at once, then judge what is left from many sides."""
    url = in_schema(shared_server, fresh_schema())
    place = tmp_path_factory.mktemp("crowd")
    with closing(store_at(url)) as store:
        publishing.publish(store, Publication(crowd.RULES, []))
        gathered(children, f"{url}&{FIND_DEADLOCKS}", place, ["hand_in", "work", "keep_up"], jobs=60)
    with connect(url) as connection:
        yield place, lambda question: connection.execute(question.encode()).fetchall()
        connection.execute(f"DROP SCHEMA {split_schema(url)[1]} CASCADE".encode())


def test_nobody_met_a_deadlock_or_any_other_trouble(after_the_crowd):
    place, _ = after_the_crowd
    assert [line for line in reported(place / "logged") if WAITED not in line["message"]] == []
    assert len(reported(place / "ran")) > 200


def test_no_job_was_claimed_twice_under_one_token(after_the_crowd):
    place, _ = after_the_crowd
    starts = Counter((line["id"], line["token"]) for line in reported(place / "ran") if line["step"] == "start")
    assert [start for start, count in starts.items() if count > 1] == []
    assert all(line["landed"] for line in reported(place / "settled"))


def test_no_two_jobs_of_a_thread_ran_side_by_side(after_the_crowd):
    place, _ = after_the_crowd
    running: dict[str, str] = {}
    threads = 0
    for line in reported(place / "ran"):
        if line["gate"] is None:
            continue
        threads += 1
        if line["step"] == "start":
            assert line["gate"] not in running
            running[line["gate"]] = line["id"]
        else:
            assert running.pop(line["gate"]) == line["id"]
    assert threads > 100


def test_everything_accepted_ended_and_no_gate_is_left(after_the_crowd):
    place, look = after_the_crowd
    states = dict(look("SELECT b.id, j.state FROM job AS j JOIN body AS b ON b.n = j.n"))
    accepted = [line["id"] for line in told(place, "accepted")]
    assert len(accepted) > 100
    assert [job_id for job_id in accepted if states.get(job_id) not in ("completed", "cancelled", "dead")] == []
    assert states.keys() == set(accepted)
    assert look("SELECT key FROM gate") == []
    assert look("SELECT n FROM body WHERE n NOT IN (SELECT n FROM job)") == []


def test_what_was_collected_is_there_once_and_no_claimed_job_was_rewritten(after_the_crowd):
    place, look = after_the_crowd
    payloads = dict(look("SELECT b.id, b.payload FROM body AS b JOIN job AS j ON j.n = b.n"))
    assert [line for line in reported(place / "settled") if payloads[line["id"]] != line["payload"]] == []
    collected = Counter(
        item
        for (payload,) in look("SELECT b.payload FROM body AS b JOIN job AS j ON j.n = b.n WHERE j.queue = 'collect'")
        for item in json.loads(payload)
    )
    taken = [line["id"] for line in reported(place / "answered") if line["queue"] == "collect"]
    assert collected == Counter(taken)


def test_counters_say_exactly_what_happened(after_the_crowd):
    place, look = after_the_crowd
    counters = Counter[str]()
    for name, value in look(
        "SELECT name, value FROM counter UNION ALL SELECT name, sum(value)::bigint FROM counted GROUP BY queue, name"
    ):
        counters[name] += value
    assert counters["enqueued"] == len(told(place, "accepted"))
    assert counters["coalesced"] == len(told(place, "coalesced"))
    assert counters["claimed"] == len(reported(place / "settled"))


def test_who_follows_the_journal_sees_every_row_once_and_each_job_in_order(after_the_crowd):
    place, look = after_the_crowd
    rows = reported(place / "followed-follower")
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert look("SELECT count(*) FROM told") == [(0,)]
    lives = defaultdict(list)
    for row in rows:
        for kind, _, ids in json.loads(row["entries"]):
            for job_id in ids:
                lives[job_id].append(kind)
    accepted = {line["id"] for line in told(place, "accepted")}
    assert accepted <= lives.keys()
    for job_id in accepted:
        life = [kind for kind in lives[job_id] if kind != "coalesced"]
        assert life[0] == "enqueued", (job_id, life)
        claims, ends = life[1::2], life[2::2]
        assert set(claims) <= {"claimed", "cancelled"}, (job_id, life)
        assert set(ends) <= {"completed", "retry", "dead_letter", "cancelled"}, (job_id, life)


# --- one thing at a time


def test_a_key_that_many_hand_in_is_accepted_once(postgres_url, store, children, tmp_path):
    del store
    gathered(children, postgres_url, tmp_path, ["share_keys"])
    accepted = {line["key"]: line["id"] for line in told(tmp_path, "accepted")}
    assert len(accepted) == len(told(tmp_path, "accepted")) == 60
    duplicates = told(tmp_path, "duplicate")
    assert len(duplicates) == 3 * 60
    assert [line for line in duplicates if line["as"] != accepted[line["key"]]] == []
    assert reported(tmp_path / "logged") == []


def test_a_queue_takes_exactly_what_it_holds(postgres_url, store, children, tmp_path):
    del store
    gathered(children, postgres_url, tmp_path, ["fill"])
    accepted = Counter(line["queue"] for line in told(tmp_path, "accepted"))
    assert accepted == {queue: crowd.RULES[queue].max_depth for queue in ("small", "tiny")}
    assert reported(tmp_path / "logged") == []


async def test_a_claim_leaves_what_it_does_not_take_to_others(postgres_url, store):
    """Of five lanes one worker takes one job; while it has not committed, another finds the other four."""
    jobs = [NewJob(id=f"job-{n}", queue="plain", handler="first", payload="1", priority=n) for n in range(5)]
    await store.write_all(intake.enqueue, jobs)
    lanes = json.dumps([["first", n] for n in range(5)])
    among = {"queue": "plain", "lanes": lanes, "wanted": 1, "oldest": False}
    among |= {"boost": 0.0, "boost_cap": 0.0, "now": 0.0, "but": "[]", "beyond": 0}
    with connect(postgres_url) as other, other.transaction():
        [(numbers, _)] = other.execute(STATEMENTS["claim_lanes"].sql.encode(), among).fetchall()
        assert len(json.loads(numbers)) == 1
        catch = await store.claim(ClaimRequest("worker", (QueueDemand("plain", ("first",), 5),)))
        assert len(catch.claims) == 4


def interrupted(script: Script[Any], after: str, by: Callable[[], None]) -> Script[Any]:
    """Run a script, and have something else happen right after one of its statements."""
    rows: Any = None
    try:
        while True:
            step = script.send(rows)
            rows = yield step
            if step[0] == after:
                by()
    except StopIteration as done:
        return done.value


async def test_a_job_that_was_just_cancelled_does_not_take_its_thread(postgres_url, store, look):
    """A claim finds that a job of a thread is due; before it has locked the thread, the job is cancelled."""
    await store.write_all(
        intake.enqueue, [NewJob(id="gone", queue="never", handler="first", payload="1", thread_key="t", delay=0.01)]
    )
    [(n,)] = look("SELECT n FROM job")
    gate = gate_of("never", "t")
    cancelled = Transition(n, 0, "gone", "never", Move.CANCEL, State.QUEUED, gate=gate)
    address = Address.read(postgres_url)

    def cancel() -> None:
        assert store.write_all(apply, [cancelled]).result() == [True]

    def admit() -> None:
        with pg_connect(address) as connection:
            connection.execute(opening(address).encode())
            round_ = Round(store.now() + 1, 0.0, "", RIDERS)
            drive(connection, interrupted(threads.admit_due(round_, 10), "due_in_threads", cancel))
            connection.execute("COMMIT")

    await asyncio.to_thread(admit)
    assert look("SELECT key FROM gate") == []
    await store.write_all(
        intake.enqueue, [NewJob(id="next", queue="never", handler="first", payload="1", thread_key="t")]
    )
    catch = await store.claim(ClaimRequest("worker", (QueueDemand("never", ("first",), 5),)))
    assert [claim.id for claim in catch.claims] == ["next"]


async def test_who_follows_the_journal_misses_nothing_that_is_committed_late(postgres_url, store):
    """What began first and is committed last comes last, and comes."""
    before = await journal(store, 0, 10)
    after = before[0].seq if before else 0
    with connect(postgres_url) as slow:
        with slow.transaction():
            slow.execute(STATEMENTS["write_journal"].sql.encode(), {"now": 0.0, "entries": '["late"]'})
            await store.write_all(intake.enqueue, [NewJob(id="job", queue="plain", handler="first", payload="1")])
            [early] = await journal(store, after, 10)
        [late] = await journal(store, early.seq, 10)
    assert (late.seq, late.entries) == (early.seq + 1, '["late"]')


def test_queues_are_locked_in_one_order():
    known = {name: KnownQueue(max_depth=1) for name in ("small", "other", "tiny", "large")}
    steps: list[Any] = list(depth.lock({**known, "unlimited": KnownQueue()}))
    assert [given["queue"] for _, given in steps] == sorted(known)


def test_what_locks_what_all_use_has_a_round_of_its_own():
    line = Line()
    asked: list[Write[Any, Any]] = [
        intake.enqueue,
        queue_scripts.publish,
        operations.pause,
        claiming.claim,
        scripts.apply,
    ]
    for script in asked:
        line.put(Request(script, [], line.put))
    rounds = []
    while line.waiting:
        serving: list[Request[Any]] = []
        line.join(serving, 100)
        rounds.append([request.script for request in serving])
    assert rounds == [asked[:1], asked[1:2], asked[2:3], asked[3:]]


async def test_stores_in_two_schemas_do_not_wait_for_each_other(shared_server, store):
    """A thread of the same name in another schema is another thread."""
    other_url = in_schema(shared_server, fresh_schema())
    with ExitStack() as undo:
        other = store_at(other_url)
        other.open()
        undo.callback(other.close)
        gate = gate_of("never", "thread")
        with connect(other_url) as connection, connection.transaction():
            connection.execute(STATEMENTS["lock_gates"].sql.encode(), {"gates": json.dumps([gate])})
            job = NewJob(id="job", queue="never", handler="first", payload="1", thread_key="thread")
            assert [answer.outcome for answer in await store.write_all(intake.enqueue, [job])] == ["accepted"]
    with connect(other_url) as connection:
        connection.execute(f"DROP SCHEMA {split_schema(other_url)[1]} CASCADE".encode())
