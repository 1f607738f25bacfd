"""`[store] replay`: what follows an unknown outcome of a handler that does not say so itself."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from standfast import ConfigurationError, Effect, Handler, Standfast, Uncertain, no_backoff
from standfast.wings.tokens import settings_scripts
from standfast.wings.tokens.settings_scripts import SharedSetting
from tests.waiting import ended, failure_of, seen
from tests.worker.inside import store_of


@pytest.fixture
def stores(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Give what makes a Standfast under a settings file with this default."""

    def made(mode: str, more: str = "") -> Standfast:
        file = tmp_path / "standfast.toml"
        file.write_text(f'[store]\nreplay = "{mode}"\n{more}')
        monkeypatch.setenv("STANDFAST_CONFIG", str(file))
        return Standfast(url)

    return made


async def test_with_a_manual_default_an_unknown_outcome_waits_for_a_person(stores):
    async with stores("manual") as sf:
        runs: list[str] = []
        for queue in ("pay", "mail"):
            sf.queue(queue, attempts=2, backoff=no_backoff())

        @sf.handler("pay")
        async def pay(job):
            runs.append(job.queue)
            raise Uncertain("did it?")

        @sf.handler("mail", replay="replay")
        async def mail(job):
            runs.append(job.queue)
            raise Uncertain("did it?")

        async with sf.worker():
            paid = await ended(sf, (await sf.enqueue("pay")).id)
            await ended(sf, (await sf.enqueue("mail")).id)
        assert (paid.state, failure_of(paid).reason_code) == ("dead", "unknown_commit_state")
        assert sorted(runs) == ["mail", "mail", "pay"]
        described = await sf.queues.describe()
        assert [described[queue]["handlers"][0]["replay"] for queue in ("pay", "mail")] == ["manual", "replay"]


async def test_with_a_verify_first_default_a_handler_without_effects_is_refused_and_told_what_to_write(stores):
    async with stores("verify_first") as sf:
        with pytest.raises(ConfigurationError, match=r"the default of standfast.toml .* choose replay='manual'"):
            sf.handler("pay")
        looking = sf.handler("ticket", effects=[Effect("ticket", lambda _job: True)])(lambda _job: None)
        assert looking.declaration.replay_mode == "verify_first"
        assert sf.handler("mail", replay="manual")(lambda _job: None).declaration.replay_mode == "manual"


async def test_a_process_whose_file_names_no_default_takes_the_one_that_another_published(stores, url, monkeypatch):
    async with stores("verify_first") as named:
        named.handler("ticket", effects=[Effect("ticket", lambda _job: True)])(lambda _job: None)
        await named.enqueue("ticket")
    monkeypatch.delenv("STANDFAST_CONFIG")
    async with Standfast(url) as bare:
        ticket: Handler[Any, Any] = bare.handler("ticket", effects=[Effect("ticket", lambda _job: True)])(
            lambda _job: None
        )
        blind: Handler[Any, Any] = bare.handler("pay")(lambda _job: None)
        loud: Handler[Any, Any] = bare.handler("mail", replay="replay")(lambda _job: None)
        await bare.enqueue("pay")
        assert [each.declaration.replay_mode for each in (ticket, blind, loud)] == ["verify_first", "manual", "replay"]
        described = await bare.queues.describe()
        shown = {queue: described[queue]["handlers"][0]["replay"] for queue in ("ticket", "pay", "mail")}
        assert shown == {"ticket": "verify_first", "pay": "manual", "mail": "replay"}
        late: Handler[Any, Any] = bare.handler("late")(lambda _job: None)
        assert late.declaration.replay_mode == "manual", "registered after the store was read"


async def test_an_unknown_outcome_follows_the_default_of_another_process(stores, url, monkeypatch):
    async with stores("manual") as named:
        named.handler("other")(print)
        await named.enqueue("pay")
    monkeypatch.delenv("STANDFAST_CONFIG")
    async with Standfast(url) as bare:
        bare.queue("pay", attempts=2, backoff=no_backoff())

        @bare.handler("pay")
        async def pay(_):
            raise Uncertain("did it?")

        async with bare.worker():
            paid = await ended(bare, (await bare.enqueue("pay")).id)
        assert failure_of(paid).reason_code == "unknown_commit_state"


async def published(sf: Standfast, queue: str) -> str:
    """Read how the handler of a queue replays, as every process sees it."""
    described = await sf.queues.describe()
    return str(described[queue]["handlers"][0]["replay"])


async def test_a_worker_follows_a_default_that_is_published_and_taken_back_while_it_runs(stores, url, monkeypatch):
    monkeypatch.setattr("standfast.wings.tokens.shared_settings.EVERY", 0.02)
    async with Standfast(url) as bare:
        bare.queue("pay", attempts=2, backoff=no_backoff())
        runs: list[str] = []

        @bare.handler("pay")
        async def pay(job):
            runs.append(job.id)
            raise Uncertain("did it?")

        @bare.handler("mail", replay="replay")
        async def mail(_):
            pass

        async def paid() -> tuple[str, int]:
            receipt = await bare.enqueue("pay")
            failure = failure_of(await ended(bare, receipt.id))
            return failure.reason_code, runs.count(str(receipt.id))

        async with bare.worker():
            assert (await paid())[1] == 2, "repeated"
            async with stores("manual") as named:
                named.handler("other")(print)
                await named.open()
            await seen(lambda: _is(published(bare, "pay"), "manual"))
            await seen(lambda: pay.declaration.replay_mode == "manual")
            assert await paid() == ("unknown_commit_state", 1)
            assert await published(bare, "mail") == "replay"
            async with stores("replay") as named:
                named.handler("other")(print)
                await named.open()
            await seen(lambda: _is(published(bare, "pay"), "replay"))
            await seen(lambda: pay.declaration.replay_mode == "replay")
            assert (await paid())[1] == 2, "repeated"


async def _is(found: Any, wanted: str) -> bool:
    return bool(await found == wanted)


async def test_a_worker_that_follows_the_default_takes_back_nothing_that_a_newer_version_published(stores, url):
    async with Standfast(url) as old, stores("manual") as new:
        old.queue("pay", attempts=2)
        for queue in ("pay", "mail"):
            old.handler(queue)(print)
        await old.open()
        new.queue("pay", attempts=7)
        new.handler("pay", timeout=30)(print)
        await new.open()
        await old.shared_settings.keep_up()
        described = await new.queues.describe()
        assert (described["pay"]["rules"].attempts, described["pay"]["handlers"][0]["timeout"]) == (7, 30)
        assert [await published(new, queue) for queue in ("pay", "mail")] == ["manual", "manual"]


async def test_a_worker_none_of_whose_handlers_depends_on_the_store_reads_nothing(url, monkeypatch):
    async with Standfast(url) as sf:
        sf.handler("mail", replay="manual")(print)
        await sf.open()
        reads: list[object] = []
        monkeypatch.setattr(store_of(sf), "read", reads.append)
        await sf.shared_settings.keep_up()
        assert reads == []
        monkeypatch.undo()


async def test_health_says_when_the_files_of_two_live_processes_name_different_defaults(stores):
    async with stores("manual") as strict, stores("replay") as mild:
        strict.handler("pay")(print)
        mild.handler("mail")(print)

        async def named() -> str:
            issues = (await strict.health())["issues"]
            return next((each for each in issues if each.startswith("[store] replay: two live processes")), "")

        async with strict.worker():
            assert await named() == ""
            async with mild.worker():
                said = await seen(named)
        assert "has replay=manual" in said
        assert "has replay=replay" in said
        assert "settings files" in said


async def test_a_producer_does_not_replace_the_default(stores, url, monkeypatch):
    async with stores("manual") as working:
        working.handler("pay")(print)
        await working.enqueue("pay")
    async with stores("replay", '[notify.surfaces.ops]\nwebhook = "http://127.0.0.1:9/"\n') as producing:
        await producing.enqueue("pay")
        async with producing.alerting():
            pass
    monkeypatch.delenv("STANDFAST_CONFIG")
    async with Standfast(url) as bare:
        late: Handler[Any, Any] = bare.handler("late")(print)
        await bare.open()
        assert late.declaration.replay_mode == "manual"


async def test_a_default_that_only_a_newer_version_knows_is_the_strictest_with_one_warning(url, caplog):
    async with Standfast(url) as newer:
        text = msgspec.json.encode("ask_twice").decode()
        await store_of(newer).write(settings_scripts.publish, SharedSetting("replay", text, "ann"))
    async with Standfast(url) as sf:
        pay: Handler[Any, Any] = sf.handler("pay")(print)
        with caplog.at_level(logging.WARNING, "standfast.queue"):
            await sf.open()
            await sf.shared_settings.keep_up()
            await sf.shared_settings.keep_up()
        assert pay.declaration.replay_mode == "manual"
        assert await published(sf, "pay") == "manual"
    [warning] = [each.getMessage() for each in caplog.records if "ask_twice" in each.getMessage()]
    assert warning.endswith("handlers without replay= are 'manual' here; upgrade standfast")


@pytest.mark.parametrize(("given", "near"), [("", ""), ("manuel", r" \(did you mean 'manual'\?\)")])
def test_a_handlers_mode_that_does_not_exist_is_refused_with_the_nearest(given, near, tmp_path):
    sf = Standfast(str(tmp_path / "queue.db"))
    with pytest.raises(ConfigurationError, match=f"unknown replay '{given}'{near}; known are replay, verify_first"):
        sf.handler("pay", replay=given)


def test_an_unknown_default_is_refused_with_the_file_that_says_it(stores):
    with pytest.raises(ConfigurationError, match=r"standfast.toml: .*sometimes"):
        stores("sometimes")


def test_a_mode_that_does_not_exist_is_refused_with_those_that_do(tmp_path, monkeypatch):
    (tmp_path / "standfast.toml").write_text('[store]\nreplay = "never"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"'never'; write one of .replay., .verify_first., .manual."):
        Standfast("queue.db")
