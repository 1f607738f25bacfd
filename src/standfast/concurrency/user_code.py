"""Calls the application's code, plain or async, from the loop: plain code runs in a thread that is never joined.

A plain function that hangs is left behind: its thread must hold up neither the loop nor the end of the process.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, TypeVar

from standfast.concurrency.guarded import call_guarded

Answer = TypeVar("Answer")


async def call_user_code(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function and return its answer, awaited if it is awaitable."""
    if _is_async(function):
        return await function(*given)
    answer = await _in_thread(function, *given)
    return await answer if inspect.isawaitable(answer) else answer


async def in_own_task(code: Awaitable[Answer]) -> Answer:
    """Await code and turn SystemExit into an error: out of a task, it would stop the loop and every other job."""
    try:
        return await code
    except SystemExit as error:
        raise RuntimeError(f"it asked the process to exit ({error.code})") from error


def _is_async(function: Callable[..., Any]) -> bool:
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


def _in_thread(function: Callable[..., Any], *given: Any) -> asyncio.Future[Any]:
    answer: Future[Any] = Future()
    context = copy_context()
    name = "standfast-check"
    threading.Thread(target=context.run, args=(_answer, answer, function, *given), name=name, daemon=True).start()
    return asyncio.wrap_future(answer)


def _answer(answer: Future[Any], function: Callable[..., Any], *given: Any) -> None:
    if answer.set_running_or_notify_cancel():
        call_guarded(lambda: answer.set_result(function(*given)), answer.set_exception)
