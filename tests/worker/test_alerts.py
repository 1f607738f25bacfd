"""Alerts to surfaces: which letters are loud, that none is lost or told twice, and that a dead sink keeps its own."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import sys
from typing import Any
from urllib.parse import urlsplit

import pytest

from standfast import ConfigurationError, PayloadRejected, Permanent, Standfast
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.cursors import Cursors
from standfast.wings.alerts.follower import Follower
from standfast.wings.alerts.surfaces import QUEUE, read
from standfast.wings.notices import scripts as journal_scripts
from tests.waiting import seen
from tests.worker.surfaces import SECRET, _receiver, alerting, one_webhook, receiver, told

__all__ = ["_receiver", "alerting", "receiver"]


def another_follower(sf: Standfast) -> Follower:
    return Follower(sf._store, sf._notify, Cursors(sf._store, sf._notify), sf._announcer)  # noqa: SLF001


def follower(sf: Standfast) -> Follower:
    return sf._follower  # noqa: SLF001 - a worker follows by itself, and drain has no time for that


async def passed(sf: InMemory, seconds: float) -> None:
    """Follow, let time pass, follow again, and carry out what is due."""
    await follower(sf).follow()
    sf.clock.advance(seconds)
    await follower(sf).follow()
    await drain(sf)


async def letters(sf: InMemory, number: int = 1, **payload: Any) -> None:
    """Let jobs die."""
    await drain(sf)
    await follower(sf).follow()  # from here on
    await sf.enqueue_many("mail", [payload] * number)
    await drain(sf)


async def test_a_worker_of_named_queues_carries_out_the_alerts_it_finds(alerting, receiver):
    async with alerting(one_webhook(receiver)) as sf:
        assert sf.worker(queues=["mail"]).queues == ("mail", QUEUE)
        assert sf.worker(queues=[QUEUE, "mail"]).queues == (QUEUE, "mail")
        assert {*sf.worker().queues} == {"mail", QUEUE}
    async with alerting("") as sf:
        assert sf.worker(queues=["mail"]).queues == ("mail",), "without surfaces there is nothing to carry"


async def test_followers_begin_behind_what_has_its_number(alerting, receiver):
    """On PostgreSQL rows get numbers later: what is committed meanwhile may get the one that was counted up to."""
    async with alerting(one_webhook(receiver)) as sf:
        await sf.enqueue("mail", {})
        await sf._store.write(alerts.begin, ["another"])  # noqa: SLF001
        begun, engine = await sf._store.read(alerts.followed("another")), sf._store._engine  # noqa: SLF001
        assert [row.seq for row in await engine.read(journal_scripts.journal(0, 9))] == [begun]


async def test_a_hundred_letters_of_one_cause_are_one_alert_with_their_count(alerting, receiver):
    async with alerting(one_webhook(receiver)) as sf:
        await letters(sf, 100)
        await passed(sf, 0)
        assert told(receiver) == [], "others of the cause may follow at once"
        await passed(sf, 6)
        [alert] = told(receiver)
        assert alert["title"] == "standfast: 100 letters in mail (handler_refused)"
        assert alert["data"].items() >= {"count": 100, "queue": "mail", "more": False}.items()
        await letters(sf, 3)
        await passed(sf, 30)
        assert len(told(receiver)) == 1, "within the window"
        await passed(sf, 300)
        assert [each["data"]["count"] for each in told(receiver)] == [100, 3]
        await passed(sf, 400)
        await passed(sf, 400)
        assert len(told(receiver)) == 2
        await letters(sf, 1)
        await passed(sf, 6)
        assert [each["data"]["count"] for each in told(receiver)] == [100, 3, 1]


async def test_a_webhook_is_signed_and_keeps_its_id_over_repeats(alerting, receiver):
    async with alerting(one_webhook(receiver, status="503,200")) as sf:
        await letters(sf)
        await passed(sf, 6)
        await passed(sf, 60)
        first, second = receiver.received()
        assert first["headers"]["webhook-id"] == second["headers"]["webhook-id"]
        for each in (first, second):
            signed = ".".join((each["headers"]["webhook-id"], each["headers"]["webhook-timestamp"], each["body"]))
            key = base64.b64decode(SECRET.removeprefix("whsec_"))
            digest = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
            assert each["headers"]["webhook-signature"] == f"v1,{digest}"
        assert first["headers"]["webhook-timestamp"] != second["headers"]["webhook-timestamp"]


async def test_a_sink_that_is_down_for_twenty_minutes_gets_it_once(alerting, receiver, monkeypatch):
    monkeypatch.setenv("OPS_URL", "http://127.0.0.1:9/")  # nobody listens there
    text = '[notify.surfaces.ops]\nwebhook_env = "OPS_URL"\n'
    async with alerting(text) as sf:
        await letters(sf, 5)
        for _ in range(20):
            await passed(sf, 60)
        [waiting] = await sf.jobs(queue=QUEUE)
        assert (waiting.view, waiting.attempts > 3) == ("retry_pending", True)
        monkeypatch.setenv("OPS_URL", receiver.url("/ops"))
        for _ in range(10):
            await passed(sf, 60)
        assert [each["data"]["count"] for each in told(receiver)] == [5]


async def test_a_dead_sink_shows_in_health_and_alerts_nobody_about_itself(alerting, receiver):
    text = one_webhook(receiver, status="400") + '[queues."standfast.notify"]\nattempts = 1\n'
    async with alerting(text) as sf:
        await letters(sf)
        await passed(sf, 6)
        assert [job.state for job in await sf.jobs(queue=QUEUE)] == ["dead"]
        assert any(QUEUE in issue for issue in (await sf.health())["issues"])
        for _ in range(5):
            await passed(sf, 400)
        assert len(receiver.received()) == 1


async def test_an_alert_that_died_is_sent_in_nobodys_words_but_ours(alerting, receiver):
    """Amended and replayed, it would tell what somebody else wrote, and be believed."""
    text = one_webhook(receiver, status="400") + '[queues."standfast.notify"]\nattempts = 1\n'
    async with alerting(text) as sf:
        await letters(sf)
        await passed(sf, 6)
        [dead] = await sf.jobs(queue=QUEUE)
        with pytest.raises(PayloadRejected, match="own messages"):
            await sf.dead_letters.amend(dead.id, {**dead.payload, "title": "send money"}, by="ann", reason="why")
        assert (await sf.dead_letters.replay(dead.id, by="ann"))["outcome"] == "replayed"


@pytest.mark.parametrize(
    ("rule", "payload", "number"),
    [
        ({}, {}, 1),
        ({"notify": "quiet"}, {}, 0),
        ({"notify": "loud"}, {"code": "expired"}, 1),
        ({}, {"code": "expired"}, 0),
        ({}, {"code": "our_own_code"}, 1),
    ],
)
async def test_a_letter_is_loud_by_its_queue_or_its_reason(alerting, receiver, rule, payload, number):
    async with alerting(one_webhook(receiver)) as sf:
        sf.queue("mail", attempts=1, **rule)
        await letters(sf, 1, **payload)
        await passed(sf, 6)
        assert len(told(receiver)) == number


async def test_a_letter_that_is_replayed_by_itself_is_quiet_until_nothing_is_left(alerting, receiver):
    async with alerting(one_webhook(receiver)) as sf:
        await sf.policy.load(
            "version: v1\ndlq_rules:\n  - match: {queue: mail}\n    action: auto_replay\n    max_replays: 1\n"
            "    backoff: fixed\n"
        )
        await letters(sf)
        await passed(sf, 6)
        assert told(receiver) == []
        sf.clock.advance(30)
        await drain(sf)
        await passed(sf, 0)
        await passed(sf, 6)
        assert [each["data"]["count"] for each in told(receiver)] == [1]


async def test_routes_choose_surfaces(alerting, receiver):
    text = f"""
[notify.surfaces.ops]
webhook = "{receiver.url("/ops")}"
[notify.surfaces.team]
webhook = "{receiver.url("/team")}"
[[notify.routes]]
queue = "ma*"
reason = ["other", "our_*"]
surfaces = "team"
[[notify.routes]]
queue = "pay*"
surfaces = ["ops", "team"]
"""
    async with alerting(text) as sf:
        await letters(sf, 1, code="our_code")
        await letters(sf, 1, code="no_route", why="another")
        await passed(sf, 6)
        assert [each["path"] for each in receiver.received()] == [urlsplit(receiver.url("/team")).path]


async def test_many_followers_count_each_letter_once_and_a_killed_one_loses_none(alerting, receiver):
    async with alerting(one_webhook(receiver)) as sf:
        others = [another_follower(sf) for _ in range(4)]
        for _ in range(5):
            await letters(sf, 4)
            await asyncio.gather(*(other.follow() for other in others))
        await sf.enqueue("mail", {})
        await drain(sf)  # and whoever follows next has never followed before
        await another_follower(sf).follow()
        sf.clock.advance(6)
        await asyncio.gather(*(other.follow() for other in others))
        await drain(sf)
        assert [each["data"]["count"] for each in told(receiver)] == [21]


async def test_secrets_do_not_leave_with_an_alert(alerting, receiver):
    async with alerting(one_webhook(receiver)) as sf:
        await letters(sf, 1, why="refused: Authorization: Bearer abcdefghijklmnopqrstuvwxyz0123456789")
        await passed(sf, 6)
        [alert] = told(receiver)
        assert "abcdefghijklm" not in json.dumps(alert)
        assert SECRET not in json.dumps([job.payload for job in await sf.jobs(queue=QUEUE)])


@pytest.mark.long  # to import it takes two seconds; what it is called with is that of webhooks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what it imports
async def test_apprise_tells_and_its_failure_is_repeated(alerting, receiver, monkeypatch):
    monkeypatch.setenv("CHAT", receiver.url("/chat", **{"-status": "500,200"}).replace("http://", "json://"))
    async with alerting('[notify.surfaces.chat]\napprise_env = "CHAT"\n') as sf:
        await letters(sf, 2)
        await passed(sf, 6)
        await passed(sf, 60)
        assert [json.loads(each["body"])["title"] for each in receiver.received()] == [
            "standfast: 2 letters in mail (handler_refused)"
        ] * 2
        assert [job.state for job in await sf.jobs(queue=QUEUE)] == ["completed"]


async def test_a_worker_follows_by_itself(tmp_path, monkeypatch, receiver):
    monkeypatch.setenv("OPS_SECRET", SECRET)
    monkeypatch.setattr("standfast.application.standfast.FOLLOW_EVERY", 0.02)
    file = tmp_path / "standfast.toml"
    file.write_text(f"[notify]\nsettle = 0\n{one_webhook(receiver)}")
    monkeypatch.setenv("STANDFAST_CONFIG", str(file))
    async with Standfast(str(tmp_path / "queue.db")) as sf:

        @sf.handler("mail")
        async def mail(_job):
            raise Permanent("no")

        async with sf.worker():
            await sf.enqueue("mail")
            await seen(lambda: told(receiver))


def test_a_missing_extra_and_a_wrong_table_are_said_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ConfigurationError, match=r"standfast\[notify\]"):
        read({"surfaces": {"chat": {"apprise_env": "CHAT"}}}, "standfast.toml").check_extras()
    for wrong, words in (
        ({"surfaces": {"ops": {}}}, "needs one of webhook"),
        ({"surfaces": {"ops": {"webhook": "http://x", "apprise_env": "Y"}}}, "needs one of webhook"),
        ({"surfaces": {"ops": {"web": "http://x"}}}, "web"),
        ({"routes": [{"surfaces": ["ops"]}]}, "unknown surface 'ops'"),
        ({"window": "2d"}, "a day"),
        ({"colour": 1}, "colour"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            read(wrong, "standfast.toml")
