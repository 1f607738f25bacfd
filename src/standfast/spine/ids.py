"""Job ids: UUIDv7, minted by the caller, so that the newest sort last and a retried call sends the same id."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from standfast.errors import ConfigurationError
from standfast.portable import at_fork

Series = tuple[int, str, Iterator[int]]
"""A millisecond, the prefix that its ids share, and the iterator of their suffixes."""


class Ids:
    """Mints ids. Those of one millisecond count up from a random start, so they sort in the order they were minted."""

    def __init__(self, bits: Callable[[int], int]) -> None:
        self._bits = bits
        self._series: Series = (-1, "", iter(()))

    def mint(self, wall: float) -> str:
        """Mint an id from the wall clock (48 bits of milliseconds) and random bits. Threads may mint concurrently."""
        now = int(wall * 1000)
        series = self._series
        if now != series[0]:
            first, second, third = self._bits(12), self._bits(14), self._bits(47)  # leaves room to count up
            beginning = f"{now >> 16:08x}-{now & 0xFFFF:04x}-7{first:03x}-{0x8000 | second:04x}-"
            self._series = series = now, beginning, itertools.count(third)
        return f"{series[1]}{next(series[2]):012x}"

    def start_anew(self) -> None:
        """Start a new random series: a forked child must not continue its parent's."""
        self._series = (-1, "", iter(()))


JobId = str | Mapping[str, Any] | None
"""What a caller may name a job by: its id, or a Reply, whose `operation_id` is one."""


def id_of(given: JobId) -> str:
    """Return the id in what a caller names a job by. None, as in a fallback's receipt, names no job."""
    if isinstance(given, Mapping):
        given = given.get("operation_id", given)
    if given is not None and not isinstance(given, str):
        raise ConfigurationError(f"a job is named by its id, a text, not by {given!r}; pass receipt.id, or a Reply")
    if given is not None and not given.isprintable():  # some stores cannot even be queried for such a text
        raise ConfigurationError(f"a job's id is printable, and {given!r} is not; pass receipt.id")
    return given or ""


_random = random.Random()  # noqa: S311 - ids must not collide; guessing them does no harm
IDS = Ids(_random.getrandbits)
"""This process's ids. The kernel is asked for randomness once, because asking for each id would cost too much."""


def _begin_in_child() -> None:
    _random.seed()
    IDS.start_anew()


at_fork(after_in_child=_begin_in_child)
