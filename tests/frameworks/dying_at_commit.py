"""Commits an order with its task, and dies before it can tell the store: `python dying_at_commit.py STORE DATABASE`."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any
from unittest import mock

from tests.frameworks import djangos

djangos.set_up()

from django.db import transaction  # noqa: E402 - Django must be set up
from django.test import override_settings  # noqa: E402

from standfast.django.enqueuing import Enqueuing  # noqa: E402
from tests.frameworks.shop import tasks  # noqa: E402
from tests.frameworks.shop.models import Order  # noqa: E402


def die(_enqueuing: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def order(store: str, database: str) -> None:
    djangos.use_database(djangos.in_sqlite(database))
    dying = mock.patch.object(Enqueuing, "_relay", die)  # the moment to die at
    with dying, override_settings(TASKS=djangos.tasks(store)), transaction.atomic():
        Order.objects.create(number=7)
        tasks.add.enqueue(7)


if __name__ == "__main__":
    order(*sys.argv[1:])
