"""A burst of events on one pull request: one job, the newest payload, and the urgent first."""

from __future__ import annotations

from standfast.rules import TRIGGER_PRIORITIES
from standfast.testing import drain
from tests.waiting import job_of


def test_the_priorities_are_those_of_capability_13():
    assert TRIGGER_PRIORITIES == {
        "ci_failure_master": 100,
        "ci_failure_pr": 80,
        "assign": 70,
        "pr_update_approved": 60,
        "mention": 50,
        "pr_update_review": 40,
        "pr_update_general": 30,
        "scheduled_high": 20,
        "scheduled_low": 10,
    }


async def test_a_burst_while_the_pull_request_is_being_looked_at_is_one_more_look(app):
    """Capabilities 11, 12 and 30, as a handler meets them."""
    looked = []

    @app.handler("review")
    async def review(job):
        looked.append(job.payload)
        if len(looked) == 1:
            for number in range(2, 30):
                await app.enqueue("review", number, thread_key="pr-7", coalesce="latest")

    receipt = await app.enqueue("review", 1, thread_key="pr-7", coalesce="latest")
    assert await drain(app) == {"review": 2}
    assert looked == [1, 29]
    [later, first] = await app.jobs(queue="review")
    assert (first.id, later.coalesced["count"]) == (receipt.id, 27)
    assert later.first_seen_at == (await job_of(app, first.id)).first_seen_at
