"""Code of somebody else's, called where whatever it raises must not do harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def asked(question: Callable[[], Answer], otherwise: Callable[[Exception], Answer]) -> Answer:
    """Give the answer, or what is to be said of the exception that came instead."""
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - a property, a text or a reader may raise anything; `otherwise` tells of it
        return otherwise(error)
