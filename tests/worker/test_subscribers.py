"""Webhooks that subscribe to notices: each notice once, none lost, and none about the queue that carries them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from standfast import ConfigurationError, Standfast
from standfast.testing import FrozenClock, drain
from standfast.testing.kit import InMemory
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts import subscribers
from standfast.wings.alerts.cursors import Cursors
from standfast.wings.alerts.subscribers import QUEUE, Subscriptions
from standfast.wings.alerts.surfaces import QUEUE as ALERTS
from standfast.wings.alerts.surfaces import read
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.notices.journal import journal
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.doors.processes import PACKAGES, WorkerProcess
from tests.waiting import seen
from tests.worker.surfaces import SECRET, Sinks, _receiver, receiver

__all__ = ["_receiver", "receiver"]


class Subscribed:
    """Makes queues whose `standfast.toml` names subscribers."""

    def __init__(self, place: Path, patch: pytest.MonkeyPatch, url: str) -> None:
        self._file = place / "standfast.toml"
        self._patch = patch
        self._url = url

    def __call__(self, text: str) -> InMemory:
        self._file.write_text(text)
        self._patch.setenv("STANDFAST_CONFIG", str(self._file))
        sf = InMemory(self._url, clock=FrozenClock())
        sf.handler("mail")(lambda job: job.payload)
        sf.worker()  # which has the handler of subscribers served
        return sf


@pytest.fixture(params=["memory", "postgres"])
def subscribed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Subscribed:
    url = ":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url")
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    return Subscribed(tmp_path, monkeypatch, url)


def one(receiver: Sinks, more: str = "", path: str = "/hook", **query: str) -> str:
    return f'[notify.subscribers.crm]\nwebhook = "{receiver.url(path, **query)}"\nsecret_env = "HOOK_SECRET"\n{more}\n'


def another_carrier(sf: Standfast) -> Subscriptions:
    return Subscriptions(sf._store, sf._acceptor, sf._notify, Cursors(sf._store, sf._notify))  # noqa: SLF001


def carrier(sf: Standfast) -> Subscriptions:
    return sf._subscriptions  # noqa: SLF001 - a worker carries by itself, and drain has no time for that


async def stored(sf: Standfast, queue: str, payload: Any, delay: float = 0.0) -> None:
    """Store what only we may bring to a queue that carries."""
    [job] = sf._acceptor.internal(queue, [payload])  # noqa: SLF001
    await sf._reception.accept(msgspec.structs.replace(job, delay=delay))  # noqa: SLF001


async def carried(sf: InMemory) -> None:
    await carrier(sf).carry()
    await drain(sf)


def whole(receiver: Sinks) -> list[dict[str, Any]]:
    """Give the requests that came to their end; whoever is killed may have sent only the head of one."""
    return [
        each for each in receiver.received() if len(each["body"].encode()) == int(each["headers"]["content-length"])
    ]


def told(receiver: Sinks) -> list[tuple[str, str | None]]:
    """Give what arrived, in the order it happened: requests overtake each other."""
    events = sorted((json.loads(each["body"]) for each in whole(receiver)), key=lambda event: int(event["id"]))
    return [(event["data"]["kind"], event.get("subject")) for event in events]


async def test_every_notice_that_fits_arrives_once_and_signed_and_none_about_itself(subscribed, receiver):
    async with subscribed(one(receiver, 'kinds = ["enqueued", "completed"]\nqueues = "ma*"')) as sf:
        await carrier(sf).carry()
        jobs = [str((await sf.enqueue(queue)).id) for queue in ("mail", "other", "mail")]
        await drain(sf)
        for _ in range(3):
            await carried(sf)
        kinds = {("enqueued", jobs[0]), ("enqueued", jobs[2]), ("completed", jobs[0]), ("completed", jobs[2])}
        assert {each for each in told(receiver) if each[1] in jobs} == kinds
        assert len(told(receiver)) == 4
        assert {job.queue for job in await sf.jobs()} == {"mail", "other", QUEUE}
        for each in receiver.received():
            headers = each["headers"]
            assert headers["content-type"] == "application/cloudevents+json"
            signed = ".".join((headers["webhook-id"], headers["webhook-timestamp"], each["body"])).encode()
            key = base64.b64decode(SECRET.removeprefix("whsec_"))
            digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
            assert headers["webhook-signature"] == f"v1,{digest}"


async def test_who_wants_everything_hears_of_no_queue_that_carries(subscribed, receiver):
    """Neither of its own nor of that of alerts, which may be about its own."""
    async with subscribed(one(receiver)) as sf:
        await carrier(sf).carry()
        for queue in (ALERTS, QUEUE):
            await stored(sf, queue, {}, delay=60.0)
        await sf.enqueue("mail", {}, delay=60)
        await carrier(sf).carry()
        waiting = [job.payload for job in await sf.jobs(queue=QUEUE)]
        assert [each["event"]["data"]["queue"] for each in waiting if each] == ["mail"]


async def test_alerts_do_not_wait_for_a_subscriber_that_hangs(tmp_path, monkeypatch, receiver):
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    file = tmp_path / "standfast.toml"
    ops = f'[notify.surfaces.ops]\nwebhook = "{receiver.url("/ops")}"\n'
    file.write_text(ops + one(receiver, path="/hung", do="slow", seconds="9"))
    monkeypatch.setenv("STANDFAST_CONFIG", str(file))
    async with Standfast(":memory:") as sf, sf.worker(queues=[], concurrency=1, grace=0):
        for number in range(2):
            await stored(sf, QUEUE, {"subscriber": "crm", "event": {"id": number}})
        await seen(receiver.received)
        alert = {"severity": "warning", "state": "started", "since": "", "message": "disk is low", "kind": "low_disk"}
        await stored(sf, ALERTS, {"surface": "ops", "alert": alert})
        await seen(lambda: "disk is low" in receiver.received()[-1]["body"], within=5)


async def test_however_many_carry_each_notice_is_sent_once(subscribed, receiver):
    async with subscribed(one(receiver, 'kinds = ["enqueued"]')) as sf:
        others = [another_carrier(sf) for _ in range(4)]
        await others[0].carry()
        jobs: list[str] = []
        for _ in range(4):
            jobs += [str((await sf.enqueue("mail")).id) for _ in range(3)]
            await asyncio.gather(*(other.carry() for other in others))
        await another_carrier(sf).carry()  # one that never carried before
        await drain(sf)
        assert told(receiver) == [("enqueued", job) for job in jobs]


async def test_a_place_is_moved_with_the_jobs_or_not_at_all(subscribed, receiver, monkeypatch):
    """Where the queue has no room for all of what was found, none of it is stored, and it is found again."""
    monkeypatch.setattr(subscribers, "NOTICES_AT_ONCE", 2)
    monkeypatch.setattr(subscribers, "JOBS_AT_ONCE", 1)
    more = 'kinds = ["enqueued"]\n[queues."standfast.subscribers"]\nmax_depth = 2'
    async with subscribed(one(receiver, more)) as sf:
        await carrier(sf).carry()
        jobs = [str(made.id) for made in await sf.enqueue_many("mail", [1, 2])]
        await carrier(sf).carry()
        jobs += [str(made.id) for made in await sf.enqueue_many("mail", [3, 4])]
        await carrier(sf).carry()
        waiting = await sf.jobs(queue=QUEUE)
        assert sorted(job.payload["event"]["subject"] for job in waiting) == sorted(jobs[:2])
        await drain(sf)
        await carried(sf)
        assert sorted(told(receiver)) == sorted(("enqueued", job) for job in jobs)


async def test_a_subscriber_that_is_down_gets_it_later_and_what_was_pruned_is_told(subscribed, receiver, monkeypatch):
    text = one(receiver, 'kinds = ["enqueued"]', status="503,200")
    async with subscribed(text) as sf:
        job = str((await sf.enqueue("mail", 2)).id)
        monkeypatch.delenv("HOOK_SECRET")
        await carried(sf)
        [(name, _, why)] = await sf._store.read(alerts.sinks())  # noqa: SLF001
        assert (name, "HOOK_SECRET" in why, told(receiver)) == ("subscriber crm", True, [])
        monkeypatch.setenv("HOOK_SECRET", SECRET)
        sf.clock.advance(60)
        await drain(sf)
        sf.clock.advance(60)
        await drain(sf)
        assert told(receiver) == [("enqueued", job)] * 2
        first, second = (each["headers"]["webhook-id"] for each in receiver.received())
        assert first == second
        for n in range(3):
            await sf.enqueue("mail", n)
        sf.clock.advance(2 * 86400)
        last = str((await sf.enqueue("mail", 3)).id)
        await journal(sf._store, await sf._store.read(journal_scripts.last_journal_number()) - 1, 1)  # noqa: SLF001
        await sf._store.write(upkeep.prune, PruneRequest())  # noqa: SLF001
        await carried(sf)
        assert told(receiver)[2:] == [("gap", None), ("enqueued", last)]


async def test_a_worker_carries_by_itself(tmp_path, monkeypatch, receiver):
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setattr(subscribers, "EVERY", 0.02)
    file = tmp_path / "standfast.toml"
    file.write_text(one(receiver, 'kinds = ["completed"]'))
    monkeypatch.setenv("STANDFAST_CONFIG", str(file))
    async with Standfast(str(tmp_path / "queue.db")) as sf:
        sf.handler("mail")(lambda job: job.payload)
        async with sf.worker(queues=["mail"]):
            job = str((await sf.enqueue("mail")).id)
            await seen(lambda: told(receiver) == [("completed", job)])


def test_a_subscriber_that_is_written_wrongly_is_said_in_one_line():
    for wrong, words in (
        ({"crm": {}}, "needs one of webhook"),
        ({"crm": {"apprise_env": "X"}}, "needs one of webhook"),
        ({"crm": {"webhook": "http://x", "kinds": ["born"]}}, "unknown kind 'born'"),
        ({"crm": {"webhook": "http://x", "kind": ["held"]}}, "kind"),
        ({"crm": 1}, "subscribers"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            read({"subscribers": wrong}, "standfast.toml")


@pytest.mark.long
@pytest.mark.parametrize("engine", ["file", "postgres"])
def test_nothing_is_lost_or_carried_twice_when_workers_are_killed(
    request: pytest.FixtureRequest, tmp_path: Path, receiver: Sinks, engine: str
) -> None:
    """Two workers carry; one after the other is killed in the middle of it, and others follow."""
    url = str(tmp_path / "queue.db") if engine == "file" else request.getfixturevalue("postgres_url")
    (tmp_path / "standfast.toml").write_text(
        one(receiver, 'kinds = ["enqueued"]\n[queues."standfast.subscribers"]\nlease = 2')
    )
    (tmp_path / "carrying.py").write_text(APP.format(url=url))
    around = {"PYTHONPATH": f"{PACKAGES}:{tmp_path}", "STANDFAST_CONFIG": str(tmp_path / "standfast.toml")}
    jobs: list[str] = []
    with ExitStack() as stack:
        workers = [_worker(stack, around | {"HOOK_SECRET": SECRET}) for _ in range(2)]
        asyncio.run(_subscribed(url))
        for _ in range(4):
            jobs += asyncio.run(_enqueued(url, 30))
            workers.pop(0).process.kill()
            workers.append(_worker(stack, around | {"HOOK_SECRET": SECRET}))
        asyncio.run(seen(lambda: {subject for _, subject in told(receiver)} >= set(jobs), within=50))
    carried_by: dict[str, set[str]] = {}
    for each in whole(receiver):
        carried_by.setdefault(json.loads(each["body"])["id"], set()).add(each["headers"]["webhook-id"])
    assert {len(carriers) for carriers in carried_by.values()} == {1}, "sent again, perhaps; but by one job"


APP = """
from standfast import Standfast
from standfast.wings.alerts import subscribers
subscribers.EVERY = 0.02
sf = Standfast({url!r})
sf.handler("mail")(lambda job: None)
sf.queue("mail", lease=2)
"""


def _worker(stack: ExitStack, around: dict[str, str]) -> WorkerProcess:
    made = stack.enter_context(WorkerProcess("carrying:sf", **around))
    made.says("work")
    return made


async def _subscribed(url: str) -> None:
    """Wait until somebody carries: what was told before is no news."""
    async with Standfast(url) as sf:

        async def place() -> bool:
            return await sf._store.read(alerts.followed("subscriber crm")) is not None  # noqa: SLF001

        await seen(place)


async def _enqueued(url: str, number: int) -> list[str]:
    async with Standfast(url) as sf:
        return [str((await sf.enqueue("mail", n)).id) for n in range(number)]
