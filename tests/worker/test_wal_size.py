"""The file in which changes wait: a long read lets it grow, health names the reader, and it comes down again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from standfast.store.sqlite import handle, wal
from standfast.wings.health import strain

LARGEST = 1 << 20
READ = """
import apsw, sys
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM job").fetchall()
print("reading", flush=True)
sys.stdin.read()
"""


OVERLAP = """
import apsw, itertools, select, sys, time
both = [apsw.Connection(sys.argv[1]) for _ in range(2)]
begin = lambda connection: connection.execute("BEGIN; SELECT count(*) FROM job").fetchall()
begin(both[0])
print("reading", flush=True)
for n in itertools.count():
    time.sleep(0.003)
    begin(both[(n + 1) % 2])
    both[n % 2].execute("COMMIT")
    if select.select([sys.stdin], [], [], 0)[0]:
        break
"""


@contextmanager
def reading(program: str, path: str) -> Iterator[int]:
    """Read the store in another process; give its number."""
    reader = subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert reader.stdout.readline() == "reading\n"
    yield reader.pid
    reader.stdin.close()
    reader.wait()
    reader.stdout.close()


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Let a WAL of a MiB be a large one."""
    monkeypatch.setitem(handle.SETTINGS, "journal_size_limit", LARGEST)
    monkeypatch.setitem(handle.SETTINGS, "wal_autocheckpoint", 100)
    for module in (handle, wal):
        monkeypatch.setattr(module, "LARGEST_WAL", LARGEST)
    monkeypatch.setattr("standfast.store.sqlite.sqlite_engine.LARGEST_WAL", LARGEST)
    monkeypatch.setattr(wal, "TRY_AGAIN_AFTER", 0.0)
    monkeypatch.setattr(strain, "LARGEST_WAL", 2 * LARGEST)


def size(path: str) -> int:
    return Path(f"{path}-wal").stat().st_size


async def fill(sf, jobs: int) -> None:
    for _ in range(jobs):
        await sf.enqueue("mail", "x" * 50_000)


async def issues(sf) -> list[str]:
    return [issue for issue in (await sf.health())["issues"] if "-wal" in issue]


async def test_health_names_the_reader_that_keeps_the_wal_from_being_emptied_and_it_comes_down_after(in_file, path):
    await fill(in_file, 1)
    with reading(READ, path) as pid:
        await fill(in_file, 80)
        assert size(path) > 3 * LARGEST
        [issue] = await issues(in_file)
        assert f"process {pid} (python" in issue
        assert "end that" in issue
        assert (await in_file.measures()).wal_bytes == size(path)
    await fill(in_file, 3)
    assert size(path) <= LARGEST
    assert await issues(in_file) == []


async def test_reads_that_overlap_do_not_let_the_wal_grow_for_ever(in_file, path):
    """Each read is short, but there is always one: only a writer that waits for them gets to the start again."""
    await fill(in_file, 1)
    with reading(OVERLAP, path):
        await fill(in_file, 80)
        assert size(path) < 3 * LARGEST, "it would be four times as large if nothing waited"


async def test_a_read_of_this_process_is_named_by_its_thread(in_file, monkeypatch):
    await in_file.open()
    monkeypatch.setattr(wal, "LONG_READ", -1.0)
    held = in_file._store._engine._files.wal  # noqa: SLF001 - a read that hangs cannot be had
    with held.reading():
        assert "thread MainThread of process" in held.held_by()[0]
    assert held.held_by() == []
