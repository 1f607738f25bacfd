"""What is wrong with a store? Facts from outside come first, so that a store that does not open is examined too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from standfast.concurrency.threads import run_in_thread
from standfast.errors import StandfastError
from standfast.store.finding import Finding
from standfast.store.store import Store
from standfast.wings.health.counting import miscounts
from standfast.wings.health.health_words import in_one_line
from standfast.wings.records.figures import count_of
from standfast.wings.relay.verbs import SpoolStatus

Health = Callable[[], Awaitable[dict[str, Any]]]


async def examine(
    store: Store, health: Health, held: Callable[[], Awaitable[SpoolStatus | None]], verify: Health, *, full: bool
) -> dict[str, Any]:
    """Return every finding, and whether none of them is a problem."""
    found = await run_in_thread(partial(store.location.checkup, full=full))
    if (spooled := await held()) is not None:
        found.append(Finding("spool", spooled.path, spooled.issue))
    if store.location.exists():
        found += [finding async for finding in _opened(store, health, verify)]
    return {"ok": not any(finding.problem for finding in found), "checks": [finding._asdict() for finding in found]}


async def _counts(store: Store) -> Finding:
    """Compare the counts with the jobs themselves."""
    wrong = await store.read(miscounts(store.now()))
    named = "; ".join(f"{each.queue} counts {each.counted} {each.what} and has {each.found}" for each in wrong[:3])
    return Finding("counts", "as many as there are", f"{named}; please report this" if wrong else None)


async def _opened(store: Store, health: Health, verify: Health) -> AsyncIterator[Finding]:
    """Open the store, as any use does, and ask how it is doing."""
    try:
        judged = await health()
    except StandfastError as error:
        yield Finding("opens", "", str(error))
        return
    yield Finding("opens", "yes")
    yield Finding("clock", f"boot {store.moment().boot}, {store.skew():+.1f} s between wall clock and queue time")
    for issue in judged["issues"]:
        yield Finding("health", "", issue)
    if not judged["issues"]:
        yield Finding("health", in_one_line(judged))
    yield await _counts(store)
    chain = await verify()
    broken = None if chain["ok"] else f"the audit chain is broken: {chain['problem']['why']}"
    yield Finding("audit", count_of(chain["entries"], "decision"), broken)
