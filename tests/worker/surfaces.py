"""Surfaces of a test's own: a receiver, and queues whose `standfast.toml` says what goes there."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from standfast import Permanent
from standfast.testing import FrozenClock
from standfast.testing.kit import InMemory
from tests.receiver import Receiver, Spot

_places = itertools.count()
SECRET = "whsec_" + base64.b64encode(b"a secret of many bytes").decode()


class Sinks:
    """What a test sends to one receiver, under paths of its own."""

    def __init__(self, receiver: Receiver, place: str) -> None:
        self._receiver = receiver
        self._place = place

    def url(self, path: str, **asked: str) -> str:
        """Give the address of one of them; what is asked for happens there."""
        return Spot(self._receiver, self._place + path).url(**asked)

    def received(self) -> list[dict[str, Any]]:
        """Give what all of them got."""
        return [each for each in self._receiver.requests() if each["path"].startswith(self._place)]


@pytest.fixture(scope="module")
def _receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    started = Receiver(tmp_path_factory.mktemp("received") / "log").start()
    yield started
    started.stop()


@pytest.fixture
def receiver(_receiver: Receiver) -> Sinks:
    return Sinks(_receiver, f"/{next(_places)}")


class Alerting:
    """Makes queues whose `standfast.toml` says where alerts go."""

    def __init__(self, place: Path, patch: pytest.MonkeyPatch, url: str) -> None:
        self._place = place
        self._patch = patch
        self._url = url

    def __call__(self, text: str) -> InMemory:
        file = self._place / "standfast.toml"
        file.write_text(text)
        self._patch.setenv("STANDFAST_CONFIG", str(file))
        sf = InMemory(self._url, clock=FrozenClock())
        sf.queue("mail", attempts=1)

        @sf.handler("mail")
        async def mail(job):
            raise Permanent(job.payload.get("why", "no such address"), reason_code=job.payload.get("code"))

        return sf


@pytest.fixture(params=["memory", "postgres"])
def alerting(request, tmp_path, monkeypatch) -> Alerting:
    url = ":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url")
    monkeypatch.setenv("OPS_SECRET", SECRET)
    return Alerting(tmp_path, monkeypatch, url)


def told(receiver: Sinks) -> list[dict[str, Any]]:
    return [json.loads(each["body"]) for each in receiver.received()]


def one_webhook(receiver: Sinks, path: str = "/ops", **query: str) -> str:
    return f'[notify.surfaces.ops]\nwebhook = "{receiver.url(path, **query)}"\nsecret_env = "OPS_SECRET"\n'
