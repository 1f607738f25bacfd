"""Declarations reach the store: whenever they are made, whoever publishes beside it, and from a forked child too."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from standfast import ConfigurationError, Standfast, UnknownQueue
from standfast.application import standfast as application
from standfast.spine.claim_requests import Publication
from standfast.store.store import Store
from standfast.testing import memory
from standfast.testing.kit import InMemory
from standfast.wings.queues import publishing as publishing_scripts
from standfast.worker import worker as worker_module
from tests.waiting import ended, seen

PATIENCE = 10.0


class Publishing:
    """Holds publications up: `begun` says that one has come, `go` lets it pass."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self._publish = publishing_scripts.publish

    def __call__(self, store: Store, publication: Publication) -> None:
        self.begun.set()
        assert self.go.wait(PATIENCE)
        self._publish(store, publication)


@pytest.fixture
def publishing(monkeypatch: pytest.MonkeyPatch) -> Publishing:
    held = Publishing()
    monkeypatch.setattr(publishing_scripts, "publish", held)
    return held


async def rules_in_force(sf: Standfast, queue: str) -> Any:
    return (await sf.queues.describe())[queue]["rules"]


async def test_what_is_declared_while_another_thread_publishes_is_published_too(disk, publishing):
    disk.queue("mail")
    opening = asyncio.create_task(disk.open())
    assert await asyncio.to_thread(publishing.begun.wait, PATIENCE)
    disk.queue("chat", attempts=9)
    publishing.go.set()
    await opening
    await disk.enqueue("chat", 1)
    assert (await rules_in_force(disk, "chat")).attempts == 9


async def test_nothing_is_stored_before_what_is_being_published_is_in_force(disk, publishing):
    disk.queue("mail", max_depth=1)
    calls = [asyncio.create_task(disk.enqueue("mail", number)) for number in range(2)]
    assert await asyncio.to_thread(publishing.begun.wait, PATIENCE)
    await asyncio.sleep(0)
    assert not any(call.done() for call in calls)
    publishing.go.set()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer).__name__ for answer in answers] == ["Receipt", "Backpressure"]


# --- across a fork


@contextmanager
def thread_in(work: Callable[[], Any]) -> Iterator[None]:
    """Have another thread do something while this one forks."""
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join(PATIENCE)


def in_child(work: Callable[[], bool]) -> bool:
    """Do something in a forked child; tell whether it came out true, and in time."""
    child = os.fork()
    if child == 0:
        threading.Timer(PATIENCE, os._exit, (2,)).start()
        os._exit(0 if work() else 1)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_forked_while_another_thread_publishes_can_work(path, publishing, monkeypatch):
    sf = Standfast(path)
    sf.queue("mail")

    def enqueue_in_child() -> bool:
        monkeypatch.undo()
        return sf.enqueue_sync("mail", 2).outcome == "accepted"

    with thread_in(lambda: sf.enqueue_sync("mail", 1)):
        assert publishing.begun.wait(PATIENCE)
        worked = in_child(enqueue_in_child)
        publishing.go.set()
    asyncio.run(sf.close())
    assert worked


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_forked_while_another_thread_makes_the_default_can_make_its_own(monkeypatch):
    begun, go = threading.Event(), threading.Event()

    class Slow(Standfast):
        def __init__(self) -> None:
            begun.set()
            assert go.wait(PATIENCE)
            super().__init__(":memory:")

    def default_of_child() -> bool:
        vars(application)["Standfast"] = Standfast
        os.environ["STANDFAST_URL"] = ":memory:"
        return type(application.default()) is Standfast

    monkeypatch.setattr(application, "_default", [])
    monkeypatch.setattr(application, "Standfast", Slow)
    with thread_in(application.default):
        assert begun.wait(PATIENCE)
        worked = in_child(default_of_child)
        go.set()
    assert worked


# --- strict queues


@pytest.fixture
def strict(tmp_path, monkeypatch) -> Callable[[], InMemory]:
    file = tmp_path / "standfast.toml"
    file.write_text("[store]\nstrict_queues = true\n[queues.named]\n")
    monkeypatch.setenv("STANDFAST_CONFIG", str(file))
    return memory


async def test_strict_takes_what_is_declared_here_in_any_way(strict):
    async with strict() as sf:
        sf.queue("declared")
        sf.handler("handled")(print)
        for queue in ("declared", "handled", "named"):
            assert (await sf.enqueue(queue, 1)).outcome == "accepted"
            assert (await asyncio.to_thread(sf.enqueue_sync, queue, 1)).outcome == "accepted"


@pytest.mark.parametrize("queue", ["typo", "analytics_ingest"])
async def test_strict_refuses_what_nobody_declared_a_profile_too(strict, queue):
    async with strict() as sf:
        with pytest.raises(UnknownQueue, match="strict_queues is on; declare it first"):
            await sf.enqueue(queue, 1)
        with pytest.raises(UnknownQueue):
            await asyncio.to_thread(sf.enqueue_sync, queue, 1)
        with pytest.raises(UnknownQueue):
            await sf.enqueue_many(queue, [1, 2])
        assert await sf.queues.list() == ["named"]


@pytest.mark.usefixtures("strict")
async def test_strict_takes_what_another_process_declared_and_not_what_one_only_used(url, monkeypatch):
    with monkeypatch.context() as lax:
        lax.delenv("STANDFAST_CONFIG")
        other = Standfast(url)
    other.queue("declared")
    other.handler("handled")(print)
    await other.enqueue("used", 1)
    sf = Standfast(url)
    for queue in ("declared", "handled"):
        assert (await sf.enqueue(queue, 1)).outcome == "accepted"
    with pytest.raises(UnknownQueue):
        await sf.enqueue("used", 1)
    await sf.close()
    await other.close()


@pytest.mark.usefixtures("strict")
async def test_a_strict_refusal_makes_no_store(tmp_path):
    sf = Standfast(str(tmp_path / "not" / "there.db"))
    with pytest.raises(UnknownQueue):
        await sf.enqueue("typo", 1)
    assert not (tmp_path / "not").exists()


async def test_what_the_file_overrules_is_said_once_when_it_is_published(tmp_path, monkeypatch, caplog):
    """Operators override code; whoever reads the code must be able to find out."""
    caplog.set_level(logging.INFO, "standfast.queue")
    (tmp_path / "standfast.toml").write_text("[queues.mail]\nattempts = 3\nlease = 30\npriority = 7\n")
    monkeypatch.chdir(tmp_path)
    sf = memory()
    assert sf.queue("mail", attempts=10, priority=7, timeout=60).attempts == 3
    assert caplog.messages == []
    async with sf:
        await sf.enqueue("mail")
        sf.queue("chat", attempts=10)
        await sf.enqueue("chat")
    assert caplog.messages == ["queue mail: the settings file overrules what the code says of attempts"]


# --- handlers and the workers that are there already


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
@pytest.mark.parametrize("queues", [None, ["mail"]])
async def test_a_handler_that_is_registered_while_a_worker_runs_is_served(disk, monkeypatch, queues, plain):
    monkeypatch.setattr(worker_module, "POLL_EVERY", 0.02)
    async with disk.worker(queues):
        receipt = await disk.enqueue("mail")
        assert "No process has declared a handler 'mail'" in await disk.explain(receipt.id)

        async def handler(_job: Any) -> str:
            return "sent"

        disk.handler("mail")((lambda _job: "sent") if plain else handler)
        assert (await ended(disk, receipt.id)).result == "sent"

        async def served() -> bool:
            return bool((await disk.queues.describe())["mail"]["workers"])

        await seen(served, within=5)  # a worker that does not hurry tells at its next beat, after ten


async def test_a_worker_says_which_queues_no_handler_here_serves(disk, caplog):
    disk.handler("mail")(lambda _job: None)
    async with Standfast(disk.settings.url.value) as bare, bare.worker(["mail", "mial"]):
        assert "no handler here serves queue mail:" in caplog.text
        assert "no handler here serves queue mial:" in caplog.text
        receipt = await disk.enqueue("mail")
        assert "No live worker serves queue mail" in await disk.explain(receipt.id)
    caplog.clear()
    async with disk.worker(["mail"]):
        assert "no handler here" not in caplog.text


async def test_a_second_declaration_of_a_queue_changes_only_the_rules_that_it_names(disk):
    disk.queue("mail", attempts=9, keep_completed=60)
    disk.queue("mail", timeout=None, keep_completed=90)
    with pytest.raises(ConfigurationError):
        disk.queue("mail", attempts=-1)
    disk.queue("mail", lease=30)
    await disk.enqueue("mail", 1)
    rules = await rules_in_force(disk, "mail")
    assert (rules.attempts, rules.timeout, rules.keep_completed, rules.lease) == (9, None, 90, 30)
