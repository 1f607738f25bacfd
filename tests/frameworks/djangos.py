"""Django, set up for a process of tests; each test gives it a database and a store of its own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import django
import psycopg
from django.conf import settings
from django.db import connections

try:
    from django.tasks import default_task_backend, task

    APPS: list[str] = []
except ImportError:
    from django_tasks import default_task_backend, task

    APPS = ["django_tasks"]

__all__ = [
    "default_task_backend",
    "forget_connection",
    "in_postgres",
    "in_sqlite",
    "set_up",
    "task",
    "tasks",
    "use_database",
]

BACKEND = "standfast.django.StandfastBackend"
QUEUES = ["default", "mail", "slow"]


def tasks(url: str, **options: Any) -> dict[str, Any]:
    """Give what TASKS says for a store."""
    quick = {"backoff": lambda _number: 0.0}
    rules = {"default": {"attempts": 3, **quick}, "mail": quick, "slow": {"backoff": lambda _number: 3600.0}}
    return {"default": {"BACKEND": BACKEND, "QUEUES": QUEUES, "OPTIONS": {"url": url, "queues": rules, **options}}}


def in_sqlite(path: Path | str) -> dict[str, Any]:
    """Give what DATABASES says for a file."""
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}


def in_postgres(url: str) -> dict[str, Any]:
    """Give what DATABASES says for a server."""
    parts = psycopg.conninfo.conninfo_to_dict(url)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    return {
        "ENGINE": "django.db.backends.postgresql",
        **{key: str(parts.get(name) or "") for key, name in names.items()},
    }


def set_up() -> None:
    """Set Django up, once."""
    if settings.configured:
        return
    settings.configure(
        INSTALLED_APPS=[*APPS, "standfast.django", "tests.frameworks.shop"],
        DATABASES={"default": in_sqlite(":memory:")},
        TASKS=tasks(":memory:"),
        USE_TZ=True,
    )
    django.setup()


def use_database(database: dict[str, Any]) -> None:
    """Have the ORM use another database from now on."""
    forget_connection()
    connections.settings["default"] = connections.configure_settings({"default": database})["default"]


def forget_connection() -> None:
    """Have this thread connect anew."""
    connections.close_all()
    with suppress(AttributeError):  # none was made yet
        del connections["default"]
