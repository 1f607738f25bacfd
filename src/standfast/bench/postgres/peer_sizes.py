"""How much is measured on PostgreSQL, next to several peers of which the slowest determines the time."""

from __future__ import annotations

from standfast.bench.sizes import Sizes

FULL = Sizes(
    one_at_a_time=1_000,
    by_callers=20_000,
    by_bulk=20_000,
    drained=50_000,
    probes=60,
    longest_pause=0.03,
    seconds=4.0,
    fill_seconds=120.0,
)
"""Takes eight minutes at most."""
QUICK = Sizes(
    middle=10_000,
    large=100_000,
    one_at_a_time=100,
    by_callers=3_000,
    by_bulk=5_000,
    drained=4_000,
    probes=12,
    longest_pause=0.015,
    seconds=0.5,
    fill_seconds=30.0,
)
"""Takes about a minute."""
