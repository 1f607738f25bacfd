"""The engines the behaviour suite runs over. Only this file knows which they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from standfast.store.store import Store
from standfast.testing import FrozenClock
from tests.store.processes import Processes
from tests.store.suite import Look


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Every kind of store there is."""
    return ":memory:" if request.param == "memory" else str(tmp_path / "queue.db")


@pytest.fixture(params=["file"])
def shared_url(tmp_path: Path) -> str:
    """Every kind of store that several processes can open."""
    return str(tmp_path / "queue.db")


@pytest.fixture
def store(url: str, clock: FrozenClock) -> Iterator[Store]:
    opened = Store(url, clock)
    opened.open()
    yield opened
    opened.close()


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.leave()


@pytest.fixture
def look(store: Store) -> Look:
    """Look behind the verbs: rows of a plain SELECT, read beside the writer."""

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return _files(store).read(sql, _select).result()  # type: ignore[no-any-return]

    return rows


def _files(store: Store) -> Any:
    return store._engine._files  # noqa: SLF001 - no verb shows these rows, and none should


def _select(connection: apsw.Connection, sql: Any) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()
