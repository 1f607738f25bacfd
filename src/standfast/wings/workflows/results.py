"""Results of steps that were too big to come with the steps behind them."""

from __future__ import annotations

from standfast.store.store import Store
from standfast.wings.workflows import graphs


def fetch_result(store: Store, step: int) -> str | None:
    """Read the result of one step, as JSON text, for code that cannot wait for a loop."""
    return store.read(graphs.result(step)).result()
