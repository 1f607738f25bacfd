"""`[store] replay`: what follows an unknown outcome of a handler that does not say so itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from standfast import ConfigurationError, Effect, Handler, Standfast, Uncertain, no_backoff
from tests.waiting import ended, failure_of


@pytest.fixture
def stores(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Give what makes a Standfast under a settings file with this default."""

    def made(mode: str) -> Standfast:
        file = tmp_path / "standfast.toml"
        file.write_text(f'[store]\nreplay = "{mode}"\n')
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


def test_an_unknown_default_is_refused_with_the_file_that_says_it(stores):
    with pytest.raises(ConfigurationError, match=r"standfast.toml: .*sometimes"):
        stores("sometimes")


def test_a_mode_that_does_not_exist_is_refused_with_those_that_do(tmp_path, monkeypatch):
    (tmp_path / "standfast.toml").write_text('[store]\nreplay = "never"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"'never'; write one of .replay., .verify_first., .manual."):
        Standfast("queue.db")
