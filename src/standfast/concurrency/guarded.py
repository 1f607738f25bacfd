"""Calls foreign code whose exceptions must do no harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def call_guarded(question: Callable[[], Answer], otherwise: Callable[[Exception], Answer]) -> Answer:
    """Return the answer of `question`, or what `otherwise` makes of its exception.

    SystemExit and every other BaseException count; only KeyboardInterrupt is raised, which may come from a person.
    """
    try:
        return question()
    except BaseException as error:  # the guard of foreign code: `otherwise` counts, records or words it
        if isinstance(error, KeyboardInterrupt):
            raise
        return otherwise(error if isinstance(error, Exception) else _tamed(error))


def _tamed(error: BaseException) -> Exception:
    tamed = RuntimeError("it raised what is no Exception")
    tamed.__cause__ = error
    return tamed
