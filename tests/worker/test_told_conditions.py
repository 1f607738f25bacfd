"""Surfaces are told of every beginning and every end, once and in order; pain has its pace."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from standfast import Standfast, Transient
from standfast.concurrency.flows import Answer
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.wings.alerts import announcer, phrasing
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.announcer import Announcer, pain_told, tell
from standfast.wings.alerts.phrasing import pain
from standfast.wings.alerts.phrasing import told as told_as
from standfast.wings.alerts.scripts import Word
from standfast.wings.alerts.sinks import Sinks as NotedSinks
from standfast.wings.alerts.surfaces import QUEUE
from tests.between import between
from tests.waiting import seen
from tests.worker.inside import store_of
from tests.worker.surfaces import Sinks, _receiver, alerting, one_webhook, receiver, told
from tests.worker.wrongs import FULL, cancel_all, edges, fill, fill_disk, free_disk, looked, open_alerts

__all__ = ["_receiver", "alerting", "receiver"]


# --- surfaces


def teller(sf: Standfast) -> Announcer:
    return Announcer(sf._store, sf._acceptor, sf._notify)  # noqa: SLF001 - a worker tells by itself, and drain has no time


async def tried(sf: InMemory, times: int = 1) -> None:
    """Tell, and carry out what is due, so many times, with a minute of looking in between."""
    for _ in range(times):
        await asyncio.gather(teller(sf).announce(), teller(sf).announce())
        await drain(sf)
        await looked(sf, 2, apart=30, lookouts=1)


def only(surface: str, *kinds: str) -> str:
    """Route only these kinds there: nobody works or sweeps in these tests, and that is told, too."""
    return f'[[notify.routes]]\nkind = {list(kinds)}\nsurfaces = "{surface}"\n'


def carried(sf: InMemory) -> None:
    """Have this queue carry alerts out, and nothing but alerts."""
    sf._alerting()  # noqa: SLF001 - as a worker has it


async def test_a_sink_that_is_down_gets_the_beginning_and_then_the_end_once_each(alerting, monkeypatch, receiver):
    async with alerting(one_webhook(receiver, status="503,503,503,503,503,200") + only("ops", "low_disk")) as sf:
        carried(sf)
        await looked(sf)
        await fill_disk(sf, monkeypatch)
        await looked(sf)
        await tried(sf)
        await free_disk(sf, monkeypatch)
        await tried(sf, 5)
        assert len(await sf.jobs(queue=QUEUE)) == 2, "it is over before anybody heard that it began"
        await tried(sf, 4)
        assert len(receiver.received()) == 7
        assert len({each["headers"]["webhook-id"] for each in receiver.received()[:6]}) == 1
        begun, over = told(receiver)[5:]
        assert [begun["type"], over["type"]] == ["standfast.alert_started", "standfast.alert_ended"]
        assert begun["title"] == "standfast: disk is low: new work is refused (low_disk)"
        assert over["title"] == "standfast: over: disk is low: new work is refused (low_disk)"
        assert over["timestamp"] == over["data"]["until"] > over["data"]["since"] == begun["timestamp"]
        await tried(sf, 2)
        assert len(receiver.received()) == 7


async def test_a_beginning_that_was_written_and_not_told_is_told_by_the_next(alerting, monkeypatch, receiver):
    """Whoever wrote it was killed; then somebody who began to tell of it."""
    async with alerting(one_webhook(receiver)) as sf:
        carried(sf)
        await looked(sf)
        await fill(sf, monkeypatch)
        await looked(sf)
        with monkeypatch.context() as dying:
            dying.setattr(announcer, "store_bulk", lambda _round, _jobs: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await teller(sf).announce()
        assert await sf.jobs(queue=QUEUE) == []
        await tried(sf, 2)
        assert [each["data"]["kind"] for each in told(receiver)] == ["depth"]


async def test_what_a_process_without_surfaces_saw_is_told_by_one_that_has_some(alerting, monkeypatch, receiver):
    async with alerting(one_webhook(receiver)) as sf:
        carried(sf)
        blind = Announcer(sf._store, sf._acceptor, type(sf._notify)())  # noqa: SLF001
        await looked(sf)
        await fill(sf, monkeypatch)
        await looked(sf)
        await blind.announce()
        await cancel_all(sf, monkeypatch)
        await looked(sf, 2, apart=61)
        await blind.announce()
        await tried(sf, 2)
        assert [each["data"]["state"] for each in told(receiver)] == ["started", "ended"]


async def test_old_news_that_nobody_was_told_of_are_none(alerting, monkeypatch, receiver):
    async with alerting(one_webhook(receiver)) as sf:
        carried(sf)
        await looked(sf)
        await fill_disk(sf, monkeypatch)
        await looked(sf)
        await free_disk(sf, monkeypatch)
        await looked(sf, 2, apart=61)
        sf.clock.advance(3700)
        await tried(sf, 2)
        assert told(receiver) == []


async def test_a_dead_surface_is_told_to_the_others(alerting, monkeypatch, receiver):
    monkeypatch.setenv("NOWHERE", "http://127.0.0.1:9/")  # nobody listens there
    text = one_webhook(receiver) + '[notify.surfaces.gone]\nwebhook_env = "NOWHERE"\n'
    text += only("ops", "low_disk", "dead_sink") + only("gone", "low_disk", "dead_sink")
    async with alerting(text) as sf:
        carried(sf)
        await looked(sf)
        await fill_disk(sf, monkeypatch)
        await looked(sf)
        await tried(sf)
        [issue] = [each for each in (await sf.health())["issues"] if each.startswith("gone takes no alerts")]
        assert "Connect call failed" in issue
        await tried(sf, 6)
        assert [each["data"]["kind"] for each in told(receiver)] == ["low_disk", "dead_sink"]
        assert (await open_alerts(sf))["dead_sink:gone"]["queue"] is None
        monkeypatch.setenv("NOWHERE", receiver.url("/back"))
        await free_disk(sf, monkeypatch)
        await tried(sf, 9)
        assert "dead_sink:gone" not in await open_alerts(sf)
        kinds = [each["data"]["kind"] for each in told(receiver)]
        assert sorted(kinds) == ["dead_sink"] * 2 + ["low_disk"] * 4


async def test_of_many_deliveries_to_one_sink_only_news_are_written(alerting, monkeypatch):
    async with alerting("") as sf:
        await sf.open()
        store = store_of(sf)
        words: list[Word] = []

        async def note(written: Sequence[Word], noted: Answer[Any]) -> Any:
            words.extend(written)
            return await noted

        between(store, alerts.note_sinks, note, monkeypatch.setattr)
        sinks = NotedSinks(store, sf.clock)

        async def sent(error: Exception | None = None) -> dict[str, Any]:
            if error is not None:
                raise error
            return {}

        async def failing(seconds: float) -> None:
            with pytest.raises(Transient):
                await sinks.sent("ops", sent(Transient("Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345")))
            sf.clock.advance(seconds)

        await sinks.sent("ops", sent())
        assert words == [], "all is well, and was"
        for _ in range(50):
            await failing(0.1)
        [word] = words
        assert (word.name, "abcdefghij" in str(word.why)) == ("ops", False)
        await failing(5)
        [(name, since, _)] = await store.read(alerts.sinks())
        assert name == "ops"
        assert store_of(sf).now() - since == pytest.approx(10)
        await failing(0)
        assert len(words) == 2, "the reason may be another by now"
        assert await store.read(alerts.sinks()) == [(name, since, word.why)]
        await sinks.sent("ops", sent())
        await sinks.sent("ops", sent())
        assert (len(words), await store.read(alerts.sinks())) == (3, [])
        cut = asyncio.create_task(sinks.sent("ops", asyncio.sleep(60, {})))
        await asyncio.sleep(0)
        cut.cancel()
        await asyncio.wait([cut])
        assert len(words) == 3, "what was cut off says nothing"


def test_a_chat_is_told_in_words():
    told_of = partial(told_as, FULL, since="2026-11-16T08:00:00+00:00")
    began, over = told_of(state="started"), told_of(state="ended", until="2026-11-16T09:00:00+00:00")
    assert phrasing.title(began) == "standfast: disk is low (low_disk)"
    assert phrasing.body(began).endswith("started\nSince 2026-11-16T08:00:00+00:00.")
    assert phrasing.title(over) == "standfast: over: disk is low (low_disk)"
    assert phrasing.body(over) == "From 2026-11-16T08:00:00+00:00 to 2026-11-16T09:00:00+00:00."


async def test_routes_name_kinds_of_alerts(alerting, monkeypatch, receiver):
    async with alerting(one_webhook(receiver) + only("ops", "low_disk", "overdue")) as sf:
        carried(sf)
        await looked(sf)
        await fill(sf, monkeypatch)
        await fill_disk(sf, monkeypatch)
        await looked(sf)
        await tried(sf)
        assert [each["data"]["kind"] for each in told(receiver)] == ["low_disk"]


# --- pain


def pains(receiver: Sinks) -> list[dict[str, Any]]:
    return told(receiver)


async def test_pain_comes_once_in_five_minutes_and_grows(alerting, receiver):
    async with alerting(f'[notify]\npain = "{receiver.url("/pain")}"\n') as sf:
        carried(sf)
        await looked(sf)
        await sf.queues.pause("mail")
        sf.queue("mail", attempts=1, dead_warning=0)
        await sf.enqueue_many("mail", [{}] * 101)
        await looked(sf)
        await tried(sf, 4)
        [signal] = pains(receiver)[:1]
        assert set(signal) == {"source", "category", "message", "severity", "queue", "details"}
        assert (signal["source"], signal["category"], signal["queue"], signal["severity"]) == (
            *("standfast", "depth", "mail", 0.307),
        )
        assert [each["category"] for each in pains(receiver)].count("depth") == 1
        await sf.enqueue_many("mail", [{}] * 899)
        await looked(sf)
        await tried(sf, 2)
        assert [each["severity"] for each in pains(receiver) if each["category"] == "depth"] == [0.307, 0.93]


async def test_of_two_who_would_tell_of_one_pain_one_does(alerting, receiver):
    """Both saw that it is due; the second comes when the first one's signal is long delivered."""
    async with alerting(f'[notify]\npain = "{receiver.url("/pain")}"\n') as sf:
        carried(sf)
        await sf.open()
        jobs = sf._acceptor.internal(QUEUE, [{"surface": "pain", "pain": pain(FULL, "now")}] * 3)  # noqa: SLF001
        for job, seconds, due in zip(jobs, (299, 1, 0), (True, False, True), strict=True):
            assert await store_of(sf).write_all(tell, [pain_told(FULL, store_of(sf).now(), job)]) == [due]
            await drain(sf)
            sf.clock.advance(seconds)
        assert len(pains(receiver)) == 2


async def test_after_an_outage_pain_keeps_its_pace_from_when_the_waiting_signal_came(alerting, receiver):
    async with alerting(f'[notify]\npain = "{receiver.url("/pain")}"\n') as sf:
        carried(sf)
        await sf.open()
        store = store_of(sf)
        jobs = sf._acceptor.internal(QUEUE, [{"surface": "pain", "pain": pain(FULL, "now")}] * 3)  # noqa: SLF001
        held = await store.write(alerts.take_turn, 9)
        assert held is not None
        assert await store.write(alerts.observe, alerts.Observation(held, begins=(("1", FULL),)))
        for job, waits, due in zip(jobs, (400, 299, 0), (True, False, True), strict=True):
            hurting = bool(await store.read(alerts.hurting(store_of(sf).now(), 300.0)))
            assert (hurting, await store.write_all(tell, [pain_told(FULL, store_of(sf).now(), job)])) == (
                due,
                [due],
            )
            sf.clock.advance(waits)
            await drain(sf)
            sf.clock.advance(1)
        assert len(pains(receiver)) == 2


async def test_pain_that_ends_and_begins_anew_keeps_its_pace(alerting, monkeypatch, receiver):
    async with alerting(f'[notify]\npain = "{receiver.url("/pain")}"\n') as sf:
        carried(sf)
        await looked(sf)
        for _ in range(2):
            await fill_disk(sf, monkeypatch)
            await looked(sf)
            await asyncio.gather(teller(sf).announce(), teller(sf).announce())
            await drain(sf)
            await free_disk(sf, monkeypatch)
            await looked(sf, 2, apart=61)
        assert await edges(sf, "low_disk") == ["started", "ended"] * 2
        assert [each["category"] for each in pains(receiver)] == ["low_disk"]


async def test_pain_is_kept_while_its_sink_is_down_and_does_not_pile_up(alerting, monkeypatch, receiver):
    monkeypatch.setenv("PAIN", "http://127.0.0.1:9/")  # nobody listens there
    async with alerting('[notify]\npain = {webhook_env = "PAIN"}\n') as sf:
        carried(sf)
        await looked(sf)
        await fill_disk(sf, monkeypatch)
        await looked(sf)
        await tried(sf, 7)
        signals = [job for job in await sf.jobs(queue=QUEUE) if job.payload["pain"]["category"] == "low_disk"]
        assert [job.view for job in signals] == ["retry_pending"]
        assert "dead_sink" not in [job.payload["pain"]["category"] for job in await sf.jobs(queue=QUEUE)]
        monkeypatch.setenv("PAIN", receiver.url("/pain"))
        await free_disk(sf, monkeypatch)
        await tried(sf, 8)
        assert [each["severity"] for each in pains(receiver) if each["category"] == "low_disk"] == [1.0]


# --- by themselves


@pytest.mark.parametrize("how", ["worker", "alerting"])
async def test_who_works_or_serves_looks_and_tells_by_itself(tmp_path, monkeypatch, receiver, how):
    for name in ("standfast.application.standfast.LOOK_EVERY", "standfast.application.standfast.FOLLOW_EVERY"):
        monkeypatch.setattr(name, 0.02)
    monkeypatch.setattr("standfast.wings.alerts.lookout.TURN", 0.01)
    file = tmp_path / "standfast.toml"
    file.write_text(f'[notify]\npain = "{receiver.url("/pain")}"\n')
    monkeypatch.setenv("STANDFAST_CONFIG", str(file))
    async with Standfast(str(tmp_path / "queue.db")) as sf:
        sf.queue("mail", depth_warning=0)
        await sf.enqueue("mail")
        if how == "alerting":
            sf.handler("mail")(print)
        async with getattr(sf, how)():
            await seen(lambda: open_alerts(sf))
            await seen(lambda: pains(receiver))
            [job] = await sf.jobs(queue="mail")
            assert job.state == "queued", "what carries alerts runs nothing else"
