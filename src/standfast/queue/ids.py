"""Job ids: UUIDv7, minted by the caller, so that the newest sort last and a retry brings the same id."""

from __future__ import annotations

import os
import random

_random = random.Random()  # noqa: S311 - ids must not collide; nobody's safety hangs on guessing them
os.register_at_fork(after_in_child=_random.seed)


def chance() -> tuple[int, int, int]:
    """Give 74 random bits in three parts. The kernel is asked once per process: for each id it would cost too much."""
    return _random.getrandbits(12), _random.getrandbits(14), _random.getrandbits(48)


def job_id(wall: float, luck: tuple[int, int, int]) -> str:
    """Mint an id from the wall clock (48 bits of milliseconds) and chance."""
    now = int(wall * 1000)
    first, second, third = luck
    return f"{now >> 16:08x}-{now & 0xFFFF:04x}-7{first:03x}-{0x8000 | second:04x}-{third:012x}"
