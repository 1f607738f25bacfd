"""Live notices over REST: in order, resumable, for whom they are, and without anybody being lost."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import httpx2
import msgspec
import pytest

from standfast import Permanent, Standfast, StoreUnavailable
from standfast.server import grant_cache, shutdown
from standfast.server.app import Server
from standfast.server.cookies import name_at
from standfast.spine import rounds as closing
from standfast.testing import FrozenClock, drain
from standfast.testing.kit import InMemory
from standfast.wings.notices import journal_reader
from standfast.wings.notices import routes as notices
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.notices.journal import journal
from standfast.wings.notices.words import row_of
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.doors.listening import Frame, Listener
from tests.postgres import PostgresServer, fresh_schema, in_schema
from tests.waiting import seen

PATH = "/api/v1/notices"


@pytest.fixture(params=["memory", "postgres"])
async def sf(request: pytest.FixtureRequest) -> AsyncIterator[InMemory]:
    """Give a queue with a handler that works and one that does not."""
    url = ":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url")
    made = InMemory(url, clock=FrozenClock())
    made.handler("echo")(lambda job: job.payload)

    @made.handler("refused")
    async def refused(_job: Any) -> None:
        raise Permanent("no")

    async with made:
        yield made


class Stage:
    """A server, and tokens for it."""

    def __init__(self, sf: Standfast) -> None:
        self.sf = sf
        self.server = Server(sf)
        self._names = 0

    async def shown(self, role: str = "viewer", **scope: Any) -> dict[str, str]:
        """Give the header that shows a new token."""
        self._names += 1
        made = await self.sf.tokens.create(f"t{self._names}", person="p", role=role, **scope)
        return {"authorization": f"Bearer {made['token']}"}

    def listener(self, query: str = "", path: str = PATH, **headers: str) -> Listener:
        """Give somebody who listens."""
        return Listener(self.server.app, f"{path}?{query}" if query else path, **headers)


@pytest.fixture
async def stage(sf: InMemory) -> AsyncIterator[Stage]:
    made = Stage(sf)
    yield made
    await made.server.close()


def kinds(found: list[Frame]) -> list[str]:
    return [each.data["data"]["kind"] for each in found]


async def test_notices_come_as_cloud_events_in_order_and_resume_anywhere(sf: InMemory, stage: Stage) -> None:
    viewer = await stage.shown()
    async with stage.listener(**viewer) as listener:
        assert (listener.status, listener.headers["content-type"]) == (200, "text/event-stream")
        assert listener.headers["cache-control"] == "no-store"
        job = str((await sf.enqueue("refused", {"api_key": "k3y"})).id)
        await drain(sf)
        whole = await listener.next(3)
        assert [each.told for each in whole] == [("enqueued", job), ("claimed", job), ("dead_letter", job)]
        assert b"k3y" not in listener.body
    event = whole[2].data
    assert event.items() >= {"specversion": "1.0", "source": "/standfast", "type": "dev.standfast.dead_letter"}.items()
    assert event["data"] == {"kind": "dead_letter", "job": job, "queue": "refused"}
    assert event["id"] == str(whole[2].id)
    assert datetime.fromisoformat(event["time"]).tzinfo is not None
    for place, each in enumerate(whole[:2]):
        async with stage.listener(f"after={each.id}", **viewer) as listener:
            assert await listener.next(2 - place) == whole[place + 1 :]
    async with stage.listener("after=0", **viewer, last_event_id=str(whole[1].id)) as listener:
        assert await listener.next() == whole[2:], "where a reader that comes again was goes before the address"


async def test_a_reader_gets_what_it_asked_for_and_is_told_how_far_it_is(
    sf: InMemory, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "HEARTBEAT", 0.05)
    viewer = await stage.shown()
    async with stage.listener("kinds=completed,+held&queue=echo&after=0", **viewer) as listener:
        for queue in ("refused", "echo", "refused"):
            await sf.enqueue(queue)
        await drain(sf)
        assert kinds(await listener.next()) == ["completed"]
        await sf.enqueue("refused", 7)
        last = [notice async for notice in _some(sf, 10)][-1]
        await listener.seen(lambda it: (it.frames[-1].id or 0) > last.seq)
        assert listener.frames[-1].comment == "here"
    for query, status in (("kinds=born", 422), ("after=-1", 422), ("after=x", 422), ("queues=a", 422)):
        async with stage.listener(query, **viewer) as refused:
            assert (refused.status, b'"hint"' in refused.body) == (status, True), query
    async with stage.listener(**viewer, last_event_id="yesterday") as refused:
        assert refused.status == 422


async def _some(sf: Standfast, number: int) -> AsyncIterator[Any]:
    async for notice in sf.subscribe(after=0):
        yield notice
        number -= 1
        if not number:
            return


async def test_a_token_for_some_queues_hears_of_no_other(sf: InMemory, stage: Stage) -> None:
    scoped = await stage.shown("admin", queues=["echo"])
    async with stage.listener("after=0", **scoped) as listener:
        await sf.enqueue("refused")
        await sf.policy.load("version: v1\n")  # about no queue: nothing that some queues' token hears of
        await sf.enqueue("echo")
        assert [each.data["data"]["queue"] for each in await listener.next()] == ["echo"]
        await sf.schedules.add("nightly", "echo", cron="0 0 * * *")
        [nightly] = await listener.next()
        assert (nightly.told, nightly.data["data"]["schedule"]) == (("schedule_added", "nightly"), "nightly")
    assert b"refused" not in listener.body
    assert b"policy" not in listener.body
    async with stage.listener("queue=refused", **scoped) as refused:
        assert refused.status == 403
    async with stage.listener(**await stage.shown("producer")) as refused:
        assert refused.status == 403
    async with stage.listener() as refused:
        assert refused.status == 401


async def test_a_revoked_token_hears_no_more(sf: InMemory, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "RECHECK", 0.02)
    monkeypatch.setattr(grant_cache, "LASTS", 0.0)
    monkeypatch.setattr(notices, "LAST_WORD", 0.01)
    revoked, other = await stage.shown(), await stage.shown()
    async with (
        stage.listener(**revoked) as listener,
        stage.listener("queue=refused", **revoked) as stuck,
        stage.listener(**other) as goes_on,
    ):
        stuck.taking.clear()
        await sf.enqueue("refused")
        await listener.next()
        await sf.tokens.revoke("t1")
        assert (await listener.over()).ended
        await stuck.over()  # also one that takes nothing, and so would never be asked between two notices
        await sf.enqueue("echo")
        assert kinds(await goes_on.next(2)) == ["enqueued"] * 2
        assert len(listener.notices) == 1


async def test_what_is_no_longer_kept_is_told_as_gone_and_it_goes_on_from_there(sf: InMemory, stage: Stage) -> None:
    viewer = await stage.shown()
    for n in range(3):
        await sf.enqueue("echo", n)
    [first, *_] = [notice async for notice in _some(sf, 3)]
    sf.clock.advance(2 * 86400)
    await sf.enqueue("echo", 4)
    await journal(sf._store, 3, 10)  # noqa: SLF001 - on PostgreSQL somebody numbers it
    await sf._store.write(upkeep.prune, PruneRequest())  # noqa: SLF001
    await sf._journals.close()  # noqa: SLF001 - as in a process that did not see it
    async with stage.listener(f"after={first.seq}&kinds=held", **viewer) as listener:
        [gone] = await listener.next()
        assert gone.event == "gone"
        assert gone.data["data"].items() >= {"kind": "gap", "transactions": 2}.items()
    oldest = gone.data["data"]["oldest"]
    async with stage.listener(f"after={gone.id}", **viewer) as listener:
        assert [(each.id, *each.told[:1]) for each in await listener.next()] == [(oldest, "enqueued")]
    async with stage.listener(f"after={oldest + (1 << 40)}", **viewer) as listener:
        await sf.enqueue("echo", 5)
        ahead, following_ = await listener.next(2)
        assert (ahead.event, kinds([following_])) == ("gone", ["enqueued"]), "a number of another store"


@pytest.mark.parametrize("ahead", [1, 1000])
async def test_a_number_of_another_store_deafens_nobody(sf: InMemory, ahead: int) -> None:
    """Also where nothing was told yet: the store was deleted, and a page of before comes again."""
    stranger = await sf.reader(after=(await sf._store.read(journal_scripts.last_journal_number()) + ahead << 20) + 5)  # noqa: SLF001
    assert [notice.kind for notice in await stranger.more(0)] == ["gap"]
    other = await sf.reader()
    job = (await sf.enqueue("echo")).id
    for reader in (stranger, other):
        assert [notice.job for notice in await reader.more(15)] == [job]


async def test_what_is_told_at_once_is_read_in_portions_and_others_have_their_turn(
    sf: InMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "NOTICES_A_ROW", 4)
    monkeypatch.setattr(journal_reader, "NOTICES_AT_ONCE", 3)
    reader = await sf.reader()
    before = row_of(reader.seq)
    jobs = [made.id for made in await sf.enqueue_many("echo", range(10))]
    turns: list[int] = []
    heard: list[str | None] = []
    while len(heard) < len(jobs):
        asyncio.get_running_loop().call_soon(turns.append, len(heard))
        heard += [notice.job for notice in await reader.more(15)]
        assert turns[-1] == len(heard) // 3 * 3 - 3 or len(heard) == len(jobs)
        again = await sf.reader(after=reader.seq)
        assert [notice.job for notice in await again.more(0)] == jobs[len(heard) : len(heard) + 3]
    assert heard == jobs
    rows = await journal(sf._store, before, 100)  # noqa: SLF001
    assert [row.entries.count(",") - 1 for row in rows] == [4, 4, 2]


async def test_a_reader_that_does_not_read_loses_nothing_and_keeps_little(
    sf: InMemory, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on by its place in the journal, long after what is at hand has moved on."""
    monkeypatch.setattr(journal_reader, "KEPT_ROWS", 3)
    monkeypatch.setattr(journal_reader, "ROWS_A_READER", 2)
    monkeypatch.setattr(journal_reader, "LOOK_EVERY", 0.01)
    viewer = await stage.shown()
    async with stage.listener(**viewer) as slow, stage.listener(**viewer) as quick:
        slow.taking.clear()
        for n in range(30):
            await sf.enqueue("echo", n)
            await quick.next()
        assert slow.notices == []
        [at_hand] = sf._journals._of.values()  # noqa: SLF001
        assert len(at_hand._rows) <= 3  # noqa: SLF001
        slow.taking.set()
        assert await slow.next(30) == quick.notices


async def test_many_readers_cost_the_store_one_look(
    sf: InMemory, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = await stage.shown()
    came: list[int] = []

    async def counted(store: Any, after: int, limit: int) -> Any:
        found = await journal(store, after, limit)
        came.extend(row.seq for row in found)
        return found

    listeners = [stage.listener(**viewer) for _ in range(200)]
    monkeypatch.setattr(journal_reader, "journal", counted)
    await asyncio.gather(*(each.__aenter__() for each in listeners))
    try:
        await sf.enqueue("echo")
        told = await asyncio.gather(*(each.next() for each in listeners))
        [number] = {frames[0].id for frames in told}
        assert came.count(row_of(number or 0)) == 1, "nobody read it again for another"
    finally:
        await asyncio.gather(*(each.__aexit__(None, None, None) for each in listeners))


async def test_more_readers_than_are_served_are_told_so(sf: InMemory) -> None:
    sf.settings = msgspec.structs.replace(sf.settings, readers=1)
    stage = Stage(sf)
    viewer = await stage.shown()
    async with stage.listener(**viewer) as first:
        async with stage.listener(**viewer) as refused:
            assert (refused.status, b"too-many-readers" in refused.body) == (503, True)
            assert refused.headers["retry-after"]
        first.hang_up()
        await first.over()
        async with stage.listener(**viewer) as second:
            assert second.status == 200


async def test_a_browser_listens_with_its_cookie_and_only_to_its_own_server(sf: InMemory, stage: Stage) -> None:
    address = "http://127.0.0.1"
    token = (await sf.tokens.create("b", person="bea", role="viewer"))["id"]
    cookie = {"cookie": f"{name_at(address)}={await sf.browser_sessions.open(token, address)}"}
    async with stage.listener(**cookie, sec_fetch_site="same-origin") as listener:
        await sf.enqueue("echo")
        assert kinds(await listener.next()) == ["enqueued"]
    for elsewhere in ({"origin": "http://127.0.0.1:9"}, {"sec_fetch_site": "same-site"}, {"origin": "null"}):
        async with stage.listener(**cookie, **elsewhere) as refused:
            assert refused.status == 403, elsewhere


async def test_streams_end_with_their_server_also_those_nobody_reads(sf: InMemory, stage: Stage) -> None:
    viewer = await stage.shown()
    async with stage.listener(**viewer) as listener, stage.listener(**viewer) as stuck:
        stuck.taking.clear()
        await sf.enqueue("echo")
        await listener.next()
        await stage.server.close()
        assert (await listener.over()).ended
        await stuck.over()
    async with Listener(stage.server.app, PATH, "HEAD", **viewer) as head:
        assert (head.status, head.body) == (200, b"")


async def test_a_stream_ends_after_a_while_and_its_reader_comes_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "LONGEST", 0.02)
    async with stage.listener(**await stage.shown()) as listener:
        assert b"retry: 2000" in (await listener.over()).body


async def test_a_signal_is_heard_beside_whoever_handles_it() -> None:
    """A server that an application runs waits for connections before it tells of the end: it is too late then."""
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    ending = shutdown.Shutdown()
    try:
        with ending.on_signals():
            signal.raise_signal(signal.SIGTERM)
            await asyncio.wait_for(ending.wait(), 5)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM] * 2


async def test_who_waits_for_a_call_is_let_go_when_the_server_ends() -> None:
    """The call goes on without them; what cannot say so is refused."""
    done = asyncio.Event()
    async with Standfast(":memory:") as sf:
        sf.handler("slow")(lambda _job: done.wait())
        stage = Stage(sf)
        shown = await stage.shown("producer")
        transport = httpx2.ASGITransport(app=stage.server.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=shown) as client:
            asked = asyncio.ensure_future(client.post("/api/v1/run", json={"handler": "slow"}))
            await seen(lambda: sf.jobs(state="running"))
            await stage.server.close()
            assert (await asyncio.wait_for(asked, 10)).json()["status"] == "running"
        done.set()

    async def never(_scope: Any, _receive: Any, _send: Any) -> None:
        await asyncio.Event().wait()

    over = shutdown.Shutdown()
    waiting = Listener(shutdown.UntilShutdown(never, over))
    waiting.answered = False
    async with waiting:
        over.begin()
        await waiting.over()
    assert (waiting.status, b"the server ends" in waiting.body) == (503, True)


@pytest.mark.long  # a server is stopped and started
async def test_a_stream_outlives_an_outage_of_the_store(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "RECHECK", 0.05)
    monkeypatch.setattr(grant_cache, "LASTS", 0.0)
    async with Standfast(in_schema(own_server.url, fresh_schema())) as sf:
        stage = Stage(sf)
        async with stage.listener(**await stage.shown()) as listener:
            await sf.enqueue("echo", 1)
            assert kinds(await listener.next()) == ["enqueued"]
            own_server.stop("immediate")
            with pytest.raises(StoreUnavailable):
                await sf.stats()
            own_server.start()
            while True:
                with suppress(StoreUnavailable):
                    await sf.stats()
                    break
            await sf.enqueue("echo", 2)
            assert kinds(await listener.next()) == ["enqueued"]
            assert not listener.ended
        await stage.server.close()
