"""`POST /jobs` of one server process, compared with a FastAPI route that inserts one row per commit.

    python benchmarks/server.py [--rounds 3] [--requests 6400] [--connections 64]

Both are measured in turn, round by round, by the same load generator in a process of its own. Both are one uvicorn
process with the same settings, and answer once the row is on disk (WAL, synchronous=FULL). Wall-clock rates mean little
on a machine that others use too, so the server's processor time per request is reported as well, and that of the
generator, which shares the cores. Needs the extra `dev` (fastapi, uvicorn, httptools).
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BODY = json.dumps({"queue": "bulk", "payload": {"text": "x" * 150}}).encode()
TICK = os.sysconf("SC_CLK_TCK")
PATIENCE = 60.0
GOAL_RATE, GOAL_P99, GOAL_RATIO = 3000, 100, 1.5


def bare(path: str, port: int) -> None:
    """Serve the route that standfast is compared with."""
    import apsw  # noqa: PLC0415 - of this role alone
    import uvicorn  # noqa: PLC0415 - of this role alone
    from fastapi import FastAPI  # noqa: PLC0415 - of this role alone
    from pydantic import BaseModel  # noqa: PLC0415 - of this role alone

    from standfast.server.wire import Wire  # noqa: PLC0415 - of this role alone; the same as for standfast

    class NewJob(BaseModel):
        queue: str
        payload: Any = None

    globals()["NewJob"] = NewJob  # FastAPI looks annotations up here
    connection = apsw.Connection(path)
    connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE job (id INTEGER PRIMARY KEY, queue TEXT, payload TEXT)")
    app = FastAPI()

    @app.post("/api/v1/jobs", status_code=201)
    async def enqueue(job: NewJob) -> dict[str, Any]:
        connection.execute("INSERT INTO job (queue, payload) VALUES (?, ?)", (job.queue, json.dumps(job.payload)))
        return {"id": connection.last_insert_rowid(), "outcome": "accepted"}

    uvicorn.run(app, port=port, http=Wire, access_log=False, log_level="warning", server_header=False)


class Asking:
    """One connection: it asks, waits for the whole answer, asks again. Plain sockets need the least processor time."""

    def __init__(self, port: int, request: bytes, times: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.left = times
        self._request = request
        self._answer = b""
        self._asked_at = 0.0

    def ask(self) -> None:
        """Send a request."""
        self.left -= 1
        self._asked_at = time.perf_counter()
        self.socket.sendall(self._request)

    def heard(self) -> float | None:
        """Read what has arrived; return how long the answer took, or None until it is complete."""
        self._answer += self.socket.recv(65536)
        head, found, body = self._answer.partition(b"\r\n\r\n")
        if not found:
            return None
        if b" 201 " not in head[:16]:
            raise SystemExit(self._answer.decode())
        at = head.lower().index(b"content-length:") + 15
        if len(body) < int(head[at:].partition(b"\r\n")[0]):
            return None
        self._answer = b""
        return time.perf_counter() - self._asked_at


def load(port: int, token: str, requests: int, connections: int) -> None:
    """Ask as fast as answers come; print the rate, and the median and 99th percentile of the times."""
    head = f"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
    request = f"{head}Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY
    asking = {
        each.socket.fileno(): each
        for each in (Asking(port, request, requests // connections) for _ in range(connections))
    }
    waiting, took = select.epoll(), []
    start, spent = time.perf_counter(), time.process_time()
    for number, each in asking.items():
        waiting.register(number, select.EPOLLIN)
        each.ask()
    while asking:
        for number, _ in waiting.poll():
            seconds = asking[number].heard()
            if seconds is None:
                continue
            took.append(seconds)
            if asking[number].left:
                asking[number].ask()
            else:
                waiting.unregister(number)
                asking.pop(number).socket.close()
    lasted, spent = time.perf_counter() - start, time.process_time() - spent
    took.sort()
    told = {"rate": len(took) / lasted, "p50": took[len(took) // 2] * 1e3, "p99": took[int(len(took) * 0.99)] * 1e3}
    print(json.dumps({**told, "answered": len(took), "asking": spent / len(took) * 1e6}))


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _spent(pid: int) -> float:
    """Return the processor time that a process and its threads have used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


@contextmanager
def _serving(command: list[str], port: int) -> Iterator[int]:
    process = subprocess.Popen(command)  # noqa: S603 - our own
    try:
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > give_up:
                    raise SystemExit("the server did not start") from None
                time.sleep(0.05)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def _measured(command: list[str], port: int, token: str, asked: argparse.Namespace) -> dict[str, float]:
    ask = [sys.executable, __file__, "--role", "load", "--port", str(port), "--token", token]
    ask += ["--connections", str(asked.connections)]
    with _serving(command, port) as pid:
        subprocess.run([*ask, "--requests", str(asked.connections * 10)], check=True, capture_output=True)  # noqa: S603 - ours, to warm up
        before = _spent(pid)
        done = subprocess.run([*ask, "--requests", str(asked.requests)], check=True, capture_output=True)  # noqa: S603 - likewise
        figures: dict[str, float] = json.loads(done.stdout)
        figures["cpu"] = (_spent(pid) - before) / figures["answered"] * 1e6
    return figures


def _ours(place: str, asked: argparse.Namespace) -> dict[str, float]:
    port, url = _free_port(), f"{place}/queue.db"
    cli = [sys.executable, "-m", "standfast"]
    create = [*cli, "token", "create", "load", "--role", "producer", "--person", "load", "--queues", "bulk"]
    create += ["--url", url, "--json"]
    made = subprocess.run(create, check=True, capture_output=True)  # noqa: S603 - our own
    token = json.loads(made.stdout)["token"]
    return _measured([*cli, "serve", "--no-worker", "--port", str(port), "--url", url], port, token, asked)


def _theirs(place: str, asked: argparse.Namespace) -> dict[str, float]:
    port = _free_port()
    command = [sys.executable, __file__, "--role", "bare", "--port", str(port), "--path", f"{place}/bare.db"]
    return _measured(command, port, "none", asked)


def compare(asked: argparse.Namespace) -> None:
    """Measure both in turn and print a table."""
    found: dict[str, list[dict[str, float]]] = {"standfast": [], "FastAPI, one row": []}
    print(f"{'':18} {'requests/s':>10} {'p50 ms':>8} {'p99 ms':>8} {'CPU µs/request':>15} {'asking µs':>10}")
    for _ in range(asked.rounds):
        for name, measure in zip(found, (_ours, _theirs), strict=True):
            with tempfile.TemporaryDirectory(dir=asked.place) as place:
                figures = measure(place, asked)
            found[name].append(figures)
            told = f"{figures['rate']:10.0f} {figures['p50']:8.1f} {figures['p99']:8.1f} {figures['cpu']:15.0f}"
            told += f" {figures['asking']:10.0f}"
            print(f"{name:18} {told}", flush=True)
    middle = {
        name: {key: statistics.median(each[key] for each in rounds) for key in ("rate", "p99", "cpu")}
        for name, rounds in found.items()
    }
    ours, theirs = middle.values()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; medians of {asked.rounds} rounds:")
    print(f"  {ours['rate']:.0f} requests/s (goal {GOAL_RATE}), p99 {ours['p99']:.1f} ms (goal {GOAL_P99})")
    ratio = ours["rate"] / theirs["rate"]
    print(f"  {ratio:.2f} times the FastAPI route (goal {GOAL_RATIO}); CPU {ours['cpu'] / theirs['cpu']:.2f} times its")


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=6400)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--place", help="the directory whose disk is measured; default: that for temporary files")
    for name in ("role", "port", "token", "path"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.role == "bare":
        bare(asked.path, int(asked.port))
    elif asked.role == "load":
        load(int(asked.port), asked.token, asked.requests, asked.connections)
    else:
        compare(asked)


if __name__ == "__main__":
    main()
