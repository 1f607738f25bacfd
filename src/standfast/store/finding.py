"""What a checkup of a store found."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One fact about a store, or a problem with it."""

    name: str
    value: str
    problem: str | None = None
