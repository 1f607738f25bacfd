"""`standfast serve` as a process: it says where it is, takes work over the wire, and ends when it is told to."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from pathlib import Path
from typing import Self

import httpx2
import pytest

from standfast import Standfast
from tests.doors.processes import COMMAND, PACKAGES, surroundings
from tests.warm import Warm

ENDS_WITHIN = 5.0
SLOW = """
import asyncio
from standfast import Standfast
sf = Standfast({url!r})
@sf.handler("slow")
async def slow(job):
    await asyncio.sleep(60)
"""


class Serving:
    """`standfast serve` under way; leaving the block kills it if it still runs."""

    def __init__(self, url: Path, *arguments: str, **environment: str) -> None:
        command = [*COMMAND, "serve", "--port", "0", "--url", str(url), *arguments]
        self.process = Warm(command, stderr=-1, text=True, env=surroundings(environment))

    def address(self) -> str:
        """Wait until it says where it is."""
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if "serving at " in line:
                return str(line.split("serving at ")[1].split(";")[0].strip())
        raise AssertionError(f"it never said where it is, but {said}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()


@pytest.mark.long
async def test_what_runs_is_given_back_before_it_ends(tmp_path: Path) -> None:
    """Not left to lapse: another worker may take it at once."""
    url = tmp_path / "queue.db"
    (tmp_path / "slow.py").write_text(SLOW.format(url=str(url)))
    shown = {"Authorization": f"Bearer {await token(url)}"}
    with Serving(url, "slow:sf", PYTHONPATH=f"{PACKAGES}:{tmp_path}") as serving:
        async with httpx2.AsyncClient(base_url=serving.address(), headers=shown) as client:
            job = (await client.post("/api/v1/jobs", json={"queue": "slow"})).json()["id"]
            async with Standfast(url) as sf:
                while not await sf.jobs(state="running"):  # noqa: ASYNC110 - another process runs it
                    await asyncio.sleep(0.01)
                serving.process.send_signal(signal.SIGTERM)
                assert serving.process.wait(30) == 0
                left = await sf.status(job)
    assert left is not None
    assert left.state == "queued"


async def token(url: Path) -> str:
    """Make a token beside the server."""
    async with Standfast(url) as sf:
        return str((await sf.tokens.create("t", person="tom", role="operator"))["token"])


async def test_a_server_takes_work_and_ends_while_connections_are_open(tmp_path: Path) -> None:
    """What was answered is on disk; connections that are idle, or in the middle of a request, do not hold it."""
    url = tmp_path / "queue.db"
    shown = {"Authorization": f"Bearer {await token(url)}"}
    with Serving(url, "--no-worker") as serving:
        address = serving.address()
        host, port = address.removeprefix("http://").split(":")
        async with httpx2.AsyncClient(base_url=address, headers=shown) as client:
            taken = await client.post("/api/v1/jobs", json={"queue": "mail", "payload": 1})
            assert taken.status_code == 201, taken.text
            assert (await client.get("/api/v1/stats", headers={"Host": "evil.example"})).status_code == 421
            with socket.create_connection((host, int(port))) as half:
                half.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
                told = time.monotonic()
                serving.process.send_signal(signal.SIGTERM)
                assert serving.process.wait(30) == 0
                assert time.monotonic() - told < ENDS_WITHIN
    async with Standfast(url) as sf:
        [job] = await sf.jobs()
        assert (job.id, job.requester) == (taken.json()["id"], "tom")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x00",
        b"POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_answered_or_hung_up_on(served: tuple[str, int], sent: bytes) -> None:
    """And the server goes on."""
    with socket.create_connection(served, 10) as wire:
        wire.sendall(sent)
        wire.shutdown(socket.SHUT_WR)
        answer = wire.recv(1000)
    assert answer == b"" or answer.split()[1] in {b"400", b"401", b"413", b"421"}
    async with httpx2.AsyncClient() as client:
        assert (await client.get(f"http://{served[0]}:{served[1]}/healthz")).text == "up"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory):
    with Serving(tmp_path_factory.mktemp("served") / "queue.db", "--no-worker") as serving:
        host, port = serving.address().removeprefix("http://").split(":")
        yield host, int(port)
