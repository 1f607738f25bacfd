"""No alert is lost where the queue that carries them is full, and no sink counts as dead for good."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from standfast import ConfigurationError, Transient
from standfast.store.store import Store
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.scripts import Observation, Word
from standfast.wings.alerts.sinks import Sinks
from standfast.wings.alerts.surfaces import QUEUE
from standfast.wings.alerts.words import AlertKind, Condition, OpenAlert
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.worker.inside import store_of
from tests.worker.surfaces import _receiver, alerting, one_webhook, receiver, told
from tests.worker.test_alerts import follower, letters
from tests.worker.test_told_conditions import carried, teller
from tests.worker.wrongs import FULL

__all__ = ["_receiver", "alerting", "receiver"]

ONE = f'[queues."{QUEUE}"]\nmax_depth = 1\n'


async def begun(sf: InMemory, *found: Condition) -> Store:
    """Have a look see these begin."""
    await sf.open()
    store = store_of(sf)
    held = await store.write(alerts.take_turn, 9)
    assert held is not None
    assert await store.write(
        alerts.observe, Observation(held, begins=tuple((str(n), each) for n, each in enumerate(found)))
    )
    return store


def deep(*queues: str) -> list[Condition]:
    return [Condition(AlertKind.DEPTH, f"{queue}: deep", queue) for queue in queues]


# --- a full queue


async def test_alerts_that_the_full_queue_has_no_room_for_are_told_when_it_has(alerting, receiver):
    async with alerting(one_webhook(receiver) + ONE) as sf:
        carried(sf)
        store = await begun(sf, *deep("a", "b", "c"))
        for left in (2, 1, 0):
            await teller(sf).announce()
            assert len(await store.read(alerts.untold(store_of(sf).now()))) == left
            await drain(sf)
        assert [each["data"]["queue"] for each in told(receiver)] == ["a", "b", "c"]


async def test_pain_that_the_full_queue_has_no_room_for_hurts_when_it_has(alerting, receiver):
    async with alerting(f'[notify]\npain = "{receiver.url("/pain")}"\n{ONE}') as sf:
        carried(sf)
        await begun(sf, *deep("a", "b"))
        for _ in range(3):
            await teller(sf).announce()
            await drain(sf)
        assert [each["queue"] for each in told(receiver)] == ["a", "b"]


async def test_letters_that_the_full_queue_has_no_room_for_are_told_when_it_has(alerting, receiver):
    async with alerting(one_webhook(receiver) + ONE) as sf:
        carried(sf)
        await letters(sf, 2, code="one")
        await letters(sf, 3, code="two")
        await follower(sf).follow()
        sf.clock.advance(6)
        for _ in range(3):
            await follower(sf).follow()
            await drain(sf)
        assert sorted(each["data"]["count"] for each in told(receiver)) == [2, 3]


def test_a_queue_that_cannot_hold_one_alert_for_every_surface_is_refused(alerting, receiver):
    with pytest.raises(ConfigurationError, match="goes to up to 2 surfaces"):
        carried(alerting(one_webhook(receiver) + '[notify.surfaces.chat]\nwebhook = "http://127.0.0.1:9/"\n' + ONE))


# --- sinks


async def sent(sinks: Sinks, error: Exception | None = None) -> None:
    async def sending() -> dict[str, Any]:
        if error is not None:
            raise error
        return {}

    await sinks.sent("ops", sending())


async def test_what_one_process_could_not_deliver_and_another_did_leaves_no_dead_sink(alerting):
    async with alerting("") as sf:
        await sf.open()
        store = store_of(sf)
        one, other = Sinks(store, sf.clock), Sinks(store, sf.clock)
        await sent(other)
        with pytest.raises(Transient):
            await sent(one, Transient("timeout"))
        assert [name for name, *_ in await store.read(alerts.sinks())] == ["ops"]
        await sent(other)
        assert await store.read(alerts.sinks()) == []


async def test_a_sink_that_nothing_is_sent_to_any_more_is_forgotten_and_one_that_goes_on_failing_is_not(alerting):
    async with alerting("") as sf:
        await sf.open()
        store = store_of(sf)
        began = store.now()
        await store.write(alerts.note_sinks, Word("removed", "gone"))
        for _ in range(2):
            await store.write(alerts.note_sinks, Word("failing", "timeout"))
            sf.clock.advance(alerts.FAILING_FOR * 0.6)
        await store.write(upkeep.prune, PruneRequest())
        [(name, since, _)] = await store.read(alerts.sinks())
        assert name == "failing"
        assert since == pytest.approx(began)


# --- what is looked at


async def hurting(store: Store, sf: InMemory) -> list[OpenAlert]:
    return await store.read(alerts.hurting(store_of(sf).now(), 300.0))


async def test_an_alert_whose_signal_is_on_its_way_does_not_keep_others_from_hurting(alerting, monkeypatch):
    monkeypatch.setattr(alerts, "BITE", 1)
    async with alerting('[notify]\npain = "http://127.0.0.1:9/"\n') as sf:
        carried(sf)
        store = await begun(sf, *deep("a", "b"))
        await teller(sf).announce()
        sf.clock.advance(301)
        assert [each.queue for each in await hurting(store, sf)] == ["b"]
        await teller(sf).announce()
        sf.clock.advance(301)
        assert await hurting(store, sf) == []


async def test_kinds_that_only_a_newer_library_has_do_not_keep_others_from_being_told(alerting, monkeypatch):
    monkeypatch.setattr(alerts, "BITE", 1)
    monkeypatch.setattr(alerts, "MOST_OPEN", 1)
    async with alerting("") as sf:
        store = await begun(sf, msgspec.structs.replace(FULL, kind="too_warm"), FULL)
        for found in (
            await store.read(alerts.standing()),
            await store.read(alerts.untold(store_of(sf).now())),
            await hurting(store, sf),
        ):
            assert [each.kind for each in found] == ["low_disk"]
