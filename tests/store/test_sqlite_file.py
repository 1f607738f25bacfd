"""The SQLite file itself: which engine, which settings, whose file, which schema, and who may read it."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from standfast.application.wings import store_at
from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.spine import intake
from standfast.store.places import sqlite_path
from standfast.store.sqlite import handle, neighbours
from standfast.store.sqlite.file_schema import migrations
from standfast.store.sqlite.handle import SETTINGS, check_engine_version, check_file_system
from tests.store.suite import catch, enqueued, new_job, put

NEWEST = migrations()[-1].number


@pytest.fixture
def path(tmp_path):
    return tmp_path / "queue.db"


@pytest.fixture
def change():
    """Change files by hand, with the library's own SQLite, while no store has them open."""

    def execute(path, *statements):
        with closing(apsw.Connection(str(path))) as opened:
            for statement in statements:
                opened.execute(statement)

    return execute


def built(path):
    """Make a store's file."""
    store = store_at(str(path))
    store.open()
    store.close()
    return path


# --- which engine


@pytest.mark.parametrize("version", ["3.44.6", "3.44.9", "3.50.7", "3.51.3", "3.51.10", "3.52.0", "3.54.1", "4.0.0"])
def test_an_engine_that_keeps_what_it_acknowledged_is_accepted(version):
    assert check_engine_version(version) == version


@pytest.mark.parametrize(
    "version", ["3.40.1", "3.44.5", "3.45.0", "3.49.9", "3.50.0", "3.50.6", "3.51", "3.51.0", "3.51.2", "3.7.17"]
)
def test_an_engine_that_can_lose_commits_is_refused(version):
    with pytest.raises(ConfigurationError, match=f"SQLite {version} can lose acknowledged work; install apsw"):
        check_engine_version(version)


def test_the_engine_is_checked_before_the_file_is_touched(path, monkeypatch):
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.50.4")
    with pytest.raises(ConfigurationError, match=r"SQLite 3\.50\.4"):
        store_at(str(path)).open()
    assert not path.exists()


# --- which settings


async def test_every_connection_has_every_setting(path):
    store = store_at(str(path))
    store.open()
    engine: Any = store._engine  # noqa: SLF001
    files, writer = engine._files, engine._connection  # noqa: SLF001
    assert writer is not None
    assert {name: writer.pragma(name) for name in SETTINGS} == SETTINGS
    read = files.read("", lambda reader, _: {name: reader.pragma(name) for name in SETTINGS}).result()
    assert read == SETTINGS
    assert files.read("", lambda reader, _: reader.pragma("query_only")).result() == 1
    store.close()


def test_the_settings_are_the_durable_ones():
    assert list(SETTINGS.items())[:2] == [("synchronous", 3), ("journal_mode", "wal")]  # the switch is to be durable
    assert (SETTINGS["foreign_keys"], SETTINGS["trusted_schema"], SETTINGS["mmap_size"]) == (1, 0, 0)
    assert SETTINGS["secure_delete"] == 1


def test_a_directory_made_for_a_store_is_on_disk_before_the_store_is(tmp_path, monkeypatch):
    """SQLite syncs the directory of its files; the names of new directories stand in those above it."""
    synced: list[str] = []
    fsync = os.fsync

    def watched(descriptor):
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    handle.create_file(tmp_path / "new" / "newer" / "queue.db")
    assert sorted(synced) == [str(tmp_path), str(tmp_path / "new")]
    synced.clear()
    handle.create_file(tmp_path / "new" / "another.db")
    assert synced == []


def test_a_statement_is_planned_once_and_not_anew_for_every_value(path):
    with closing(handle.connect(str(built(path)))) as opened:
        assert opened.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1


@pytest.mark.parametrize(("name", "value"), [("journal_mode", "nonsense"), ("synchronous", 9), ("foreign_keys", 5)])
def test_a_setting_that_does_not_stick_refuses_the_file(path, monkeypatch, name, value):
    monkeypatch.setitem(handle.SETTINGS, name, value)
    with pytest.raises(ConfigurationError, match=f"SQLite answers {name}=.* where {value!r} was set"):
        store_at(str(path)).open()


class Locked:
    """A connection that answers "locked" a few times, as SQLite does at once where many open a new file."""

    def __init__(self, times):
        self.left = times

    def pragma(self, _name, _value):
        if self.left:
            self.left -= 1
            raise apsw.BusyError("database is locked")


def test_a_setting_that_is_locked_is_tried_again(monkeypatch):
    opened: Any = Locked(times=3)
    handle._set(opened, "journal_mode", "wal")  # noqa: SLF001
    assert opened.left == 0
    monkeypatch.setattr(handle, "BUSY_SECONDS", 0.0)
    with pytest.raises(apsw.BusyError):
        handle._set(Locked(times=10**9), "journal_mode", "wal")  # type: ignore[arg-type]  # noqa: SLF001


# --- whose file


def test_somebody_elses_database_is_refused_and_left_as_it_was(path, change):
    change(path, "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)")
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match=r"another program's database; give standfast its own file"):
        store_at(str(path)).open()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_empty_database_that_is_marked_as_somebody_elses_is_refused(path, change):
    change(path, "PRAGMA application_id = 1234", "PRAGMA user_version = 1")
    with pytest.raises(ConfigurationError, match="another program's database"):
        store_at(str(path)).open()


def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(path):
    path.write_text("dear diary, " * 1000)
    with pytest.raises(ConfigurationError, match="is not a SQLite database; give standfast its own file"):
        store_at(str(path)).open()
    assert path.read_text() == "dear diary, " * 1000


def test_an_empty_file_is_taken(path):
    path.touch()
    built(path)
    with closing(apsw.Connection(str(path))) as opened:
        assert opened.pragma("application_id") == handle.APPLICATION_ID


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(StoreUnavailable, match="cannot open") as caught:
        store_at(str(tmp_path)).open()
    assert caught.value.definite


# --- which schema


def test_a_newer_schema_is_refused_naming_the_next_step(path, change):
    change(built(path), "UPDATE schema SET version = version + 2, readable_by = version + 1")
    with pytest.raises(
        ConfigurationError, match=f"has schema {NEWEST + 2}.*this one knows {NEWEST}: upgrade standfast"
    ):
        store_at(str(path)).open()


def test_a_newer_schema_that_this_library_can_read_is_used(path, change):
    change(built(path), "UPDATE schema SET version = version + 1, readable_by = version", "CREATE TABLE later (x)")
    store = store_at(str(path))
    assert put(store) == "accepted"
    store.close()
    with closing(apsw.Connection(str(path))) as opened:
        assert opened.execute("SELECT version, readable_by FROM schema").fetchall() == [(NEWEST + 1, NEWEST)]


def test_opening_again_changes_nothing(path):
    with closing(apsw.Connection(str(built(path)))) as opened:
        schema = opened.execute("SELECT sql FROM sqlite_schema ORDER BY name").fetchall()
    built(path)
    with closing(apsw.Connection(str(path))) as opened:
        assert opened.execute("SELECT sql FROM sqlite_schema ORDER BY name").fetchall() == schema
        assert opened.execute("SELECT version FROM schema").fetchall() == [(NEWEST,)]


# --- who may read it


def test_files_and_directories_are_for_their_owner_only(tmp_path):
    path = tmp_path / "deep" / "queue.db"
    unmasked = os.umask(0)
    try:
        store = store_at(str(path))
        store.listen(print)
        store.write_all(intake.enqueue, [new_job()]).result()
        made = [path.parent, *path.parent.iterdir(), neighbours.bell_directory(str(path))]
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in made}
        store.close()
    finally:
        os.umask(unmasked)
    assert modes == {
        "deep": 0o700,
        made[-1].name: 0o700,
        "queue.db": 0o600,
        "queue.db-wal": 0o600,
        "queue.db-shm": 0o600,
        "queue.db.turn": 0o600,
    }


MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
31 22 0:45 / /srv/data rw - nfs4 server:/data rw
32 31 8:2 / /srv/data/local rw - xfs /dev/sdb1 rw
33 22 0:46 / /home/my\040share rw - cifs //server/share rw
34 22 0:47 / /home/ann/remote rw - fuse.sshfs ann@host: rw
35 22 0:48 / /srv/database rw - ext4 /dev/sdc1 rw
36 22 0:49 / /mnt/host rw - 9p host rw
"""


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        ("/srv/data", "nfs4"),
        ("/srv/data/a/b", "nfs4"),
        ("/home/my share/x", "cifs"),
        ("/home/ann/remote", "fuse.sshfs"),
        ("/mnt/host/c", "9p"),
    ],
)
def test_a_network_file_system_is_refused(directory, kind):
    with pytest.raises(ConfigurationError, match=rf"network file system \({kind}\); use a local disk"):
        check_file_system(Path(directory), MOUNTS)


@pytest.mark.parametrize("directory", ["/", "/tmp/x", "/srv/data/local", "/srv/database", "/srv/data2", "/home/ann"])  # noqa: S108
def test_a_local_file_system_is_accepted(directory):
    check_file_system(Path(directory), MOUNTS)


def test_the_file_system_is_checked_before_the_file_is_made(path, monkeypatch):
    mounts = f"22 1 0:1 / / rw - ext4 a rw\n23 22 0:2 / {path.parent} rw - nfs b rw\n"
    monkeypatch.setattr(handle, "_mounts", lambda: mounts)
    with pytest.raises(ConfigurationError, match="network file system"):
        store_at(str(path)).open()
    assert not path.exists()


# --- how it is named


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("queue.db", "queue.db"),
        ("/var/queue.db", "/var/queue.db"),
        ("sqlite:///queue.db", "queue.db"),
        ("sqlite:////var/queue.db", "/var/queue.db"),
        (":memory:", ":memory:"),
    ],
)
def test_a_url_names_a_file(url, expected):
    assert sqlite_path(url) == expected


@pytest.mark.parametrize("url", ["mysql://host/db", "sqlite://queue.db", "sqlite://", "sqlite:///"])
def test_a_url_that_names_no_file_is_refused(url):
    with pytest.raises(ConfigurationError, match="sqlite:///"):
        store_at(url)


def test_every_memory_store_is_its_own():
    stores = [store_at(":memory:"), store_at(":memory:")]
    for store in stores:
        assert put(store, idempotency_key="k") == "accepted"
    for store in stores:
        store.close()


def test_what_was_acknowledged_is_there_for_another_program(path):
    store = store_at(str(path))
    job = new_job(payload='{"to":"bob"}')
    store.write_all(intake.enqueue, [job]).result()
    store.close()
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT id, payload FROM body").fetchall() == [(job.id, '{"to":"bob"}')]
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_job_that_lost_its_payload_to_damage_keeps_no_other_from_being_claimed(path):
    """One that has no body row cannot be run. What is whole runs, and `doctor` names what is not."""
    store = store_at(str(path))
    ids = await enqueued(store, *(new_job(handler=name) for name in ("mail", "other") for _ in range(2)))
    store.close()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("DELETE FROM body WHERE id = ?", (ids[1],))
    again = store_at(str(path))
    caught = await catch(again, handlers=("mail", "other"), slots=9)
    assert [claim.id for claim in caught.claims] == [ids[0], *ids[2:]]
    again.close()
