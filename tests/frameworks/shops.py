"""The example shops, each served and worked by processes of their own, as their readers start them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from tests.worker.processes import ROOT

EXAMPLES = ROOT / "examples"
PATIENCE = 40.0
PYTHON = (sys.executable, "-W", "ignore::ResourceWarning")


class Shop(NamedTuple):
    """How a shop is started: where, its preparation, its server on a port, and its worker."""

    directory: Path
    server: Callable[[int], list[str]]
    worker: list[str]
    prepare: list[str] | None = None


SHOPS = {
    "fastapi": Shop(
        EXAMPLES,
        lambda port: ["-m", "uvicorn", "fastapi_app:app", "--port", str(port), "--log-level", "warning"],
        ["-m", "standfast", "worker", "fastapi_app:sf"],
    ),
    "flask": Shop(
        EXAMPLES,
        lambda port: ["-m", "flask", "--app", "flask_app", "run", "--port", str(port)],
        ["-m", "flask", "--app", "flask_app", "standfast", "worker"],
    ),
    "django": Shop(
        EXAMPLES / "django_project",
        lambda port: ["manage.py", "runserver", "--noreload", f"127.0.0.1:{port}"],
        ["manage.py", "standfast_worker"],
        ["manage.py", "migrate", "--verbosity", "0"],
    ),
}


class Running:
    """A shop with its own files, and what runs for it."""

    def __init__(self, shop: Shop, home: Path) -> None:
        self._shop = shop
        self.port = _free_port()
        self.store = str(home / "queue.db")
        self.mail = home / "mail.txt"
        self._environment = {
            **os.environ,
            "STANDFAST_URL": self.store,
            "SHOP_DATABASE": str(home / "shop.db"),
            "SHOP_MAIL": str(self.mail),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._log = (home / "log.txt").open("ab")
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, arguments: list[str], **more: str) -> subprocess.Popen[bytes]:
        """Start a process of the shop's, in a group of its own."""
        started = subprocess.Popen(
            [*PYTHON, *arguments],
            cwd=self._shop.directory,
            env={**self._environment, **more},
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self._started.append(started)
        return started

    def serve(self) -> None:
        """Start the server, and wait until it answers."""
        if self._shop.prepare is not None:
            assert self.start(self._shop.prepare).wait(PATIENCE) == 0, self.said()
        self.start(self._shop.server(self.port))
        eventually(self._answers, self.said)

    def work(self, seconds: float) -> subprocess.Popen[bytes]:
        """Start a worker whose mails take so long."""
        return self.start(self._shop.worker, SHOP_SECONDS=str(seconds))

    def ask(self, method: str, path: str) -> Any:
        """Make a request."""
        answer = httpx2.request(method, f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE)
        assert answer.is_success, (answer.text[-500:], self.said())
        return answer.json()

    def said(self) -> str:
        """Give what its processes wrote."""
        return Path(self._log.name).read_text()[-3000:]

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def ended_badly(self) -> bool:
        """Tell whether a process of the shop's failed by itself."""
        return any((process.poll() or 0) > 0 for process in self._started)

    def end(self) -> None:
        """End everything that was started."""
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._log.close()


@contextmanager
def running(name: str, home: Path) -> Iterator[Running]:
    """Serve a shop."""
    shop = Running(SHOPS[name], home)
    try:
        shop.serve()
        yield shop
    finally:
        shop.end()


def eventually(fact: Callable[[], bool], said: Callable[[], str]) -> None:
    """Wait for a fact."""
    give_up = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < give_up, said()
        time.sleep(0.02)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
