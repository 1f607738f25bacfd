"""How numbers, sizes and lengths of time are written wherever a person reads them: see `standfast.printable`."""

from __future__ import annotations

from standfast.printable import APART, NOTHING, count_of, data_size, number, span

__all__ = ["APART", "NOTHING", "count_of", "data_size", "number", "span"]
