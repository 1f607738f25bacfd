"""Backup of a live store, and restore: nothing completed runs again, and what may have run since waits for a person."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from standfast import ConfigurationError, Standfast, StoreUnavailable, Transient
from standfast.application.wings import store_at
from standfast.store.sqlite import backup as backup_module
from standfast.testing import memory
from standfast.wings.backup.verbs import restore
from tests.counts import wrong_counts
from tests.waiting import failure_of, job_of, reached
from tests.worker.inside import publish_elsewhere


@pytest.fixture
def url(path):
    """Name a file: this is about SQLite."""
    return path


@pytest.fixture
def copy(tmp_path):
    return str(tmp_path / "backup.db")


@pytest.fixture
def again(tmp_path):
    """Where a backup is restored to."""
    return str(tmp_path / "again.db")


def states(told):
    return dict(sorted(told["states"].items()))


async def filled(sf: Standfast) -> dict[str, str | None]:
    """Give a store jobs in every state, and their ids."""

    @sf.handler("mail")
    async def mail(job):
        match job.payload:
            case "dies":
                raise Transient("no")
            case "runs":
                await asyncio.sleep(600)

    ids = {what: (await sf.enqueue("mail", what, attempts=1)).id for what in ("done", "dies", "runs")}
    async with sf.worker(grace=0):
        for what, state in (("done", "completed"), ("dies", "dead"), ("runs", "running")):
            await reached(sf, ids[what], state)
        await sf.queues.pause("mail")
        ids["waits"] = (await sf.enqueue("mail", "waits", idempotency_key="k")).id
        ids["later"] = (await sf.enqueue("mail", "later", delay=3600)).id
        ids["thread"] = (await sf.enqueue("mail", "thread", thread_key="t")).id
        told = await sf.backup(ids_path(sf))
        assert states(told) == {"completed": 1, "dead": 1, "queued": 3, "running": 1}
        assert (told["jobs"], told["keys"]) == (6, 1)
    return ids


def ids_path(sf: Standfast) -> str:
    return str(Path(sf.settings.url.value).with_name("backup.db"))


async def test_a_backup_is_one_file_for_its_owner_only_and_whole(disk, copy, tmp_path):
    await filled(disk)
    assert {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.glob("backup.db*")} == {
        "backup.db": 0o600
    }
    with sqlite3.connect(copy) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert opened.execute("PRAGMA journal_mode").fetchone() == ("delete",)  # so that it can be read where it lies
        assert opened.execute("SELECT count(*) FROM job").fetchone() == (6,)
    opened.close()


async def test_what_would_run_comes_back_held_and_the_rest_as_it_was(disk, copy, again):
    ids = await filled(disk)
    told = restore(again, copy, store_at)
    assert told["held"] == 4
    async with Standfast(again) as sf:
        for what in ("runs", "waits", "later", "thread"):
            job = await job_of(sf, ids[what])
            failure = failure_of(job)
            assert (job.state, failure.reason_code, failure.landed, job.payload) == ("held", "restored", "maybe", what)
            assert job.triage is not None
            assert job.triage.replay_status == "pending_review"
            assert job.history[-1].reason_code == "restored"
        assert (await job_of(sf, ids["done"])).state == "completed"
        assert (await job_of(sf, ids["dies"])).reason == "max_attempts"
        assert (await sf.health())["total_dead_letter"] == 5
        assert await wrong_counts(sf) == []
        assert (await sf.stats())["counters"]["held"] == 4


async def test_a_restored_store_runs_nothing_by_itself_and_what_a_person_replays(disk, copy, again):
    ids = await filled(disk)
    restore(again, copy, store_at)
    ran: list[str] = []
    async with Standfast(again) as sf:
        sf.handler("mail")(lambda job: ran.append(job.payload))
        await sf.queues.resume("mail")
        await sf.worker().run_due()
        assert ran == []
        prints = {(await job_of(sf, ids[what])).fingerprint for what in ("waits", "thread")}
        assert len(prints - {None}) == 1, "what was restored is one group"
        for what in ("waits", "thread"):
            await sf.dead_letters.replay(ids[what] or "", by="ann")
        await sf.worker().run_due()
        assert sorted(ran) == ["thread", "waits"]


async def test_sessions_hear_of_what_was_held_for_them(disk, copy, again):
    """Also of what was never begun: whoever waits for it must hear that it does not go on by itself."""
    waits = await disk.enqueue("mail", 1, session="s")
    await publish_elsewhere(disk, "mail")
    await disk.submit("mail", 2, session="s")
    await disk.enqueue("mail", 3)
    await disk.backup(copy)
    restore(again, copy, store_at)
    async with Standfast(again) as sf:
        found = {each["kind"]: each for each in await sf.inbox.list("s")}
        assert {*found} == {"retry_exhausted", "submit_failed"}
        told = found["retry_exhausted"]
        assert (told["job_id"], told["state"], told["reason_code"]) == (waits.id, "held", "restored")
        assert "restored from backup.db" in told["message"]
    restore(f"{again}.run", copy, store_at, run=True)
    async with Standfast(f"{again}.run") as sf:
        assert await sf.inbox.list("s") == [], "what goes on is no news"


async def test_a_held_job_does_not_stand_in_the_way_of_its_thread(disk, copy, again):
    disk.queue("mail", coalesce="never")
    first, second = [(await disk.enqueue("mail", number, thread_key="t")).id for number in (1, 2)]
    await disk.backup(copy)
    restore(again, copy, store_at)
    ran: list[int] = []
    async with Standfast(again) as sf:
        sf.handler("mail")(lambda job: ran.append(job.payload))
        await sf.dead_letters.replay(second or "", by="ann")
        await sf.worker().run_due()
        assert ran == [2]
        assert (await job_of(sf, first)).state == "held"


@pytest.mark.parametrize("run", [False, True])
async def test_the_audit_chain_comes_along_and_says_that_it_was_restored(disk, copy, again, run):
    ids = await filled(disk)
    await disk.dead_letters.replay(ids["dies"] or "", by="ann")
    copy = f"{copy}.later"
    await disk.backup(copy)
    restore(again, copy, store_at, run=run)
    assert not Path(f"{again}.unfinished-audit").exists()  # noqa: ASYNC240 - a moment
    Path(f"{again}-left-audit").touch()  # noqa: ASYNC240 - likewise
    with pytest.raises(ConfigurationError, match="nothing was overwritten"):
        restore(f"{again}-left", copy, store_at)
    async with Standfast(again) as sf:
        *before, restored = await sf.audit.entries()
        assert before == await disk.audit.entries()
        assert {entry["kind"] for entry in before} == {"pause", "replay"}
        assert (restored["kind"], restored["detail"]) == ("restore", {"backup": "backup.db.later"})
        found = await sf.audit.verify()
        assert (found["ok"], found["entries"], found["anchored"]) == (True, len(before) + 1, len(before) + 1)


async def test_with_run_it_goes_on_and_completed_work_is_not_run_again(disk, copy, again):
    ids = await filled(disk)
    assert restore(again, copy, store_at, run=True)["held"] == 0
    ran: list[str] = []
    async with Standfast(again) as sf:
        sf.handler("mail")(lambda job: ran.append(job.payload))
        await sf.queues.resume("mail")
        await sf.worker().run_due()
        assert sorted(ran) == ["thread", "waits"]
        assert (await job_of(sf, ids["runs"])).state == "running"  # its lease lapses in its time


async def test_keys_come_along(disk, copy, again):
    ids = await filled(disk)
    restore(again, copy, store_at)
    async with Standfast(again) as sf:
        assert (await sf.enqueue("mail", "waits", idempotency_key="k")) == (ids["waits"], "duplicate", "held")


async def test_writes_go_on_meanwhile_and_the_copy_is_one_moment(disk, copy, again):
    await disk.enqueue_many("mail", ["x" * 1000] * 2000)
    enough = asyncio.Event()
    stored = 0

    async def keep_enqueueing() -> None:
        nonlocal stored
        while not enough.is_set():
            await disk.enqueue_many("mail", [1, 2])
            stored += 1

    writing = asyncio.create_task(keep_enqueueing())
    told = await disk.backup(copy)
    enough.set()
    await writing
    assert stored
    assert told["jobs"] % 2 == 0  # no transaction is torn
    assert restore(again, copy, store_at)["held"] == told["jobs"]


async def test_nothing_is_overwritten(disk, copy, again):
    await disk.enqueue("mail")
    await disk.backup(copy)
    with pytest.raises(ConfigurationError, match="already exists"):
        await disk.backup(copy)
    restore(again, copy, store_at)
    with pytest.raises(ConfigurationError, match="already exists"):
        restore(again, copy, store_at)
    with pytest.raises(ConfigurationError, match="in use by process"):
        restore(disk.settings.url.value, copy, store_at)
    with pytest.raises(ConfigurationError, match="to a file"):
        restore(":memory:", copy, store_at)


async def test_a_copy_that_differs_is_not_reported_and_not_left(disk, copy, tmp_path, monkeypatch):
    await disk.enqueue("mail")
    counted = iter([{"jobs": 1}, {"jobs": 0}])
    monkeypatch.setattr("standfast.store.sqlite.sqlite_engine.drive", lambda *_: next(counted))
    with pytest.raises(StoreUnavailable, match="differs from the store"):
        await disk.backup(copy)
    monkeypatch.undo()
    assert list(tmp_path.glob("backup.db*")) == []
    assert (await disk.backup(copy))["jobs"] == 1


@pytest.mark.parametrize("content", [None, b"", b"no database at all" * 100])
async def test_what_is_no_backup_is_refused_and_leaves_nothing(tmp_path, again, content):
    bad = tmp_path / "bad.db"
    if content is not None:
        bad.write_bytes(content)
    with pytest.raises(ConfigurationError, match="backup"):
        restore(again, bad, store_at)
    assert not list(tmp_path.glob("again.db*"))


async def test_another_programs_database_is_no_backup(tmp_path, again):
    foreign = sqlite3.connect(tmp_path / "shop.db")
    foreign.execute("CREATE TABLE orders (number INTEGER)")
    foreign.close()
    with pytest.raises(ConfigurationError, match="another program"):
        restore(again, tmp_path / "shop.db", store_at)


async def test_a_store_in_memory_is_backed_up_too(copy, again):
    sf = memory()
    await sf.enqueue("mail", 1)
    assert (await sf.backup(copy))["jobs"] == 1
    assert restore(again, copy, store_at)["held"] == 1


async def test_a_restore_that_was_interrupted_leaves_no_store_and_does_not_stand_in_the_way(
    disk, copy, again, tmp_path, monkeypatch
):
    await disk.enqueue("mail")
    await disk.backup(copy)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backup_module, "_name", interrupted)
    with pytest.raises(KeyboardInterrupt):
        restore(again, copy, store_at)
    monkeypatch.undo()
    assert list(tmp_path.glob("again.db")) == []
    assert restore(again, copy, store_at)["held"] == 1
    assert [each.name for each in tmp_path.glob("again.db*")] == ["again.db"]


LIVE = """
import sys
from standfast import Standfast
Standfast(sys.argv[1]).enqueue_sync("mail")
print("open", flush=True)
input()
"""


@contextmanager
def open_elsewhere(path: str) -> Iterator[int]:
    """Have another process use a store; give its number."""
    piped = subprocess.PIPE
    live = subprocess.Popen([sys.executable, "-c", LIVE, path], stdin=piped, stdout=piped, text=True)
    assert live.stdout is not None
    assert live.stdout.readline() == "open\n"
    yield live.pid
    live.communicate("\n")


def refused(target: str, copy: str) -> str:
    with pytest.raises(ConfigurationError) as error:
        restore(target, copy, store_at)
    return str(error.value)


@pytest.mark.parametrize("removed", [False, True], ids=["in place", "deleted"])
async def test_a_backup_is_not_restored_over_a_store_that_a_process_has_open(disk, copy, again, removed):
    """Also where its file is gone: the process still writes to it, and must be stopped first."""
    await disk.enqueue("mail")
    await disk.backup(copy)
    with open_elsewhere(again) as pid:
        if removed:
            for file in [each for each in Path(again).parent.glob("again.db*") if each.is_file()]:
                file.unlink()
        assert f"is in use by process {pid} (python" in refused(again, copy)
    if removed:
        assert restore(again, copy, store_at)["jobs"] == 1
    else:
        assert "already exists, and nothing was overwritten" in refused(again, copy)
