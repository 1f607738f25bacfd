"""The history of a job that is put back again and again: what a claim reads of it, and what of it is kept."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from standfast.failure import Class
from standfast.outcome import Failed, NotEntered, Outcome, Snooze
from standfast.rules import QueueRules, fixed
from standfast.store.store import Store
from standfast.wings.limits.holds import MOST_IN_A_ROW
from standfast.wings.records.history import KEPT
from tests.store.suite import claim_one, claimed, ended, enqueued, failed, new_job, one, publish, replayed, seen

RULES = QueueRules(attempts=3, backoff=fixed(1))
BACK = NotEntered("the worker stops")
REFUSED = Failed(failed(code="rate_limited").failure, 1.0, refused=True)


async def attempted(store: Store, clock, *outcomes: Outcome) -> None:
    """End the next attempts of the only job in these ways."""
    for outcome in outcomes:
        assert await ended(store, await claim_one(store), outcome, RULES)
        clock.advance(1)


async def refusals(store: Store) -> int:
    """Claim the only job, and give it back; tell how many refusals in a row its claim knows of."""
    claim = await claim_one(store)
    await ended(store, claim, BACK, RULES)
    return claim.refusals


# --- what a claim reads


async def test_a_claim_knows_how_often_in_a_row_its_job_was_refused(store, clock):
    publish(store, mail=RULES)
    job_id = await one(store)
    await attempted(store, clock, REFUSED, REFUSED)
    assert await refusals(store) == 2
    await attempted(store, clock, Snooze(1), REFUSED, BACK)
    assert await refusals(store) == 3, "what is only put back is neither a refusal nor an end of them"
    await attempted(store, clock, failed())
    assert await refusals(store) == 0
    await attempted(store, clock, REFUSED, failed(Class.PERMANENT))
    await replayed(store, job_id)
    assert await refusals(store) == 0


async def test_it_knows_of_as_many_as_are_allowed_although_others_lie_between(store, clock):
    publish(store, mail=RULES)
    await one(store)
    for _ in range(MOST_IN_A_ROW - 1):
        await attempted(store, clock, REFUSED, BACK)
    await attempted(store, clock, REFUSED)
    assert (await claim_one(store)).refusals == MOST_IN_A_ROW


# --- what is kept


async def test_a_job_that_is_snoozed_without_end_keeps_the_first_and_the_last_lines_and_a_count(store, clock):
    job_id = await one(store)
    outcomes = [Snooze(1)] * (5 * KEPT)
    await attempted(store, clock, *outcomes[: 2 * KEPT])
    first = (await seen(store, job_id)).history[0]
    times = []
    for outcome in outcomes[2 * KEPT :]:
        await attempted(store, clock, outcome)
        view = await seen(store, job_id)
        times.append(view.history[-1].at)
        assert KEPT < len(view.history) <= 2 * KEPT + 1
        assert sum(1 + line.left_out for line in view.history) == view.deferrals
    assert view.deferrals == len(outcomes)
    assert replace(view.history[0], left_out=0) == replace(first, left_out=0)
    assert [line.at for line in view.history[-KEPT:]] == times[-KEPT:]
    assert {line.left_out for line in view.history[1:]} == {0}


async def test_what_differs_from_its_neighbours_is_kept_and_so_is_its_place(store, clock):
    publish(store, mail=RULES)
    job_id = await one(store)
    runs: list[list[Any]] = [[Snooze(1)] * 3 * KEPT, [failed()], [Snooze(1), BACK], [BACK] * 3 * KEPT, [REFUSED]]
    for run in runs:
        await attempted(store, clock, *run)
    history = (await seen(store, job_id)).history
    changes = [line for before, line in pairwise(history) if before.reason_code != line.reason_code]
    assert [history[0].reason_code, *(line.reason_code for line in changes)] == [
        "snoozed",
        "timeout",
        "snoozed",
        "given_back",
        "rate_limited",
    ]
    assert sum(1 + line.left_out for line in history) == sum(map(len, runs))
    assert len(history) < sum(map(len, runs)) - 2 * KEPT
    assert [line.at for line in history] == sorted(line.at for line in history)


async def test_failures_are_all_kept(store, clock):
    rules = replace(RULES, attempts=3 * KEPT)
    publish(store, mail=rules)
    job_id = await one(store)
    for _ in range(2 * KEPT + 9):
        await ended(store, await claim_one(store), failed(), rules)
        clock.advance(1)
    assert len((await seen(store, job_id)).history) == 2 * KEPT + 9


async def test_a_history_that_an_earlier_version_let_grow_is_shortened_by_and_by(store, clock, change):
    job_id = await one(store)
    await attempted(store, clock, Snooze(1))
    lines = ", ".join(f"({line})" for line in range(2, 3000))
    change(
        f"WITH old (line) AS (VALUES {lines}) INSERT INTO history (n, line, entry)"  # noqa: S608 - only numbers
        " SELECT history.n, old.line, history.entry FROM history, old"
    )
    await attempted(store, clock, *[Snooze(1)] * (5 * KEPT))
    history = (await seen(store, job_id)).history
    assert len(history) <= 2 * KEPT + 1
    assert sum(1 + line.left_out for line in history) == 2999 + 5 * KEPT


async def test_jobs_that_are_snoozed_together_are_shortened_each_for_itself(store, clock):
    publish(store, mail=RULES)
    ids = await enqueued(store, *(new_job() for _ in range(7)))
    for _ in range(3 * KEPT):
        for claim in await claimed(store, slots=9):
            await ended(store, claim, Snooze(1), RULES)
        clock.advance(1)
    views = [await seen(store, job_id) for job_id in ids]
    assert {view.deferrals for view in views} == {3 * KEPT}
    assert {sum(1 + line.left_out for line in view.history) for view in views} == {3 * KEPT}
    assert max(len(view.history) for view in views) <= 2 * KEPT + 1
