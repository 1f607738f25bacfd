"""How numbers, sizes and lengths of time are written wherever a person reads them: `standfast.printable` has it."""

from __future__ import annotations

from standfast.printable import APART, NOTHING, count_of, data_size, number, span

__all__ = ["APART", "NOTHING", "count_of", "data_size", "number", "span"]
