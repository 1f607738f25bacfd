"""Apps of tests: each on a store of its own, none of them the current app afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from standfast.celery import Celery, celery_app
from standfast.testing import drain


@pytest.fixture(autouse=True)
def _no_app_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("STANDFAST_URL", raising=False)
    known: tuple[list[Any], ...] = (celery_app.APPS, celery_app.SHARED)
    before = [list(each) for each in known]
    yield
    for each, kept in zip(known, before, strict=True):
        each[:] = kept


@pytest.fixture(params=["file", "postgres"])
def every_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the address of a store of each kind."""
    if request.param == "postgres":
        return str(request.getfixturevalue("used_postgres_url"))
    return f"sqlite:///{tmp_path / 'shop.db'}"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Celery]:
    """Give an app on a file."""
    made = Celery("shop", broker=f"sqlite:///{tmp_path / 'shop.db'}")
    yield made
    asyncio.run(made.sf.close())


@pytest.fixture
def work(app: Celery) -> Callable[[], Any]:
    """Run what is due, here."""
    return lambda: asyncio.run(drain(app.sf))
