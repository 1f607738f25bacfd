"""Django with a database and a store of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from standfast.django import StandfastBackend, task_store
from tests.frameworks import djangos
from tests.on_disk import path
from tests.postgres import split_schema

__all__ = ["path"]

djangos.set_up()


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    """Name the engine of the store, and of the database."""
    return str(request.param)


@pytest.fixture
def store_url(engine: str, request: pytest.FixtureRequest, tmp_path: Any) -> str:
    """Name a store."""
    return str(tmp_path / "queue.db") if engine == "sqlite" else str(request.getfixturevalue("used_postgres_url"))


@pytest.fixture
def database(engine: str, request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[dict[str, Any]]:
    """Give the ORM a database: a file of its own, or that of the store."""
    from tests.frameworks.shop.models import Order  # noqa: PLC0415 - Django must be set up

    named = djangos.in_sqlite(tmp_path / "shop.db")
    if engine == "postgres":
        url, schema = split_schema(request.getfixturevalue("used_postgres_url"))
        named = {**djangos.in_postgres(url), "OPTIONS": {"options": f"-c search_path={schema}"}}
    djangos.use_database(named)
    with connections["default"].schema_editor() as editor:
        editor.create_model(Order)
    yield named
    with connections["default"].schema_editor() as editor:
        editor.delete_model(Order)
    djangos.use_database(djangos.in_sqlite(":memory:"))


@pytest.fixture
def options() -> dict[str, Any]:
    """Give the backend's options, for tests that want others."""
    return {}


@pytest.fixture
def backend(store_url: str, database: dict[str, Any], options: dict[str, Any]) -> Iterator[StandfastBackend]:
    """Give the backend of a store."""
    from tests.frameworks.shop import tasks  # noqa: PLC0415 - Django must be set up

    assert database
    tasks.CALLS.clear()
    with override_settings(TASKS=djangos.tasks(store_url, **options)):
        made = djangos.default_task_backend
        yield made
        asyncio.run(made.sf.close())
        task_store._stores.clear()  # noqa: SLF001 - a process has its stores for good, and tests share their places
