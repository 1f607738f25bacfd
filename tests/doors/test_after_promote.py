"""What becomes of the processes that use a file once `standfast promote` has moved it to PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from standfast import Standfast
from standfast.errors import StoreMoved
from standfast.settings import without_password
from tests.doors.processes import COMMAND, PATIENCE, standfast, surroundings
from tests.waiting import seen
from tests.warm import Warm

MOVED = 78
"""What a process ends with whose store has moved."""
APP = """
import sqlite3
from pathlib import Path

from standfast import Standfast

sf = Standfast()
sf.outbox(lambda: sqlite3.connect("shop.db"), with_workers=True)


@sf.on_shutdown
def end():
    Path("shut down").touch()


@sf.handler("greet")
async def greet(job):
    return "hello"
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Work in a directory with an application."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STANDFAST_URL", "standfast.db")
    Path("app.py").write_text(APP)
    return tmp_path


@contextmanager
def running(*command: str) -> Iterator[Warm]:
    """Run a command whose log goes to the file `log`."""
    with Path("log").open("w") as log:
        process = Warm([*COMMAND, *command], stderr=log, stdout=subprocess.DEVNULL, env=surroundings({}))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def said(words: str) -> list[str]:
    return [line for line in Path("log").read_text().splitlines() if words in line]


def shut_down() -> list[Path]:
    """Give what the application's shut-down hook left."""
    return [*Path().glob("shut down")]


async def move(home: str) -> None:
    moved = await asyncio.to_thread(standfast, "promote", "standfast.db", home)
    assert moved.returncode == 0, moved.stderr


@pytest.mark.parametrize(
    ("ready", "command"),
    [
        ("is ready for", ("worker", "app:sf")),
        ("is ready for", ("worker", "app:sf", "--processes", "2")),
        ("is ready for", ("worker", "app:sf", "--recycle-after", "1000")),
        ("serving at", ("serve", "app:sf", "--port", "0")),
        ("serving at", ("serve", "app:sf", "--port", "0", "--no-worker")),
    ],
    ids=["worker", "processes", "recycled", "serve", "serve without worker"],
)
async def test_a_process_whose_store_has_moved_says_so_once_and_ends(postgres_url, ready, command):
    processes = 2 if "2" in command else 1
    with running(*command) as process:
        await seen(lambda: len(said(ready)) == processes)
        await move(postgres_url)
        assert await asyncio.to_thread(process.wait, PATIENCE) == MOVED
    told = said("has moved to")
    assert 1 <= len(told) <= processes  # one of several tells the others to drain
    assert all("STANDFAST_URL" in line for line in told)
    assert not said("Traceback")
    assert bool(shut_down()) == ("--no-worker" not in command)


async def test_a_process_that_starts_on_the_old_file_ends_with_the_same_code(postgres_url):
    async with Standfast("standfast.db") as sf:
        await sf.enqueue("greet", {})
    await move(postgres_url)
    for command in (("worker", "app:sf"), ("worker", "app:sf", "--processes", "2"), ("serve", "app:sf", "--port", "0")):
        with running(*command) as process:
            assert await asyncio.to_thread(process.wait, PATIENCE) == MOVED


async def test_an_application_goes_on_when_the_store_of_its_worker_has_moved(postgres_url, caplog):
    caplog.set_level(logging.INFO)
    ran: list[str] = []
    async with Standfast("standfast.db") as sf:
        sf.on_shutdown(lambda: ran.append("shut down"))
        sf.handler("greet")(lambda _job: ran.append("greeted"))
        async with sf.worker() as worker:
            await sf.wait((await sf.enqueue("greet", {})).id, PATIENCE)
            await move(postgres_url)
            await seen(lambda: "has moved to" in caplog.text)
            await seen(lambda: worker.moved.to)
            caplog.clear()
            for _ in range(50):  # each would have woken the worker
                with pytest.raises(StoreMoved):
                    await sf.enqueue("greet", {})
                await asyncio.sleep(0.05)
            assert not caplog.records
            assert ran == ["greeted"]
    assert ran == ["greeted", "shut down"]


async def test_the_commands_on_the_old_file_name_the_new_home(postgres_url):
    async with Standfast("standfast.db") as sf:
        await sf.enqueue("greet", {})
    await move(postgres_url)
    told = standfast("stats")
    home = without_password(postgres_url)
    assert told.returncode == 1
    assert f"this store has moved to {home}" in told.stderr.decode()
    assert f"use --url '{home}' or set STANDFAST_URL to it" in told.stderr.decode()
    assert "doctor" not in told.stderr.decode()
