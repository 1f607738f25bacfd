"""`promote`: a live SQLite store moves to PostgreSQL, whole, once, and from any interruption."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg
import pytest

from standfast import ConfigurationError, IdempotencyConflict, JobView, Permanent, Standfast
from standfast.errors import StoreMoved
from standfast.settings import without_password
from standfast.store.job_tables import BY_NUMBER, KEYS
from standfast.store.migrations import migrations, missing
from standfast.testing import drain
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.scripts import Cause, Found
from standfast.wings.promote.tables import AUDIT, JOURNAL, WHOLE
from standfast.wings.promote.verbs import promote as promote_here
from tests.postgres import connect
from tests.waiting import ended, job_of, seen
from tests.warm import Warm, run_warm
from tests.worker.processes import Log, children, environment, terminate

PROMOTING = Path(__file__).with_name("promoting.py")
PRODUCING = Path(__file__).with_name("producing.py")
ROOT = Path(__file__).parents[2]
PASSWORD = "hunter2"  # noqa: S105 - whoever reaches the server is trusted, and any will do

STEPS = [
    *("begun", "copied", "keys", "journal", "compared"),
    *("stopped", "frozen", "tail", "compared", "ready", "closing", "moved", "live"),
]
"""What a promotion of a small store tells, in order."""


def command(source: str, target: str, **settings: Any) -> list[str]:
    return [sys.executable, str(PROMOTING), source, target, msgspec.json.encode(settings).decode()]


def paths() -> dict[str, str]:
    found = environment()
    return found | {"PYTHONPATH": f"{found['PYTHONPATH']}:{ROOT}"}


async def promote(source: str, target: str, **settings: Any) -> dict[str, Any]:
    """Promote in a process of its own, as the command does; give what it told, nothing if it was killed."""
    done = await asyncio.to_thread(run_warm, command(source, target, **settings), capture_output=True, env=paths())
    if done.returncode == -signal.SIGKILL:
        return {}
    assert done.returncode == 0, done.stderr.decode()
    told: dict[str, Any] = json.loads(done.stdout)
    return told


async def _fail(job: Any) -> None:
    job.progress(0.5, "half of it")
    if job.payload == "fails":
        raise Permanent("it cannot be")
    if job.payload == "again":
        raise ConnectionRefusedError


async def fill(sf: Standfast) -> None:
    """Leave something of everything: ended, dead, waiting for a repeat, delayed, in threads, with keys, paused."""
    sf.queue("mail", attempts=7, backoff=lambda _repeat: 600, keep_keys="3d")
    handler = sf.handler("mail", risk="high")(_fail)
    for payload in ("done", "fails", "again"):
        await handler.enqueue(payload, idempotency_key=payload, labels={"a": "b"})
    await sf.worker().run_due()
    dead = (await sf.dead_letters.list())[0]
    await sf.dead_letters.replay(dead.id, by="anna", reason="see")
    await sf.worker().run_due()
    for number in (1, 2, 3):
        await sf.enqueue("news", number, thread_key="t", coalesce="latest", idempotency_key=f"n{number}")
    sf.queue("threads", coalesce="never")
    for number in (1, 2):
        await sf.enqueue("threads", number, thread_key="t", expires=2_000_000_000)
    await sf.enqueue("mail", "later", delay=3600, priority=5)
    await sf.cancel((await sf.enqueue("mail", "unwanted")).id)
    await sf.queues.pause("news")
    await sf.schedules.add("often", "mail", every="2h")
    await sf.schedules.add("nightly", "mail", cron="0 2 * * *", tz="Europe/Berlin")
    plan = await sf.dead_letters.plan()
    await sf.dead_letters.redrive(plan["token"], by="anna", rate="1/h")


async def schedules(sf: Standfast) -> dict[str, Any]:
    """Give when schedules run next, to the second."""
    found = await sf.schedules.list()
    return {each["name"]: pytest.approx([run.timestamp() for run in each["next_runs"]], abs=1) for each in found}


async def redrives(sf: Standfast) -> list[tuple[Any, ...]]:
    """Give the redrives, and how far they are."""
    return [
        (each["id"], each["state"], each["waiting"], each["rate"]) for each in await sf.dead_letters.redrives.list()
    ]


def unlike(one: JobView, other: JobView) -> list[str]:
    """Name the fields two views differ in; moments are the same within the time that a message takes."""
    old, new = msgspec.to_builtins(one), msgspec.to_builtins(other)
    return [name for name in old if not alike(name, old[name], new[name])]


def alike(name: str, old: Any, new: Any) -> bool:
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(alike(name, *pair) for pair in zip(old, new, strict=True))
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(alike(key, old[key], new[key]) for key in old)
    if (name == "at" or name.endswith("_at")) and old is not None and new is not None:
        return abs(datetime.fromisoformat(old) - datetime.fromisoformat(new)) < timedelta(seconds=0.5)
    return bool(old == new)


@pytest.mark.parametrize("behind", [0.0, 100_000.0])
async def test_everything_arrives_as_it_was(in_file, path, home, postgres_url, behind):
    """Also where queue time and wall time are far apart: moments stay moments."""
    await in_file.open()
    await in_file.close()
    with apsw.Connection(path) as beside:
        beside.execute("UPDATE clock SET offset = offset - ?", (behind,))
        beside.execute("INSERT INTO tick VALUES ('nightly', 1700000000.25, 1700000000.5, 'job-1')")
    beside.close()
    await in_file.open()
    await fill(in_file)
    before = await in_file.jobs()
    old = await in_file.stats()
    driven = await redrives(in_file)
    runs = await schedules(in_file)
    told = await notices(in_file)
    chain = await in_file.audit.verify()
    done = await promote(path, postgres_url)
    assert done["steps"] == STEPS
    after = await home.jobs()
    assert [(state, waiting) for _, state, waiting, _ in driven] == [("running", 1)]
    assert await redrives(home) == driven
    assert {
        each["name"]: [run.timestamp() for run in each["next_runs"]] for each in await home.schedules.list()
    } == runs
    with connect(postgres_url) as there:
        assert there.execute("SELECT schedule, tick, job FROM tick").fetchall() == [("nightly", 1700000000.25, "job-1")]
    assert [job.id for job in after] == [job.id for job in before]
    assert {job.id: unlike(job, new) for job, new in zip(before, after, strict=True) if unlike(job, new)} == {}
    assert {job.state for job in after} == {"completed", "dead", "queued", "cancelled"}
    new = await home.stats()
    assert new["counters"] == old["counters"]
    assert await notices(home) == told
    unanchored = {"anchored": None, "anchored_from": None}
    assert await home.audit.verify() == {**chain, **unanchored}, "the chain is the same, and goes on"
    await home.dead_letters.replay((await home.dead_letters.list())[0].id, by="anna")
    longer = await home.audit.verify()
    assert (longer["ok"], longer["entries"]) == (True, chain["entries"] + 1)
    states = {state: found["jobs"] for state, found in done["account"]["states"].items()}
    assert states == {"completed": 1, "dead": 1, "queued": 5, "cancelled": 1}


async def notices(sf: Standfast) -> list[tuple[int, str, str | None]]:
    """Read what was told, up to the last thing that `fill` does."""
    found = []
    async for notice in sf.subscribe(after=0):
        found.append((notice.seq, notice.kind, notice.job))
        if notice.kind == "paused":
            return found
    raise AssertionError


async def test_the_new_home_goes_on_where_the_old_one_stood(in_file, path, home, postgres_url):
    await fill(in_file)
    numbers = [seq for seq, _, _ in await notices(in_file)]
    with apsw.Connection(path) as beside:
        beside.execute("DELETE FROM journal")  # as pruning may: the numbers must rise all the same
    beside.close()
    assert "account" in await promote(path, postgres_url)
    first = await home.enqueue("mail", "done", idempotency_key="done")
    assert (first.outcome, first.state) == ("duplicate", "completed")
    with pytest.raises(IdempotencyConflict):
        await home.enqueue("mail", "other", idempotency_key="fails")
    assert (await home.enqueue("news", 4, thread_key="t", coalesce="latest")).outcome == "coalesced"
    told = await asyncio.wait_for(anext(home.subscribe(after=numbers[-1])), 10)
    assert told.seq > numbers[-1]
    assert (await home.stats())["queues"]["news"]["paused"]
    ran: list[int] = []
    home.handler("threads")(lambda job: ran.append(job.payload))
    home.handler("news")(lambda job: ran.append(job.payload))
    await home.worker(["threads", "news"]).run_due()
    await home.worker(["threads", "news"]).run_due()
    assert ran == [1, 2], "in the thread's order, and nothing of the paused queue"
    fresh = await home.enqueue("other")
    assert (await home.jobs())[0].id == fresh.id, "newest first: numbers go on"


async def test_nothing_a_store_holds_is_forgotten(in_file, path, home, postgres_url):
    """Whoever adds a table or a column decides whether it moves."""
    await in_file.open()
    await home.open()
    copied = {table.name: set(table.columns) for table in (*BY_NUMBER, KEYS, JOURNAL, AUDIT, *WHOLE)}
    of_workers = {"driver", "driven_until"}  # whoever drove a redrive is gone: any worker of the new home may go on
    with apsw.Connection(path) as beside:
        tables = [name for (name,) in beside.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        here = {name: {column for _, column, *_ in beside.execute(f"PRAGMA table_info({name})")} for name in tables}
    beside.close()
    here["counter"].remove("at")  # in `tally`, of claims
    here["redrive"] -= of_workers
    stays = {"schema", "clock", "worker", "moving", "changed_job", "changed_key", "sqlite_sequence"}
    stays |= {"browser_session"}  # its cookies are for another address
    stays |= {"job_count"}  # the server counts what it was given: slots of time begin elsewhere there
    assert {name: columns for name, columns in here.items() if name not in stays} == {
        name: columns for name, columns in copied.items() if name != "tally"
    }
    with connect(postgres_url) as there:
        found = there.execute(
            "SELECT table_name, column_name FROM information_schema.columns JOIN information_schema.tables"
            " USING (table_schema, table_name) WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
        ).fetchall()
    new = {"schema", "worker", "told", "counted", "alias", "browser_session", "job_count", "job_counted"}
    there_only = {("redrive", column) for column in of_workers}
    assert {(name, column) for name, column in found if name not in new} - there_only == {
        (name, column) for name, columns in copied.items() for column in columns
    }


# --- in use


async def test_nothing_is_lost_or_doubled_under_load(path, log: Log, postgres_url, home):
    """Producers and a worker go on all the while. What was acknowledged is at the new home, and ran once."""

    async def nothing_runs() -> bool:
        return bool((await home.stats())["queues"]["mail"]["running"] == 0)

    sf = Standfast(path)
    await sf.enqueue_many("mail", [{"name": f"early-{number}"} for number in range(3000)])
    await sf.close()
    producers = [
        Warm([sys.executable, str(PRODUCING), path, str(log.path), name], env=paths()) for name in ("one", "two")
    ]
    with children(path, log):
        await seen(lambda: len(log.lines("accepted")) > 100 and len(log.lines("end")) > 100)
        told = await promote(path, postgres_url, block=200)
        assert "account" in told, told
        assert [await asyncio.to_thread(producer.wait, 20) for producer in producers] == [0, 0]
    accepted = {line.name for line in log.lines("accepted")} | {f"early-{number}" for number in range(3000)}
    ended_there = {line.name for line in log.lines("end")}
    assert ended_there < accepted, "the old worker had not run everything"
    with children(postgres_url, log):
        await seen(lambda: {line.name for line in log.lines("end")} >= accepted, within=40)
        await seen(nothing_runs, within=40)  # the last ends may not be on disk when their handlers have said so
    names = [line.name for line in log.lines("end")]
    assert len(names) == len(set(names))
    assert set(names) == accepted
    assert len(log.lines("moved")) == 2


async def test_what_runs_may_end_and_nothing_else_starts(in_file, path, log: Log, postgres_url, home):
    with children(path, log, concurrency=1):
        running = await in_file.enqueue("mail", {"name": "long", "do": 1.5})
        await seen(lambda: log.lines("start", "long"))
        waiting = await in_file.enqueue("mail", {"name": "next"})
        assert "account" in await promote(path, postgres_url)
    assert log.lines("end", "long")
    assert not log.lines("start", "next")
    assert (await job_of(home, running.id)).state == "completed"
    assert (await job_of(home, waiting.id)).state == "queued"


async def test_what_runs_too_long_is_waited_for_in_vain_and_all_goes_on(in_file, path, log: Log, postgres_url):
    with children(path, log, concurrency=2) as [worker]:
        await in_file.enqueue("mail", {"name": "hangs", "do": "hang"})
        await seen(lambda: log.lines("start", "hangs"))
        told = await promote(path, postgres_url, wait=0.5)
        assert "1 jobs still run after 0.5 s; nothing was moved" in told["refused"]
        await in_file.enqueue("mail", {"name": "after"})
        await seen(lambda: log.lines("end", "after"))
        worker.kill()
    assert marks(path) == ([("given_up",)], 0)


async def test_a_job_whose_worker_is_lost_moves_as_it_is_and_is_decided_there(
    in_file, path, log: Log, postgres_url, home
):
    with children(path, log, rules={"mail": {"lease": 1}}) as [worker]:
        lost = await in_file.enqueue("mail", {"name": "lost", "do": "hang"})
        await seen(lambda: log.lines("start", "lost"))
        worker.kill()
    assert "account" in await promote(path, postgres_url)
    assert (await job_of(home, lost.id)).state == "running"
    found: list[str] = []
    home.queue("mail", lease=1)
    home.handler("mail")(lambda job: found.append(job.id))
    async with home.worker():
        done = await ended(home, lost.id, within=30)
    assert found == [lost.id]
    assert [line.reason_code for line in done.history] == ["worker_lost"]


# --- interrupted


def marks(path: str) -> tuple[list[Any], int]:
    """Look at what a promotion left in the file: its mark's state, and how many triggers."""
    with apsw.Connection(path) as beside:
        state = beside.execute("SELECT state FROM moving").fetchall()
        [(triggers,)] = beside.execute(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'promote_%'"
        )
    beside.close()
    return state, triggers


@pytest.mark.parametrize("step", [pytest.param(step, id=f"{step} {name}") for step, name in enumerate(STEPS)])
async def test_killed_at_any_step_it_can_be_run_again(path, postgres_url, step):
    """At every moment at most one of the two takes work, and what it took is there in the end."""
    old, new = Standfast(path), Standfast(postgres_url)
    await fill(old)
    assert await promote(path, postgres_url, kill_at=step) == {}
    ids = {job.id for job in await jobs_or_nothing(old)}
    accepted = await accepted_by(old)
    moved = STEPS[step] in {"moved", "live"}
    assert (accepted is None) == moved
    assert takes_work(postgres_url) == (STEPS[step] == "live")
    again = await promote(path, postgres_url)
    assert "account" in again, again
    assert ids | ({accepted} - {None}) <= {job.id for job in await new.jobs()}
    assert await accepted_by(old) is None
    assert takes_work(postgres_url)
    if moved:
        assert (await promote(path, postgres_url))["account"] == again["account"], "told once more"
    await old.close()
    await new.close()


def takes_work(url: str) -> bool:
    """Tell whether the store at its new place lets others write."""
    with connect(url) as beside:
        try:
            beside.execute("UPDATE upkeep SET at = at")
        except psycopg.errors.CannotConnectNow:
            return False
    return True


async def accepted_by(sf: Standfast) -> str | None:
    try:
        return (await sf.enqueue("mail", "while")).id
    except StoreMoved:
        return None


async def jobs_or_nothing(sf: Standfast) -> list[Any]:
    try:
        return await sf.jobs()
    except StoreMoved:
        return []


async def test_what_an_interrupted_promotion_left_is_cleared_away_by_whoever_writes_next(path, postgres_url):
    old = Standfast(path)
    await fill(old)
    await promote(path, postgres_url, kill_at=STEPS.index("stopped") + 1, heard_of_within=0.5, no_claims_for=0.5)
    assert marks(path)[1] == 3 * len((*BY_NUMBER, KEYS)), "a trigger for each verb"
    old.queue("mail", attempts=7)

    async def cleared() -> bool:
        await old.enqueue("mail", "x")
        return marks(path) == ([("interrupted",)], 0)

    await seen(cleared)
    async with old.worker():
        await ended(old, (await old.enqueue("mail", "done")).id)
    await old.close()
    assert "account" in await promote(path, postgres_url)


# --- compared

TAMPERINGS = {
    "a payload": "UPDATE body SET payload = '\"other\"' WHERE n = 1",
    "a state": "UPDATE job SET state = 'cancelled' WHERE n = 1",
    "an ending": "UPDATE ending SET result = '7' WHERE n = 2",
    "a history line": "UPDATE history SET entry = '{}' WHERE n = 2 AND line = 1",
    "a lost job": "DELETE FROM job WHERE n = 1",
    "a lost body": "DELETE FROM body WHERE n = 1",
    "a job too many": "INSERT INTO job (n, queue, handler, priority, state, due_at, entered_at)"
    " VALUES (500, 'mail', 'mail', 0, 'queued', 0, 0)",
    "a key": "UPDATE idempotency SET fingerprint = 'x' WHERE key = 'done'",
    "a key too many": "INSERT INTO idempotency VALUES ('mail', 'zz', 'x', 'x')",
}


@pytest.mark.parametrize(
    ("step", "tampering"),
    [("journal", "a payload"), ("stopped", "a lost job"), *(("tail", each) for each in TAMPERINGS)],
)
async def test_a_copy_that_differs_is_not_moved_to(in_file, path, postgres_url, step, tampering):
    """Also where it was compared ahead, and changed afterwards."""
    await fill(in_file)
    told = await promote(path, postgres_url, tamper_at=step, tamper=TAMPERINGS[tampering])
    assert "the copy differs from the store" in told["refused"]
    await in_file.enqueue("mail", "goes on")
    assert marks(path) == ([("given_up",)], 0)


# --- afterwards


def with_password(url: str) -> str:
    return url.replace("postgres@", f"postgres:{PASSWORD}@", 1)


VERBS: dict[str, Callable[[Standfast, str], Awaitable[Any]]] = {
    "enqueue": lambda sf, _: sf.enqueue("mail", 1),
    "enqueue_sync": lambda sf, _: asyncio.to_thread(sf.enqueue_sync, "mail", 1),
    "enqueue_many": lambda sf, _: sf.enqueue_many("mail", [1, 2]),
    "enqueue_http": lambda sf, _: sf.enqueue_http("mail", "POST", "https://a.example/"),
    "status": lambda sf, job: sf.status(job),
    "wait": lambda sf, job: sf.wait(job, 1),
    "result": lambda sf, job: sf.result(job),
    "jobs": lambda sf, _: sf.jobs(),
    "explain": lambda sf, job: sf.explain(job),
    "retry": lambda sf, job: sf.retry(job),
    "cancel": lambda sf, job: sf.cancel(job),
    "stats": lambda sf, _: sf.stats(),
    "health": lambda sf, _: sf.health(),
    "subscribe": lambda sf, _: anext(sf.subscribe(after=0)),
    "backup": lambda sf, _: sf.backup(f"{sf.settings.url.value}.backup"),
    "queues.pause": lambda sf, _: sf.queues.pause("mail"),
    "queues.resume": lambda sf, _: sf.queues.resume("mail"),
    "queues.list": lambda sf, _: sf.queues.list(),
    "letters": lambda sf, _: sf.dead_letters.list(),
    "replay": lambda sf, job: sf.dead_letters.replay(job, by="anna"),
    "worker": lambda sf, _: sf.worker().run_due(),
}


async def test_every_verb_of_the_old_store_names_the_new_home(in_file, path, postgres_url):
    """For who has it open, and for who opens it now. Nothing goes to a fallback that would hide it."""
    await fill(in_file)
    job = (await in_file.jobs())[0].id
    url = with_password(postgres_url)
    assert "account" in await promote(path, url)
    fresh = Standfast(path)
    fresh.queue("mail")
    called: list[int] = []
    for sf in (in_file, fresh):
        for name, verb in VERBS.items():
            with pytest.raises(StoreMoved) as refused:
                await verb(sf, job)
            assert refused.value.definite, name
            assert without_password(url) in str(refused.value), name
            assert PASSWORD not in str(refused.value)
        with pytest.raises(StoreMoved):
            await sf.enqueue("mail", 1, otherwise=lambda: called.append(1))
    with pytest.raises(StoreMoved):
        await fresh.migrate()
    assert called == []
    report = await fresh.doctor()
    assert not report["ok"]
    assert without_password(url) in str(report)
    assert PASSWORD not in str(report)
    await fresh.close()


async def test_a_worker_of_the_old_store_starts_nothing_more_and_stops_when_asked(in_file, path, log, postgres_url):
    with children(path, log) as [worker]:
        await ended(in_file, (await in_file.enqueue("mail", {"name": "before"})).id)
        assert "account" in await promote(path, postgres_url)
        terminate(worker)
        _, errors = await asyncio.to_thread(worker.communicate, timeout=20)
        assert worker.returncode == 0, errors


async def test_an_older_library_is_kept_away_too(in_file, path, postgres_url):
    """One that has the store open meets triggers, one that opens it the schema's number."""
    await fill(in_file)
    await in_file.close()
    assert "account" in await promote(path, postgres_url)
    with apsw.Connection(path) as beside:
        for sql in (
            "INSERT INTO queue (name) VALUES ('x')",
            "UPDATE job SET token = token + 1",
            "DELETE FROM idempotency",
        ):
            with pytest.raises(apsw.ConstraintError, match="this store has moved to postgresql:"):
                beside.execute(sql)
        [(version, readable_by)] = beside.execute("SELECT version, readable_by FROM schema")
    beside.close()
    with pytest.raises(ConfigurationError, match="upgrade standfast"):
        missing(migrations("sqlite")[:1], version, readable_by, path)


# --- refused


async def test_a_target_that_is_not_empty_is_refused(in_file, path, postgres_url, home):
    await in_file.enqueue("mail", 1)
    kept = await home.enqueue("mail", 2)
    told = await promote(path, postgres_url)
    assert "is not empty" in told["refused"]
    assert (await home.jobs())[0].id == kept.id
    assert await accepted_by(home) is not None
    assert await accepted_by(in_file) is not None


async def test_a_store_that_another_one_moved_to_is_refused(tmp_path, in_file, path, postgres_url, home):
    await in_file.enqueue("mail", 1)
    await promote(path, postgres_url, kill_at=2)
    other = Standfast(str(tmp_path / "other.db"))
    await other.enqueue("mail", 2)
    assert "holds another promoted store" in (await promote(other.settings.url.value, postgres_url))["refused"]
    assert "account" in await promote(path, postgres_url)
    assert [job.payload for job in await home.jobs()] == [1]
    assert "holds another promoted store" in (await promote(other.settings.url.value, postgres_url))["refused"]
    assert await accepted_by(other) is not None
    await other.close()


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        (":memory:", "postgresql://localhost/x", "in memory"),
        ("absent.db", "postgresql://localhost/x", "there is no store"),
        ("{path}", "sqlite:///other.db", "promoted to postgresql"),
    ],
)
async def test_what_cannot_be_promoted_is_refused(in_file, path, source, target, why):
    await in_file.enqueue("mail", 1)
    await in_file.close()
    with pytest.raises(ConfigurationError, match=why):
        promote_here(source.format(path=path), target)
    await in_file.open()
    assert await accepted_by(in_file) is not None


@pytest.mark.parametrize("ends", [True, False])
async def test_of_two_promotions_the_later_goes_on(in_file, path, postgres_url, ends):
    """The earlier finds its mark taken away, also where the later one was interrupted in its turn."""
    await fill(in_file)
    lock = f"SELECT pg_advisory_lock(hashtext('{postgres_url}'))"
    with connect(postgres_url) as holder:
        holder.execute(lock)
        first = asyncio.create_task(promote(path, postgres_url, tamper_at="keys", tamper=lock))
        await seen(lambda: waits_for_a_lock(postgres_url))
        later = await promote(path, f"{postgres_url}2", kill_at=None if ends else 1)
    assert ("account" in later) == ends
    told = await first
    assert told["kind"] == ("StoreMoved" if ends else "StoreUnavailable")
    assert ("moved to" if ends else "another one began") in told["refused"]
    assert (await accepted_by(in_file) is None) == ends
    with connect(postgres_url) as beside:
        beside.execute(f"DROP SCHEMA {postgres_url.rpartition('=')[2]}2 CASCADE")


def waits_for_a_lock(url: str) -> bool:
    with connect(url) as beside:
        waiting = beside.execute(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND strpos(query, %s) > 0", (url,)
        )
        return waiting.fetchone() is not None


async def test_inboxes_consents_and_alerts_are_everywhere_on_arrival(in_file, path, home, postgres_url):
    @in_file.handler("mail", consent=True)
    async def mail(_job):
        raise Permanent("no")

    await in_file.consent.grant("s", mail, by="anna")
    await in_file.enqueue_many("mail", [1, 2], session="s")
    await drain(in_file)
    found = Found("notify", 7, (Cause(5, "cause", ("ops",), "{}"),))
    await in_file._store.write(alerts.follow, found)  # noqa: SLF001
    before = await _of_session(in_file)
    await promote(path, postgres_url)
    assert await _of_session(home) == before
    assert [len(rows) for rows in before] == [1, 1, 2]
    assert await home._store.read(alerts.followed("notify")) == 7  # noqa: SLF001
    assert [each.number for each in await home._store.read(alerts.due(home._store.now()))] == [1]  # noqa: SLF001


async def _of_session(sf):
    """Give what is known of a session but for the times: two clocks are not one."""
    rows = [await sf.consent.list("s"), await sf.consent.asks("s"), await sf.inbox.list("s")]
    return [
        [{**row, **{name: None for name in row if name in {"at", "history"} or name.endswith("_at")}} for row in each]
        for each in rows
    ]
