"""Call foreign code where whatever it raises must do no harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def call_guarded(question: Callable[[], Answer], otherwise: Callable[[Exception], Answer]) -> Answer:
    """Give the answer, or what is to be said of the exception that came instead.

    An exit or another BaseException is one of these; only KeyboardInterrupt goes on, which may have come from a person.
    """
    try:
        return question()
    except BaseException as error:  # the guard of foreign code: `otherwise` has it counted, recorded or worded
        if isinstance(error, KeyboardInterrupt):
            raise
        return otherwise(error if isinstance(error, Exception) else _tamed(error))


def _tamed(error: BaseException) -> Exception:
    tamed = RuntimeError("it raised what is no Exception")
    tamed.__cause__ = error
    return tamed
