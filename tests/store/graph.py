"""Workflows in the store's tests: start one by the names of its steps, run it by hand, look at what is left."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from standfast.job import Claim
from standfast.outcome import Succeeded
from standfast.store.store import Store
from standfast.wings.workflows import graphs
from standfast.wings.workflows.graphs import Start, Started, StepRow
from standfast.wings.workflows.rules import Plan, plan
from tests.store.suite import claimed, ended, new_job

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
_ids = itertools.count(1)


def laid_out(after: Mapping[str, Sequence[str]], queue: str = "mail", **given: Any) -> Start:
    """Lay a workflow out; each step's payload is its name."""
    planned = plan(list(after.items()))
    assert isinstance(planned, Plan)
    options = {name: given.pop(name) for name in list(given) if name in after}
    jobs = [new_job(queue, f'"{name}"', **options.get(name, {})) for name in planned.order]
    how = {"id": f"workflow-{next(_ids):04}", "name": "nightly", "fingerprint": str(sorted(after)), **given}
    return Start(jobs=jobs, steps=planned.order, parents=planned.parents, **how)


async def started(store: Store, after: Mapping[str, Sequence[str]] = DIAMOND, **given: Any) -> str:
    """Start a workflow that must be accepted; give its id."""
    answer: Started = await store.write(graphs.start, laid_out(after, **given))
    assert isinstance(answer, str)
    return answer


async def steps(store: Store, workflow: str) -> dict[str, StepRow]:
    """Look at the steps, by name."""
    found = await store.read(graphs.one(workflow))
    assert found is not None
    return {step.name: step for step in found[1]}


async def states(store: Store, workflow: str) -> dict[str, str]:
    """Give the state of each step."""
    return {name: step.state for name, step in (await steps(store, workflow)).items()}


async def progress(store: Store, workflow: str) -> str:
    """Give how far a workflow has come."""
    found = await store.read(graphs.one(workflow))
    assert found is not None
    return found[0].state


async def claims(store: Store, *names: str) -> list[Claim]:
    """Claim the steps of these names, which must be all that can be claimed."""
    found = {claim.payload.strip('"'): claim for claim in await claimed(store, slots=100)}
    assert sorted(found) == sorted(names)
    return [found[name] for name in names]


async def done(store: Store, *names: str) -> None:
    """Run steps, which must be all that can be claimed; each gives its name as its result."""
    for name, claim in zip(names, await claims(store, *names), strict=True):
        assert await ended(store, claim, Succeeded(f'"{name}"'))
