"""Alerts: each begins once and is over once, whoever looks."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from standfast.store.store import Store
from standfast.wings.alerts import scripts as alerts
from standfast.wings.health.verbs import wrong_now
from tests.worker.inside import store_of
from tests.worker.surfaces import alerting
from tests.worker.wrongs import FULL, STORIES, cancel_all, edges, fill, looked, notices, open_alerts

__all__ = ["alerting"]


def _without_numbers(text: str) -> str:
    """Give the words alone: times go on between two looks."""
    return re.sub(r"\d+", "some", text)


@pytest.mark.parametrize("name", STORIES)
async def test_a_condition_begins_once_and_is_over_once_however_many_look(alerting, monkeypatch, name):
    begin, end = STORIES[name]
    async with alerting("") as sf:
        await looked(sf, 2)
        await begin(sf, monkeypatch)
        assert await edges(sf, name) == []
        await looked(sf, 1, apart=30)
        await looked(sf, 2)
        assert await edges(sf, name) == ["started"]
        alert = (await open_alerts(sf))[name]
        assert (alert["queue"], alert["clearing"]) == ("mail" if alert["queue"] else None, False)
        issues = (await sf.health())["issues"]
        assert _without_numbers(alert["message"]) in map(_without_numbers, issues)
        await end(sf, monkeypatch)
        await looked(sf, 1, apart=20)
        assert (await open_alerts(sf))[name]["clearing"] is True
        await looked(sf, 2, apart=61)
        assert await edges(sf, name) == ["started", "ended"]
        assert name not in await open_alerts(sf)


async def test_a_deep_queue_is_told_as_a_warning_too_once_and_once_when_it_is_over(alerting, monkeypatch):
    """Capability 99."""
    async with alerting("") as sf:
        await looked(sf)
        await fill(sf, monkeypatch)
        await looked(sf, 3)
        await cancel_all(sf, monkeypatch)
        await looked(sf, 2, apart=61)
        told_of = await notices(sf, "depth_warning", "depth_normal")
        assert told_of == [("depth_warning", "mail", ""), ("depth_normal", "mail", "")]
        found = await anext(aiter(sf.subscribe(["alert_started"], "mail", after=0)))
        assert (found.kind, found.queue, found.job, found.data) == ("alert_started", "mail", None, {"alert": "depth"})


async def test_what_is_written_is_what_was_seen_last_and_a_return_within_a_minute_is_the_same_alert(
    alerting, monkeypatch
):
    async with alerting("") as sf:
        await looked(sf)
        await fill(sf, monkeypatch)
        await looked(sf)
        since = (await open_alerts(sf))["depth"]["since"]
        await sf.enqueue_many("mail", [{}] * 7)
        await looked(sf)
        alert = (await open_alerts(sf))["depth"]
        assert (alert["value"], alert["threshold"], alert["message"]) == (10, 2, "mail: 10 pending (backed up)")
        await sf.enqueue("mail")
        alert = (await open_alerts(sf))["depth"]
        assert (alert["value"], alert["message"]) == (11, "mail: 11 pending (backed up)"), "as it is when shown"
        await cancel_all(sf, monkeypatch)
        await looked(sf, 5)
        await fill(sf, monkeypatch)
        await looked(sf, 2)
        alert = (await open_alerts(sf))["depth"]
        assert (alert["since"], alert["value"], alert["clearing"]) == (since, 3, False)
        assert await edges(sf, "depth") == ["started"]


async def test_after_a_gap_in_looking_nothing_begins_at_once(alerting, monkeypatch):
    """A machine that slept has workers and sweepers that come back."""
    async with alerting("") as sf:
        await looked(sf)
        await fill(sf, monkeypatch)
        await looked(sf, 1, apart=3600)
        assert await open_alerts(sf) == {}
        await looked(sf)
        assert "depth" in await open_alerts(sf)


async def test_who_looked_before_somebody_else_did_writes_nothing_any_more(alerting):
    async with alerting("") as sf:
        await looked(sf)
        store = store_of(sf)
        sf.clock.advance(10)
        held = await store.write(alerts.take_turn, 9)
        assert held is not None
        assert await store.write(alerts.take_turn, 9) is None
        sf.clock.advance(10)
        await looked(sf, 1, apart=0, lookouts=1)
        assert await store.write(alerts.observe, alerts.Observation(held, begins=(("1", FULL),))) is False
        assert await open_alerts(sf) == {}


async def test_one_alert_of_a_kind_queue_and_subject_is_open(alerting):
    async with alerting("") as sf:
        await sf.open()
        store = store_of(sf)
        held = await store.write(alerts.take_turn, 9)
        assert held is not None
        for number in ("1", "2"):
            assert await store.write(alerts.observe, alerts.Observation(held, begins=((number, FULL),))) is True
        assert [each.id for each in await store.read(alerts.standing())] == ["1"]
        assert await edges(sf, "low_disk") == ["started"]


async def test_a_kind_that_only_a_newer_library_has_is_left_to_it(alerting):
    async with alerting("") as sf:
        await looked(sf)
        store = store_of(sf)
        sf.clock.advance(10)
        held = await store.write(alerts.take_turn, 9)
        assert held is not None
        newer = msgspec.structs.replace(FULL, kind="too_warm")
        assert await store.write(alerts.observe, alerts.Observation(held, begins=(("1", newer),))) is True
        await looked(sf, 3, apart=61)
        assert (await sf.health())["alerts"] == []
        assert await edges(sf, "too_warm") == ["started"]


async def test_of_many_who_would_look_one_does(alerting, monkeypatch):
    looks = 0

    async def counted(store: Store) -> Any:
        nonlocal looks
        looks += 1
        return await wrong_now(store)

    monkeypatch.setattr("tests.worker.wrongs.wrong_now", counted)
    async with alerting("") as sf:
        await looked(sf, 3, lookouts=4)
        assert looks == 3
