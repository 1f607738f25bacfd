"""standfast where the system has no fork, no UNIX sockets, no `pwd`, no `fcntl`: as on Windows, seen from here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from standfast.store.sqlite import neighbours
from standfast.store.sqlite.datagrams import FORGOTTEN_AFTER, LoopbackDatagrams
from standfast.store.sqlite.neighbours import DatagramNotifier

ROOT = Path(__file__).parents[2]
WORK = str(ROOT / "tests" / "portability" / "work.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "STANDFAST_LOG": "text"}


def elsewhere(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.portability.elsewhere", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        elsewhere(*arguments), env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )


@contextmanager
def started(*arguments: str) -> Iterator[Any]:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(elsewhere(*arguments), env=ENVIRONMENT, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "queue.db")


def test_a_producer_and_a_worker_in_two_processes_share_a_store(url):
    """The worker is idle when the jobs come, so it must be woken, or look by itself."""
    with started(WORK, url, "work", "3") as worker:
        assert worker.stdout.readline() == "ready\n"
        produced = run(WORK, url, "enqueue", "3")
        assert (produced.stdout.split(), produced.stderr) == (["accepted"] * 3, "")
        assert worker.stdout.readline() == "[0, 1, 2]\n"


@pytest.fixture
def by_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "DATAGRAMS", LoopbackDatagrams())


@pytest.mark.usefixtures("by_port")
def test_a_hint_is_heard_at_a_port_of_the_loopback_address(tmp_path):
    path = str(tmp_path / "queue.db")
    heard: SimpleQueue[Any] = SimpleQueue()
    with closing(DatagramNotifier(path)) as here, closing(DatagramNotifier(path)) as there:
        there.listen(heard.put)
        (tmp_path / "queue.db-wake" / "garbage").touch()
        here.notify({"mail": 0.0})
        assert heard.get(timeout=10) == {"mail": 0.0}
    assert [file.name for file in (tmp_path / "queue.db-wake").iterdir()] == ["garbage"]


@pytest.mark.usefixtures("by_port")
def test_the_port_of_a_process_that_is_long_gone_is_forgotten(tmp_path):
    bells = tmp_path / "queue.db-wake"
    bells.mkdir()
    for name, age in {"1-aa-4001": 2 * FORGOTTEN_AFTER, "2-bb-4002": 0.0}.items():
        (bells / name).touch()
        os.utime(bells / name, (time.time() - age,) * 2)
    with closing(DatagramNotifier(str(tmp_path / "queue.db"))) as here:
        here.listen(lambda _hint: None)
        assert {"1-aa-4001", "2-bb-4002"} & {file.name for file in bells.iterdir()} == {"2-bb-4002"}


def test_the_command_line_works_and_a_signal_drains_a_worker(tmp_path):
    (tmp_path / "app.py").write_text(
        "from standfast import Standfast\nsf = Standfast('queue.db')\nsf.handler('mail')(lambda job: job.payload)\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with started("standfast", "worker", "app:sf") as worker:
            assert any("is ready for" in line for line in worker.stderr)
            worker.send_signal(signal.SIGTERM)
            assert "has stopped" in worker.stderr.read()
            assert worker.wait(30) == 0
        health = run("standfast", "doctor", "--url", "queue.db")
    assert health.returncode == 0, health.stdout + health.stderr


@pytest.mark.parametrize(
    ("declaration", "what"),
    [
        ("sf.handler('mail', isolate=True)(lambda job: None)", "isolate=True needs process groups"),
        ("sf.queue('mail', command='send')", "commands need process groups"),
    ],
)
def test_what_cannot_work_there_is_refused_when_it_is_declared(tmp_path, declaration, what):
    (tmp_path / "standfast.toml").write_text('[commands.send]\nargv = ["true"]\n')
    (tmp_path / "declares.py").write_text(
        f"from standfast import Standfast\nsf = Standfast('queue.db')\n{declaration}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        refused = run(str(tmp_path / "declares.py"))
    assert refused.returncode != 0
    assert what in refused.stderr.splitlines()[-1]
