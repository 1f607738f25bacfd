"""Sinks hear of everything from a worker's first claim on, and of nothing that was before they were configured."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from standfast import Permanent, Standfast
from standfast.wings.alerts import scripts
from standfast.wings.alerts.cursors import ALERTS, of_subscriber
from tests.waiting import ended, seen
from tests.worker.inside import store_of
from tests.worker.processes import environment
from tests.worker.surfaces import SECRET, Sinks, _receiver, receiver

__all__ = ["_receiver", "receiver"]

DYING = Path(__file__).with_name("dying.py")


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Sinks) -> Path:
    """Name a surface and a subscriber in a settings file; give the file."""
    file = tmp_path / "standfast.toml"
    file.write_text(
        f'[notify]\nsettle = 0\n[notify.surfaces.ops]\nwebhook = "{receiver.url("/ops")}"\n'
        f'[notify.subscribers.crm]\nwebhook = "{receiver.url("/crm")}"\nkinds = ["dead_letter"]\n'
    )
    monkeypatch.setenv("OPS_SECRET", SECRET)
    monkeypatch.setenv("STANDFAST_CONFIG", str(file))
    monkeypatch.setattr("standfast.application.standfast.FOLLOW_EVERY", 0.05)
    monkeypatch.setattr("standfast.wings.alerts.subscribers.EVERY", 0.05)
    return file


def application(url: str) -> Standfast:
    """Make a queue whose jobs die at once."""
    sf = Standfast(url)

    @sf.handler("mail")
    async def mail(job: Any) -> None:
        raise Permanent(job.payload["why"])

    return sf


def alerts(receiver: Sinks) -> list[str]:
    """Give the messages of the letters that the surface was told of."""
    return [each["data"]["message"] for each in _bodies(receiver, "/ops")]


def notices(receiver: Sinks) -> list[str]:
    """Give the jobs that the subscriber was told of."""
    return [each["subject"] for each in _bodies(receiver, "/crm")]


def _bodies(receiver: Sinks, path: str) -> list[dict[str, Any]]:
    """Give what came to a sink, once for each delivery: a killed one is repeated under the same id."""
    came = [each for each in receiver.received() if each["path"].endswith(path)]
    return list({each["headers"]["webhook-id"]: json.loads(each["body"]) for each in came}.values())


def killed_worker(url: str, when: str) -> subprocess.CompletedProcess[str]:
    """Run a worker that is killed at this moment."""
    command = [sys.executable, str(DYING), url, when]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)


async def places(sf: Standfast) -> list[int | None]:
    store = store_of(sf)
    return [await store.read(scripts.followed(name)) for name in (ALERTS, of_subscriber("crm"))]


@pytest.mark.usefixtures("configured")
async def test_the_letter_of_a_workers_first_job_is_told(url, receiver):
    async with application(url) as sf:
        receipt = await sf.enqueue("mail", {"why": "no such address"})
        async with sf.worker():
            await seen(lambda: alerts(receiver) and notices(receiver))
        assert "no such address" in alerts(receiver)[0]
        assert notices(receiver) == [receipt.id]


@pytest.mark.usefixtures("configured")
async def test_a_letter_that_came_before_any_worker_is_told(url, receiver):
    """`run` and `hand_over` make letters in a process that follows nothing."""
    async with application(url) as sf:
        called = await sf.run("mail", {"why": "called"})
        handed = await sf.hand_over("mail", {"why": "handed over"}, Permanent("handed over"))
    async with application(url) as sf, sf.worker():
        await seen(lambda: len(notices(receiver)) == 2)
        await seen(lambda: len(alerts(receiver)) == 2)
    assert {*notices(receiver)} == {called["operation_id"], handed["operation_id"]}


async def test_a_sink_that_is_new_on_an_old_store_is_not_told_the_past(url, receiver, request):
    async with application(url) as old, old.worker():
        for n in range(3):
            await ended(old, (await old.enqueue("mail", {"why": f"long ago {n}"})).id)
    request.getfixturevalue("configured")
    async with application(url) as sf, sf.worker():
        receipt = await sf.enqueue("mail", {"why": "just now"})
        await seen(lambda: alerts(receiver) and notices(receiver))
        assert ("just now" in alerts(receiver)[0], notices(receiver)) == (True, [receipt.id])


@pytest.mark.usefixtures("configured")
async def test_processes_that_start_at_once_agree_where_a_sink_begins(url):
    async with application(url) as writer:
        begun = await places(writer)
        await writer.enqueue_many("mail", [{"why": str(n)} for n in range(3)])
        others = [application(url) for _ in range(4)]
        await asyncio.gather(*(other.open() for other in others))
        assert [await places(other) for other in others] == [begun] * 4
        for other in others:
            await other.close()


@pytest.mark.usefixtures("configured")
async def test_a_store_that_was_made_anew_is_followed_from_its_beginning(receiver):
    """Where the same object is used on it, numbers of the old store say nothing about the new one."""
    sf = application(":memory:")
    async with sf, sf.worker():
        for n in range(5):
            await ended(sf, (await sf.enqueue("mail", {"why": f"old {n}"})).id)
        await seen(lambda: len(notices(receiver)) == 5)
    async with sf, sf.worker():
        receipt = await sf.enqueue("mail", {"why": "new"})
        await seen(lambda: receipt.id in notices(receiver))


@pytest.mark.parametrize("when", ["before the first claim", "after the first death"])
@pytest.mark.usefixtures("configured")
async def test_a_worker_that_is_killed_in_its_first_second_leaves_its_letters_to_be_told(url, receiver, when):
    killed = await asyncio.to_thread(killed_worker, url, when)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    async with application(url) as sf:
        [job] = await sf.jobs(queue="mail")
        assert job.state == ("queued" if when == "before the first claim" else "dead")
        async with sf.worker():
            await seen(lambda: alerts(receiver) and notices(receiver))
    assert notices(receiver) == [job.id]
