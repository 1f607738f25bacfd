"""`standfast serve` as a process: it says where it is, takes work over the wire, and ends when it is told to."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Self

import httpx2
import pytest

from standfast import Standfast
from standfast.cli.serve_command import address_of
from tests.doors.conftest import Cli
from tests.doors.processes import COMMAND, PACKAGES, surroundings
from tests.warm import Warm

ENDS_WITHIN = 5.0
SLOW = """
import asyncio
import resource
from standfast import Standfast
sf = Standfast({url!r})
@sf.handler("slow")
async def slow(job):
    await asyncio.sleep(60)
"""
MOUNTED = """
from fastapi import FastAPI
from standfast import Standfast
from standfast.fastapi import mount
app = FastAPI()
mount(app, Standfast({url!r}))
"""


class Serving:
    """`standfast serve` under way; leaving the block kills it if it still runs."""

    cwd: Path | None = None

    def __init__(self, url: Path | str, *arguments: str, **environment: str) -> None:
        command = [*COMMAND, "serve", "--port", "0", "--url", str(url), *arguments]
        self.process = Warm(command, stderr=-1, text=True, cwd=self.cwd, env=surroundings(environment))

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
    """Make a token beside the server, and publish the queue that it brings work to."""
    async with Standfast(url) as sf:
        sf.queue("mail")
        return str((await sf.tokens.create("t", person="tom", role="operator"))["token"])


def listening(stack: ExitStack, address: tuple[str, int], shown: str, path: str = "") -> IO[bytes]:
    """Open a stream of notices, and wait until it is open."""
    wire = stack.enter_context(socket.create_connection(address, 10))
    wire.sendall(f"GET {path}/api/v1/notices HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {shown}\r\n\r\n".encode())
    heard = stack.enter_context(wire.makefile("rb"))
    while b"from here on" not in (line := heard.readline()):
        assert line, "no stream was opened"
    return heard


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
            with ExitStack() as stack:
                half = stack.enter_context(socket.create_connection((host, int(port))))
                half.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
                live = [listening(stack, (host, int(port)), shown["Authorization"]) for _ in range(20)]
                told = time.monotonic()
                serving.process.send_signal(signal.SIGTERM)
                assert serving.process.wait(30) == 0
                assert time.monotonic() - told < ENDS_WITHIN
                assert [each.read().endswith(b"0\r\n\r\n") for each in live] == [True] * 20, "each was told its end"
    async with Standfast(url) as sf:
        [job] = await sf.jobs()
        assert (job.id, job.requester) == (taken.json()["id"], "tom")


@pytest.mark.long  # FastAPI and uvicorn take seconds to import; that a signal is heard is tested beside
async def test_an_application_with_a_mounted_server_ends_while_people_listen(tmp_path: Path) -> None:
    """Its own server waits for connections as long as they last, before it tells anybody of the end."""
    url = tmp_path / "queue.db"
    shown = f"Bearer {await token(url)}"
    (tmp_path / "mounted.py").write_text(MOUNTED.format(url=str(url)))
    command = [sys.executable, "-m", "uvicorn", "mounted:app", "--port", "0", "--log-level", "info"]
    environment = surroundings({"PYTHONPATH": f"{PACKAGES}:{tmp_path}"})
    started = partial(subprocess.Popen, command, stderr=subprocess.PIPE, text=True, env=environment)
    with started() as process, ExitStack() as stack:
        stack.callback(process.kill)
        assert process.stderr is not None
        port = next(
            int(line.split("http://127.0.0.1:")[1].split()[0]) for line in process.stderr if "running on" in line
        )
        live = [listening(stack, ("127.0.0.1", port), shown, "/standfast") for _ in range(20)]
        told = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in {0, -signal.SIGTERM}
        assert time.monotonic() - told < ENDS_WITHIN
        assert all(each.read().endswith(b"0\r\n\r\n") for each in live)


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


def test_a_port_that_is_taken_is_named(cli: Cli) -> None:
    """Before anything is opened or begun."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = cli("serve", "--port", port)
    assert refused.exit_code == 2
    assert f"port {port}" in refused.stderr
    assert "--port" in refused.stderr
    assert not Path("standfast.db").exists()


def test_the_address_that_is_told_can_be_used() -> None:
    """One that stands for every address can not."""
    told = [address_of(host, 80) for host in ("127.0.0.1", "::1", "0.0.0.0", "::", "queue.example")]  # noqa: S104
    here, six = "http://127.0.0.1:80", "http://[::1]:80"
    assert told == [here, six, here, six, "http://queue.example:80"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory):
    with Serving(tmp_path_factory.mktemp("served") / "queue.db", "--no-worker") as serving:
        host, port = serving.address().removeprefix("http://").split(":")
        yield host, int(port)


WORKING = """
from standfast import Standfast
sf = Standfast({url!r})
@sf.handler("echo")
async def echo(job):
    return job.payload
"""
CROWD = 1000
PLACES = 300
FEW_FILES = 700
"""Files that the server may open: with so many the crowd would leave none for the store and the jobs."""


async def test_a_thousand_slow_connections_harm_nobody(tmp_path: Path) -> None:
    """Enqueueing, health and the worker in the same process go on, from the address that the crowd has too."""
    url = tmp_path / "queue.db"
    (tmp_path / "working.py").write_text(WORKING.format(url=str(url)))
    shown = {"Authorization": f"Bearer {await token(url)}"}
    (tmp_path / "standfast.toml").write_text(f"[server]\nconnections = {PLACES}\n")
    surrounded = {"PYTHONPATH": f"{PACKAGES}:{tmp_path}", "STANDFAST_CONFIG": str(tmp_path / "standfast.toml")}
    with (
        Serving(url, "working:sf", **surrounded) as serving,
        enough_files(CROWD + 500),
        ExitStack() as stack,
    ):
        address = serving.address()
        resource.prlimit(serving.process.pid, resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))
        host, port = address.removeprefix("http://").split(":")
        for _ in range(CROWD):
            slow = stack.enter_context(socket.create_connection((host, int(port)), 20))
            with suppress(ConnectionError):  # another took its place already
                slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        async with httpx2.AsyncClient(base_url=address, headers=shown, timeout=20) as client:
            for number in range(5):
                taken = await client.post("/api/v1/jobs", json={"queue": "echo", "payload": number})
                assert taken.status_code == 201, taken.text
                assert (await client.get("/healthz")).text == "up"
            job = taken.json()["id"]
            assert (await client.get("/api/v1/health")).status_code == 200
            while (await client.get(f"/api/v1/jobs/{job}")).json()["state"] != "completed":  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@contextmanager
def enough_files(wanted: int) -> Iterator[None]:
    """Let this process open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
