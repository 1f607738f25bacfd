"""What a look at a store shows."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One fact about a store, or what stands in its way."""

    name: str
    value: str
    problem: str | None = None
