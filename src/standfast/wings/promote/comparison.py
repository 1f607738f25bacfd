"""Compares a store with its copy: counts and hashes of everything, by state.

Blocks of jobs are compared ahead of time. Later the server's own hashes show which blocks are unchanged there, and the
source's list of changes shows the rest, so that little is left to do while the store is frozen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from standfast.errors import StoreUnavailable
from standfast.store.job_tables import KEYS, Row
from standfast.store.sqlite.source import Source
from standfast.wings.promote import tables as promotion
from standfast.wings.promote.tables import WHOLE, Digests, by_state, digest, shifted, summed

if TYPE_CHECKING:
    from standfast.store.postgres.target import Target

AT_ONCE = 1000
"""How many rows are read at once."""
BLOCKS_AT_ONCE = 100


class BlockComparison(NamedTuple):
    """A block that was found to be the same in both stores, and the server's own hash of it."""

    digests: Digests
    print: str | None


class Comparison:
    """What is known to be the same in both stores. `by` is added to times of the source."""

    def __init__(self, source: Source, target: Target, by: float) -> None:
        self._source = source
        self._target = target
        self._by = by
        self._known: dict[int, BlockComparison] = {}

    def forget(self, numbers: Iterable[int]) -> None:
        """Compare the blocks of these jobs again."""
        for n in numbers:
            self._known.pop(n // promotion.BLOCK, None)

    def block(self, block: int) -> bool:
        """Compare a block as it is now with its copy."""
        numbers = span(block)
        print_ = self._target.prints(*numbers, promotion.BLOCK).get(block)
        ours = by_state(shifted(self._source.jobs(*numbers), self._by))
        if ours != by_state(self._target.jobs(*numbers)):
            return False
        self._known[block] = BlockComparison(ours, print_)
        return True

    def everything(self) -> dict[str, Any]:
        """Compare everything, or raise; return the account."""
        blocks = range(self._source.extent()[1] // promotion.BLOCK + 1)
        for start in blocks[::BLOCKS_AT_ONCE]:
            self._blocks(blocks[start : start + BLOCKS_AT_ONCE])
        states = summed(self._known[block].digests for block in blocks)
        counts = {state: number for state, (number, _) in states.items()}
        check("jobs by state", counts, self._source.counts())
        check("jobs by state", counts, self._target.counts())
        for table in WHOLE:
            ours = table.shifted(self._source.whole_table(table), self._by)
            check(table.name, digest(ours), digest(self._target.whole_table(table)))
        return {
            "jobs": sum(counts.values()),
            "keys": self._keys(),
            "states": {state: {"jobs": number, "sha256": hashed} for state, (number, hashed) in states.items()},
        }

    def _blocks(self, blocks: range) -> None:
        """Compare the blocks that have changed, on either side, since they were compared."""
        prints = self._target.prints(span(blocks[0])[0], span(blocks[-1])[1], promotion.BLOCK)
        for block in blocks:
            known = self._known.get(block)
            if known is None or known.print != prints.get(block):
                first, last = span(block)
                check(f"jobs {first} to {last}", self.block(block), expected=True)

    def _keys(self) -> int:
        after: Row = ("", "")
        number = 0
        while rows := KEYS.shifted(self._source.keys(after, AT_ONCE), self._by):
            keys = [row[:2] for row in rows]
            check("keys", digest(rows), digest(self._target.keys(keys)))
            after, number = keys[-1], number + len(keys)
        check("numbers of keys", number, self._target.number_of_keys())
        return number


def span(block: int) -> tuple[int, int]:
    """Return the first and the last number of a block."""
    return block * promotion.BLOCK, block * promotion.BLOCK + promotion.BLOCK - 1


def check(what: str, found: Any, expected: Any) -> None:
    """Refuse to move to a copy that is not the same."""
    if found != expected:
        raise StoreUnavailable(
            f"the copy differs from the store in {what}; nothing was moved, and the old store stays in use: find out "
            "what else writes to the target, then run promote again",
            definite=True,
        )
