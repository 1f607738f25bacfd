"""Handles on one file: one engine for a process, none beside it, none across a fork, and no wait without end."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sqlite3
import tempfile
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue

import apsw
import pytest

from standfast import Standfast
from standfast.application.wings import store_at
from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.spine import intake
from standfast.store.sqlite import neighbours
from standfast.store.sqlite.files import Files
from standfast.store.sqlite.watch import Watch
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.records import reads
from tests.store.suite import claimed, new_job, one, put

NOBODY = 65534


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "queue.db")


@pytest.fixture
def store(path):
    opened = store_at(path)
    opened.open()
    yield opened
    opened.close()


@pytest.fixture
def _impatient(monkeypatch):
    """Let callers give up sooner than in life."""
    monkeypatch.setattr("standfast.store.store.PATIENCE", 0.3)


def built(path):
    """Make a store's file."""
    store = store_at(path)
    store.open()
    store.close()


def ids_in(path):
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [job_id for (job_id,) in other.execute("SELECT id FROM body ORDER BY n")]


# --- one engine, and nothing beside it


def test_a_file_that_an_orm_has_open_is_refused(path):
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 0")
        with pytest.raises(ConfigurationError, match=r"queue\.db is already open in this process.*close that first"):
            store_at(path).open()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_file_that_something_reads_is_refused(path, suffix):
    Path(path + suffix).touch()
    with Path(path + suffix).open("rb"), pytest.raises(ConfigurationError, match=rf"{suffix} is already open"):
        store_at(path).open()


def test_a_refused_file_can_be_opened_when_the_other_let_go(path):
    Path(path).touch()
    refused = store_at(path)
    with Path(path).open("rb"), pytest.raises(ConfigurationError):
        refused.open()
    refused.open()
    refused.close()


async def test_two_on_one_path_share_an_engine_and_closing_one_keeps_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = Standfast(str(tmp_path / "queue.db")), Standfast("sqlite:///queue.db")
    await first.enqueue("mail", {"from": "first"})
    await second.enqueue("mail", {"from": "second"})
    await first.close()
    await second.enqueue("mail", {"from": "second, alone"})
    await second.close()
    await first.open()
    await first.enqueue("mail", {"from": "first, again"})
    assert [job.payload["from"] for job in await first.jobs()] == [
        "first, again",
        "second, alone",
        "second",
        "first",
    ]
    await first.close()


def test_one_may_close_while_another_opens(path):
    """The last user lets go in one thread just as a new one comes in another."""
    refusals = []

    def come_and_go():
        for _ in range(40):
            store = store_at(path)
            try:
                store.write_all(intake.enqueue, [new_job()]).result()
            except ConfigurationError as error:
                refusals.append(error)
            store.close()

    threads = [threading.Thread(target=come_and_go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refusals == []
    assert len(ids_in(path)) == 80


def test_a_fork_opens_a_handle_of_its_own(path, processes):
    """Whatever the children store after their parent has let go of the file must still be there."""
    [codes, busy] = processes.start("fork", path).hear()
    assert codes == [0, 0]
    found = ids_in(path)
    children = ("first", "second", "first, without its parent", "second, without its parent")
    assert set(found) == {"before", "parent", *children, *(f"busy-{number}" for number in range(1, busy + 1))}
    assert len(found) == 6 + busy


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_of_a_process_too_busy_to_pause_is_told(path, monkeypatch):
    """The engine is in a round that does not end: what the child inherits cannot be trusted, so it must not be used."""
    monkeypatch.setattr("standfast.store.engine.LONGEST_WAIT_FOR_PAUSE", 0.01)
    store = store_at(path)
    store.open()
    with store._engine._round:  # noqa: SLF001
        child = _fork_and_enqueue(store)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert put(store) == "accepted"
    store.close()


def _fork_and_enqueue(store):
    child = os.fork()
    if child:
        return child
    try:
        store.write_all(intake.enqueue, [new_job()]).result()
    except StoreUnavailable as error:
        os._exit(7 if error.definite and "start a new one" in str(error) else 8)
    os._exit(0)


def test_a_parent_that_reads_first_after_a_fork_finds_its_store_whole(path):
    """Before a fork every handle is closed, and the last to close removes the WAL: a new one is no damage."""
    store = store_at(path)
    store.open()
    engine = store._engine  # noqa: SLF001
    for _ in range(2):
        assert put(store) == "accepted"
        assert engine.pause()
        engine.resume()
        assert store.read(journal_scripts.last_journal_number()).result() > 0
        assert store.read(journal_scripts.last_journal_number()).result() > 0
    assert put(store) == "accepted"
    store.close()
    assert len(ids_in(path)) == 3


# --- beside the writer


async def test_a_reader_does_not_hold_the_writer_up_nor_see_what_it_writes(store):
    """A read that takes long: it keeps its snapshot, and writes go on beside it."""
    await one(store)
    counts, go_on, reading = [], threading.Event(), threading.Event()

    def read_slowly(connection, _):
        for _ in range(2):
            counts.append(connection.execute("SELECT count(*) FROM body").get)
            reading.set()
            go_on.wait()

    future = store._engine._files.read("", read_slowly)  # noqa: SLF001
    reading.wait()
    await one(store)
    go_on.set()
    future.result()
    assert counts == [1, 1]
    assert len(await claimed(store, slots=9)) == 2


async def test_what_is_being_written_does_not_hold_a_reader_up(store, processes, path):
    job_id = await one(store)
    processes.ready("hold_write_lock", path)
    assert await store.read(reads.job(job_id, store.boot())) is not None


# --- no wait without end


@pytest.mark.usefixtures("_impatient")
async def test_a_locked_store_is_told_in_time_and_nothing_was_written(store, processes, path):
    other = processes.ready("hold_write_lock", path)
    refused = new_job()
    with pytest.raises(StoreUnavailable, match="nothing was written, call again") as caught:
        await store.write_all(intake.enqueue, [refused])
    assert caught.value.definite
    with pytest.raises(StoreUnavailable) as caught:
        await asyncio.to_thread(store.write_all(intake.enqueue, [refused]).result)
    assert caught.value.definite
    other.go()
    assert other.hear() == ["released"]
    job_id = await one(store)
    assert [claim.id for claim in await claimed(store, slots=9)] == [job_id]


async def test_a_store_that_is_locked_when_it_is_opened_is_told_in_time(path, processes, monkeypatch):
    monkeypatch.setattr("standfast.store.sqlite.handle.BUSY_SECONDS", 0.1)
    monkeypatch.setattr("standfast.store.sqlite.sqlite_engine.LONGEST_OPENING", 0.3)
    built(path)
    processes.ready("hold_write_lock", path)
    sf = Standfast(path)
    with pytest.raises(StoreUnavailable, match="nothing was written: call again") as caught:
        await sf.enqueue("mail", {})
    assert caught.value.definite
    await sf.close()


async def test_a_store_that_is_locked_for_a_while_is_opened_when_it_is_free(path, processes, monkeypatch):
    """The lock outlasts several tries of opening, and not the caller's patience."""
    monkeypatch.setattr("standfast.store.sqlite.handle.BUSY_SECONDS", 0.02)
    built(path)
    tries: SimpleQueue[None] = SimpleQueue()
    opening = Files.open

    def open_counted(files: Files) -> apsw.Connection:
        tries.put(None)
        return opening(files)

    monkeypatch.setattr(Files, "open", open_counted)
    other = processes.ready("hold_write_lock", path)
    sf = Standfast(path)
    stored = asyncio.create_task(sf.enqueue("mail", {}))
    await asyncio.to_thread(lambda: [tries.get(timeout=10) for _ in range(3)])
    other.go()
    assert (await stored).outcome == "accepted"
    await sf.close()


async def test_whoever_is_frozen_with_the_baton_keeps_nobody_from_opening(path, processes):
    built(path)
    processes.ready("hold_baton", path)
    store = store_at(path)
    store.open()
    assert await store.read(journal_scripts.last_journal_number()) == 0
    store.close()


@pytest.mark.usefixtures("_impatient")
async def test_a_process_waits_its_turn(store, processes, path):
    """Whoever asks for the write lock holds the baton; the others wait for it, and go on when it is passed."""
    other = processes.ready("hold_baton", path)
    with pytest.raises(StoreUnavailable) as caught:
        await store.write_all(intake.enqueue, [new_job()])
    assert caught.value.definite
    other.go()
    other.leave()
    assert [(await store.write_all(intake.enqueue, [new_job()]))[0][1]] == ["accepted"]


@contextmanager
def ordinary_user():
    """Root may write everything; be somebody who may not."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(was)


@pytest.fixture
def theirs():
    """Give a directory of the ordinary user's, where every part of the path can be entered."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        if os.geteuid() == 0:
            os.chown(name, NOBODY, NOBODY)
        yield Path(name)


@pytest.mark.parametrize("locked", ["directory", "file", "directory of a file"])
def test_what_cannot_be_written_is_told_with_the_next_step(theirs, locked):
    """And once somebody took that step, it works."""
    path = theirs / "queue.db"
    with ordinary_user():
        if locked != "directory":
            built(str(path))
        place, mode = (path, 0o400) if locked == "file" else (theirs, 0o500)
        place.chmod(mode)
        with pytest.raises(StoreUnavailable, match="nothing was written: let this user write the file") as caught:
            store_at(str(path)).open()
        assert f"its directory {theirs}, or name another place" in str(caught.value)
        assert caught.value.definite
        place.chmod(0o700)
        store = store_at(str(path))
        assert put(store) == "accepted"
        store.close()


@pytest.mark.parametrize("name", ["a file/queue.db", "a file/below/queue.db"])
def test_a_directory_that_cannot_be_is_named_with_the_next_step(tmp_path, name):
    (tmp_path / "a file").touch()
    path = tmp_path / name
    with pytest.raises(StoreUnavailable, match="make it a directory, or name another place") as caught:
        store_at(str(path)).open()
    assert f"nothing was written: {path.parent} cannot be made or entered" in str(caught.value)


# --- the bell


def test_a_path_too_long_for_a_socket_gets_one_elsewhere(tmp_path):
    assert neighbours.bell_directory("/var/queue.db") == Path("/var/queue.db-wake")
    place = neighbours.bell_directory(str(tmp_path / ("x" * 100) / "queue.db"))
    assert place != neighbours.bell_directory(str(tmp_path / ("y" * 100) / "queue.db"))
    assert len(os.fsencode(place)) <= neighbours.LONGEST_SOCKET_PATH
    assert place.parent == Path(tempfile.gettempdir())


async def test_processes_hear_each_other_under_a_long_path(tmp_path, processes):
    path = str(tmp_path / ("x" * 100) / "queue.db")
    child = processes.ready("listen", path)
    store = store_at(path)
    await one(store)
    assert child.hear() == [{"mail": 0.0}]
    store.close()


async def test_stores_in_memory_do_not_hear_each_other(tmp_path, monkeypatch):
    """Nor do they leave anything on the disk."""
    monkeypatch.chdir(tmp_path)
    stores = [store_at(":memory:"), store_at(":memory:")]
    hints: list[SimpleQueue[dict[str, float]]] = [SimpleQueue(), SimpleQueue()]
    for store, heard in zip(stores, hints, strict=True):
        store.listen(heard.put)
    await one(stores[0], "mail")
    await one(stores[1], "chat")
    await one(stores[0], "news")
    assert [hints[0].get(), hints[0].get(), hints[1].get()] == [{"mail": 0.0}, {"news": 0.0}, {"chat": 0.0}]
    for store in stores:
        store.close()
    assert hints[0].empty()
    assert hints[1].empty()
    assert list(tmp_path.iterdir()) == []


async def test_a_hint_too_long_to_send_harms_nobody(store, processes, path):
    """More queues at once than a datagram can name: the others find the work by looking, and the writer lives."""
    processes.ready("listen", path)
    jobs = [new_job(f"{number:0200d}") for number in range(2000)]
    assert len(await store.write_all(intake.enqueue, jobs)) == 2000
    await one(store)


async def test_a_store_whose_bell_was_deleted_is_closed_all_the_same(path):
    store = store_at(path)
    store.listen(print)
    shutil.rmtree(neighbours.bell_directory(path))
    store.close()
    assert open_files(path) == []
    assert "standfast-bell" not in {thread.name for thread in threading.enumerate()}


async def test_where_no_bell_can_be_hung_work_goes_on(path):
    neighbours.bell_directory(path).write_text("in the way")
    store = store_at(path)
    store.listen(print)
    await one(store)
    store.close()
    assert open_files(path) == []


def open_files(path):
    """Give what this process has open of a store."""
    targets = [os.path.realpath(descriptor) for descriptor in Path("/proc/self/fd").iterdir()]
    return [target for target in targets if target.startswith(path)]


async def test_a_listener_that_died_is_forgotten(store, path):
    directory = neighbours.bell_directory(path)
    directory.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(str(directory / "dead"))
    await one(store)
    await one(store)  # the writer is past the first bell when it answers the second
    assert list(directory.iterdir()) == []


def test_a_wal_that_the_writer_removes_while_a_reader_looks_is_no_damage(tmp_path, monkeypatch):
    path = tmp_path / "queue.db"
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").touch()
    watch = Watch(str(path))
    watch.begin()
    wal = watch._files[1]  # noqa: SLF001 - the moment between two looks
    look = wal.look

    def closed_meanwhile() -> int | str:
        watch.database_only()
        Path(f"{path}-wal").unlink()
        return look()

    monkeypatch.setattr(wal, "look", closed_meanwhile)
    assert watch.moved() is None
