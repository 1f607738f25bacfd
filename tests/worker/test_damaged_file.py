"""The store's files are removed, replaced or cut under the process that uses them: it notices, and stops."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from standfast import Standfast, StoreUnavailable
from standfast.errors import ConfigurationError, StoreDamaged
from standfast.outcome import Succeeded
from standfast.store.sqlite.watch import Watch
from tests.store.suite import claim_one
from tests.store.suite import ended as settled
from tests.waiting import ended, job_of, seen
from tests.worker.inside import store_of

JOBS = 20
CHECKPOINT = "apsw.Connection(path).execute('PRAGMA wal_checkpoint({})').fetchall()"
DAMAGED = "removed, replaced or cut short while in use"


def remove_all(path: Path) -> None:
    """Delete the file and what SQLite keeps beside it, as `rm queue.db*` does."""
    for file in path.parent.glob("queue.db*"):
        if file.is_file():
            file.unlink()


def replace(path: Path) -> None:
    other = path.with_suffix(".other")
    other.write_bytes(path.read_bytes())
    other.rename(path)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def beside(path: Path, suffix: str) -> Path:
    return Path(f"{path}{suffix}")


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "all removed": (remove_all, "queue.db was removed"),
    "removed": (Path.unlink, "queue.db was removed"),
    "moved away": (lambda path: path.rename(path.with_suffix(".old")), "queue.db was removed"),
    "replaced": (replace, "queue.db was replaced by another file"),
    "cut": (cut, "queue.db was cut short"),
    "emptied": (lambda path: os.truncate(path, 0), "queue.db was cut short"),
    "WAL removed": (lambda path: beside(path, "-wal").unlink(), "queue.db-wal was removed"),
    "WAL replaced": (lambda path: replace(beside(path, "-wal")), "queue.db-wal was replaced"),
    "WAL cut": (lambda path: os.truncate(beside(path, "-wal"), 20_000), "queue.db-wal was cut short"),
    "WAL emptied": (lambda path: os.truncate(beside(path, "-wal"), 0), "queue.db-wal was cut short"),
    "index removed": (lambda path: beside(path, "-shm").unlink(), "queue.db-shm was removed"),
}


def in_another_process(code: str, path: Path) -> None:
    """Run a few statements: two SQLite libraries in one process would drop each other's locks."""
    subprocess.run([sys.executable, "-c", f"import sys, apsw; path = sys.argv[1]; {code}", str(path)], check=True)


@pytest.fixture
async def file(in_file, path) -> Path:
    """Give a store's file that a checkpoint has filled, with some more in the WAL."""
    for number in range(JOBS // 2):
        await in_file.enqueue("mail", number)
    in_another_process(CHECKPOINT.format("PASSIVE"), path)
    for number in range(JOBS // 2, JOBS):
        await in_file.enqueue("mail", number)
    return Path(path)


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.glob("queue.db*") if file.suffix != ".turn"}


@pytest.fixture(params=DAMAGE)
def damage(request) -> tuple[Callable[[Path], object], str]:
    return DAMAGE[request.param]


async def test_nothing_is_acknowledged_after_damage_and_health_says_so(in_file, file, damage):
    harm, words = damage
    harm(file)
    with pytest.raises(StoreDamaged, match=words) as refusal:
        await in_file.enqueue("mail", "later")
    assert refusal.value.definite
    assert "nothing was written: put the file back or restore a backup, then restart this process" in str(refusal.value)
    calls: list[str] = []
    receipt = await in_file.enqueue("mail", otherwise=lambda: calls.append("direct"))
    assert (receipt.outcome, calls) == ("fallback", ["direct"])
    with pytest.raises(StoreDamaged):
        await in_file.jobs()
    health = await in_file.health()
    assert health["status"] == "degraded"
    assert words in health["issues"][0]
    assert not (await in_file.measures()).store_up


@pytest.mark.parametrize("name", ["replaced", "cut", "emptied", "WAL cut", "WAL emptied", "WAL replaced"])
async def test_nothing_is_written_into_the_ruin(in_file, file, name):
    DAMAGE[name][0](file)
    before = contents(file)
    with pytest.raises(StoreDamaged):
        await in_file.enqueue("mail", "later")
    await in_file.close()
    after = contents(file)
    del after["queue.db-damaged"]
    assert {name: text for name, text in after.items() if not name.endswith("-shm")} == {
        name: text for name, text in before.items() if not name.endswith("-shm")
    }


@pytest.mark.parametrize("name", ["WAL removed", "index removed"])
async def test_what_was_in_a_deleted_wal_is_saved_by_the_process_that_had_it_open(in_file, file, name, path):
    DAMAGE[name][0](file)
    with pytest.raises(StoreDamaged):
        await in_file.enqueue("mail", "later")
    await in_file.close()
    async with Standfast(path) as again:
        assert sorted(job.payload for job in await again.jobs(limit=100)) == list(range(JOBS))
        assert any(DAMAGED in issue for issue in (await again.health())["issues"])


async def test_whatever_is_acknowledged_while_the_wal_is_deleted_is_there_afterwards(in_file, file, path):
    acknowledged: list[str] = []

    async def call() -> None:
        while True:
            try:
                receipt = await in_file.enqueue("mail")
            except StoreDamaged:
                return
            acknowledged.append(receipt.id)

    callers = [asyncio.create_task(call()) for _ in range(16)]
    await seen(lambda: len(acknowledged) > 100)
    beside(file, "-wal").unlink()
    await asyncio.gather(*callers)
    await in_file.close()
    async with Standfast(path) as again:
        for id_ in acknowledged:
            assert await again.status(id_) is not None


@pytest.mark.parametrize("name", ["all removed", "replaced", "WAL cut"])
async def test_after_a_restart_health_tells_that_jobs_may_be_lost(in_file, file, name, path):
    DAMAGE[name][0](file)
    with pytest.raises(StoreDamaged):
        await in_file.enqueue("mail", "later")
    await in_file.close()
    async with Standfast(path) as again:
        assert (await again.enqueue("mail", "after")).outcome == "accepted"
        assert any(DAMAGED in issue for issue in (await again.health())["issues"])


async def test_a_process_that_only_reads_notices_too(in_file, file):
    await asyncio.gather(*(in_file.jobs() for _ in range(5)))
    remove_all(file)
    with pytest.raises(StoreDamaged, match="was removed"):
        await in_file.jobs()


async def test_an_end_that_meets_the_damage_is_refused(in_file, file):
    claim = await claim_one(store_of(in_file))
    remove_all(file)
    with pytest.raises(StoreDamaged, match="was removed while this process used it; nothing was written"):
        await settled(store_of(in_file), claim, Succeeded())


async def test_a_worker_says_whose_ends_are_lost_and_stops_in_order(in_file, path, caplog):
    go, ran = asyncio.Event(), list[str]()

    @in_file.handler("mail")
    async def handler(job):
        ran.append(job.id)
        await go.wait()

    async with in_file.worker(grace=1):
        receipt = await in_file.enqueue("mail", 1)
        await seen(lambda: ran)
        remove_all(Path(path))
        go.set()
        await seen(lambda: f"the end of job {receipt.id}, complete, cannot be written" in caplog.text)
        with pytest.raises(StoreUnavailable):
            await in_file.enqueue("mail", 2)
    assert ran == [receipt.id]


async def test_a_commit_that_the_removal_overtook_is_called_doubtful(in_file, path, monkeypatch):
    await in_file.enqueue("mail", 1)
    in_place = Watch.in_place

    def removed_just_then(watch, *, whole=False):
        found = in_place(watch, whole=whole)
        if whole:
            Path(path).rename(f"{path}.old")
        return found

    monkeypatch.setattr(Watch, "in_place", removed_just_then)
    with pytest.raises(StoreDamaged, match="an earlier try may have been written") as refusal:
        await in_file.enqueue("mail", 2)
    assert not refusal.value.definite


async def test_a_file_that_is_gone_when_it_must_be_opened_anew_is_not_made_anew(in_file, file):
    store_of(in_file)._engine._drop_connection()  # noqa: SLF001 - as an I/O error does
    remove_all(file)
    with pytest.raises(StoreDamaged, match=r"queue\.db was removed"):
        await in_file.enqueue("mail", "later")
    assert not file.exists()


# --- what is no damage


async def test_a_checkpoint_by_another_process_is_no_damage(in_file, file):
    in_another_process(CHECKPOINT.format("TRUNCATE"), file)
    assert beside(file, "-wal").stat().st_size == 0
    for number in range(5):
        assert (await in_file.enqueue("mail", number)).outcome == "accepted"


async def test_a_vacuum_by_another_process_is_no_damage(in_file, file):
    wide = "c = apsw.Connection(path); c.execute('CREATE TABLE wide AS SELECT zeroblob(2000000)')"
    in_another_process(f"{wide}; {CHECKPOINT.format('TRUNCATE')}", file)
    await in_file.enqueue("mail", "sees it large")
    large = file.stat().st_size
    vacuum = "c = apsw.Connection(path); c.execute('DROP TABLE wide'); c.execute('VACUUM')"
    in_another_process(f"{vacuum}; {CHECKPOINT.format('TRUNCATE')}", file)
    assert file.stat().st_size < large
    for number in range(5):
        assert (await in_file.enqueue("mail", number)).outcome == "accepted"


async def test_work_goes_on_while_nothing_happens_to_the_files(in_file, file):
    @in_file.handler("mail")
    async def handler(job):
        return job.payload

    async with in_file.worker():
        assert (await ended(in_file, (await in_file.enqueue("mail", "ok")).id)).result == "ok"
    assert (await job_of(in_file, (await in_file.jobs())[0].id)).state == "completed"
    assert not beside(file, "-damaged").exists()


# --- opening what is left


def crashed(path: Path) -> None:
    """Leave a store as a process leaves it that was killed."""
    code = (
        "import os, sys; from standfast import Standfast; sf = Standfast(sys.argv[1]);"
        "[sf.enqueue_sync('mail', number) for number in range(3)]; os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_a_store_whose_wal_was_deleted_after_a_crash_is_refused_by_name(path):
    crashed(Path(path))
    beside(Path(path), "-wal").unlink()
    with pytest.raises(ConfigurationError, match=r"queue\.db-wal is missing.* accepted jobs may be lost; put it back"):
        Standfast(path).enqueue_sync("mail")


def test_a_wal_without_its_database_is_refused_by_name(path):
    crashed(Path(path))
    Path(path).unlink()
    with pytest.raises(ConfigurationError, match=r"queue\.db is missing, and .*queue\.db-wal, which may hold accepted"):
        Standfast(path).enqueue_sync("mail")
    assert not Path(path).exists()
