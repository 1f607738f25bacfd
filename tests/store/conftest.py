"""The engines the behaviour suite runs over. Only this file knows which they are."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from standfast.application.wings import store_at
from standfast.errors import StandfastError
from standfast.store.sqlite.files import Files
from standfast.store.store import Store
from standfast.testing import FrozenClock
from standfast.wings.health.counting import miscounts
from tests.store import behind
from tests.store.processes import Processes
from tests.store.suite import Look


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(scope="session")
def new_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store nobody has used, to be copied: making one costs more than most tests."""
    files = Files(str(tmp_path_factory.mktemp("new") / "queue.db"))
    files.close(files.open())
    return Path(files.path)


@pytest.fixture(params=["file", "memory", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Every kind of store there is."""
    if request.param == "file":
        return str(shutil.copy(request.getfixturevalue("new_file"), tmp_path / "queue.db"))
    return _url(request, tmp_path, "used_postgres_url")


@pytest.fixture(params=["file", "postgres"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Every kind of store that several processes can open."""
    return _url(request, tmp_path)


def _url(request: pytest.FixtureRequest, tmp_path: Path, postgres: str = "postgres_url") -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue(postgres))
    return ":memory:" if request.param == "memory" else str(tmp_path / "queue.db")


@pytest.fixture
def store(url: str, clock: FrozenClock, request: pytest.FixtureRequest) -> Iterator[Store]:
    opened = store_at(url, clock)
    opened.open()
    yield opened
    if "change" not in request.fixturenames:  # damaged on purpose
        with suppress(StandfastError):
            assert opened.read(miscounts(opened.now())).result() == []
    opened.close()


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.leave()


@pytest.fixture
def look(store: Store) -> Look:
    """Look behind the verbs: rows of a plain SELECT, read beside the writer."""
    return partial(behind.rows, store)


@pytest.fixture
def change(store: Store) -> Callable[[str], None]:
    """Damage what no verb damages."""
    return partial(behind.change, store)
