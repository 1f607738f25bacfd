"""How much is measured: limited in count and in time, so that a slow disk cannot stretch the run."""

from __future__ import annotations

import msgspec

PAYLOAD_BYTES = 200
PAYLOAD = {"data": "x" * (PAYLOAD_BYTES - len('{"data":""}'))}
"""The payload of every job, in standfast and in raw SQLite: 200 bytes of JSON text."""

CALLERS = 64
"""Callers that enqueue at once, and rows of the raw transactions they are compared with."""
BULK = 1000
"""Jobs of one `enqueue_many`, and rows of the raw transactions it is compared with."""
RAW_CLAIM = 256
"""Rows that raw SQLite claims and completes in one transaction."""


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Counts are jobs; `seconds` limits every single measurement."""

    small: int = 1_000
    """The small standing backlog."""
    middle: int = 100_000
    """The backlog that the drain of the large one is compared with."""
    large: int = 1_000_000
    """The large standing backlog, which is also drained to watch a worker's memory."""
    warm_up: int = 50_000
    """Jobs in the file before a measurement, so that the log has been through a checkpoint."""
    one_at_a_time: int = 2_000
    by_callers: int = 30_000
    by_bulk: int = 60_000
    drained: int = 50_000
    """Jobs drained to empty, and taken from each standing backlog."""
    one_beside_backlog: int = 500
    beside_backlog: int = 10_000
    """Jobs enqueued by 64 callers and in bulk next to a standing backlog, then drained."""
    with_feature: int = 4_000
    """Jobs with each feature, and plain ones, that are enqueued and run in one process."""
    probes: int = 200
    """Lone jobs whose start is timed."""
    longest_pause: float = 0.03
    """Seconds of random pause before each probe, at most."""
    idle_seconds: float = 12.0
    seconds: float = 20.0
    """The most one measurement may take."""
    drain_all_seconds: float = 150.0
    """The most the drain of the large backlog may take."""
    fill_seconds: float = 120.0
    """The most that filling one backlog may take; a disk that needs more is too slow."""


FULL = Sizes()
QUICK = Sizes(
    middle=10_000,
    large=100_000,
    warm_up=6_000,
    one_at_a_time=400,
    by_callers=6_000,
    by_bulk=20_000,
    drained=5_000,
    one_beside_backlog=100,
    beside_backlog=1_000,
    with_feature=500,
    probes=25,
    longest_pause=0.015,
    idle_seconds=10.0,
    seconds=3.0,
    drain_all_seconds=15.0,
    fill_seconds=30.0,
)
