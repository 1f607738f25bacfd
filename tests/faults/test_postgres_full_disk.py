"""A server whose disk is full: nothing is lost or written by halves, and all goes on once there is room."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from standfast import Receipt, Standfast
from standfast.store import store as store_module
from tests.postgres import PostgresServer, connect, fresh_schema, in_schema

PATIENCE = 60.0


def mount(*options: str) -> bool:
    return subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0  # noqa: S607


@pytest.fixture
def space(server: PostgresServer) -> Iterator[Path]:
    """Have the server put new tables on a small file system of their own."""
    place = Path(server.host) / "space"
    place.mkdir()
    owner = Path(server.host).stat()
    limits = f"size=24m,uid={owner.st_uid},gid={owner.st_gid},mode=0700"
    if not mount("-t", "tmpfs", "-o", limits, "standfast-test", str(place)):
        pytest.skip("mounting a small file system needs root")
    with connect(server.url) as asked:
        asked.execute(f"CREATE TABLESPACE small LOCATION '{place}'".encode())
        asked.execute("ALTER DATABASE postgres SET default_tablespace = small")
    yield place
    server.stop("immediate")
    subprocess.run(["umount", str(place)], check=True)  # noqa: S607


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """Give a server that nobody uses afterwards: it does not start again without its small file system."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
async def sf(server: PostgresServer, space: Path) -> AsyncIterator[Standfast]:  # noqa: ARG001 - it is first
    async with Standfast(in_schema(server.url, fresh_schema())) as sf:
        await sf.open()
        yield sf


async def test_a_server_without_room_on_its_disk_loses_nothing_and_goes_on_when_there_is_room(sf, space, monkeypatch):
    ran: list[str] = []

    @sf.handler("mail")
    async def mail(job):
        ran.append(job.id)

    receipts: list[Receipt] = []
    async with asyncio.timeout(PATIENCE):
        monkeypatch.setattr(store_module, "PATIENCE", 1.0)
        while not receipts or receipts[-1].outcome == "accepted":
            receipts.append(await sf.enqueue("mail", os.urandom(100_000).hex()))
    assert receipts[-1].outcome == "spooled"
    assert len(receipts) > 3
    assert any("No space left on device" in issue for issue in (await sf.health())["issues"])
    monkeypatch.undo()
    assert mount("-o", "remount,size=200m", str(space))
    async with asyncio.timeout(PATIENCE), sf.worker():
        for receipt in receipts:
            assert (await sf.wait(receipt.id, PATIENCE)).state == "completed"
    assert sorted(ran) == sorted(str(receipt.id) for receipt in receipts)
