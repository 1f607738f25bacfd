"""Tasks of every shape."""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection, connections

from standfast import Permanent, Snooze
from standfast.django.tasks_framework import TaskContext
from tests.frameworks.djangos import task
from tests.frameworks.shop.models import Order

CALLS: list[Any] = []
"""What tasks have done, in order."""


class DeclinedError(Exception):
    """An error of the shop's own."""


@task()
def add(first: int, second: int = 0) -> int:
    CALLS.append((first, second))
    return first + second


@task(priority=5, queue_name="mail")
def send(to: str) -> str:
    CALLS.append(to)
    return f"sent to {to}"


@task()
async def add_async(first: int, second: int = 0) -> int:
    await asyncio.sleep(0)
    return first + second


@task()
async def count_orders() -> int:
    count = int(await Order.objects.acount())
    CALLS.append(await sync_to_async(lambda: connections["default"])())
    return count


@task(takes_context=True)
def tell_attempt(context: TaskContext, *, fails: int) -> dict[str, Any]:
    result = context.task_result
    CALLS.append((context.attempt, str(result.status), result.id))
    if context.attempt <= fails:
        raise DeclinedError(f"attempt {context.attempt}")
    return {"attempt": context.attempt}


@task()
def decline() -> None:
    raise DeclinedError("no money")


@task()
def decline_for_good() -> None:
    raise Permanent("the card was stolen")


@task()
async def decline_async() -> None:
    raise DeclinedError("no money, async")


@task()
def return_text_as_bytes() -> Any:
    return {"words": (b"one", "two"), "success": False}


@task()
def return_nothing_json_knows() -> object:
    return object()


@task()
def snooze_once() -> Any:
    CALLS.append("asked")
    return "done" if len(CALLS) > 1 else Snooze(0)


@task()
def use_the_database() -> int:
    """Count orders, and tell how many connections this thread has open now."""
    count = Order.objects.count()
    CALLS.append([each for each in connections.all(initialized_only=True) if each.connection is not None])
    CALLS.append(connection.connection)
    return int(count)
