"""Processes that look and tell, killed at any moment: every beginning and every end is told, and none by two jobs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from standfast import Standfast
from tests.waiting import seen
from tests.worker.processes import environment
from tests.worker.surfaces import Sinks, _receiver, receiver

__all__ = ["_receiver", "receiver"]

WATCHING = Path(__file__).with_name("watching.py")
ROUNDS = 4


class Watchers:
    """Some processes that look; the oldest is killed, and another takes its place."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._running = [self._start() for _ in range(3)]

    def _start(self) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            [sys.executable, str(WATCHING), self._url], env=environment(), stdout=subprocess.PIPE, text=True
        )
        assert started.stdout is not None
        assert started.stdout.readline() == "watching\n"
        return started

    def kill_one(self) -> None:
        """Kill -9."""
        _end(self._running.pop(0))
        self._running.append(self._start())

    def end(self) -> None:
        """Leave none behind."""
        for each in self._running:
            _end(each)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=10)


def told_of_depth(receiver: Sinks) -> Counter[tuple[str, str]]:
    """Count what came, once for each job that told it: a killed delivery is repeated, under the same id."""
    bodies = {each["headers"]["webhook-id"]: json.loads(each["body"])["data"] for each in receiver.received()}
    return Counter((each["state"], each["since"]) for each in bodies.values() if each["kind"] == "depth")


async def heard(receiver: Sinks, state: str, number: int) -> None:
    """Wait until of so many alerts this was told."""
    await seen(lambda: sum(told == state for told, _ in told_of_depth(receiver)) == number, within=60)


@pytest.mark.long  # processes that are started and killed by turns
@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["file", "postgres"])
async def test_alerts_survive_the_death_of_who_found_them(request, tmp_path, monkeypatch, receiver, engine):
    url = str(tmp_path / "queue.db") if engine == "file" else request.getfixturevalue("postgres_url")
    settings = tmp_path / "standfast.toml"
    surface = f'[notify.surfaces.ops]\nwebhook = "{receiver.url("/ops")}"\n'
    settings.write_text(f"{surface}[queues.mail]\ndepth_warning = 0\n")
    monkeypatch.setenv("STANDFAST_CONFIG", str(settings))
    async with Standfast(url) as sf:
        watchers = Watchers(url)
        try:
            for number in range(1, ROUNDS + 1):
                receipt = await sf.enqueue("mail", {})
                watchers.kill_one()
                await heard(receiver, "started", number)
                await sf.cancel(receipt.id)
                watchers.kill_one()
                await heard(receiver, "ended", number)
        finally:
            watchers.end()
        assert set(told_of_depth(receiver).values()) == {1}
        counters = (await sf.stats())["queues"]["mail"]["counters"]
        assert (counters["depth_warning"], counters["depth_normal"]) == (ROUNDS, ROUNDS)
