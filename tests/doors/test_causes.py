"""Letters that spent their attempts, found by what the last attempt failed of, on every door."""

from __future__ import annotations

import pytest

from standfast import Permanent, Standfast, Uncertain
from standfast.testing import drain
from tests.doors.test_dashboard import Browsers
from tests.doors.test_rest import Clients

GUARDED = "version: v1\ndlq_rules: [{match: {reason_code: max_attempts}, action: auto_replay}]\n"


@pytest.fixture
async def sf(furnished: Standfast) -> Standfast:
    """Give a queue with one letter that spent its attempts without knowing what it did, and one that was refused."""
    for queue, error in (("spent", Uncertain("no reply")), ("unwanted", Permanent("no"))):

        @furnished.handler(queue)
        async def handle(_job, error=error):
            raise error

        furnished.queue(queue, attempts=1)
        await furnished.policy.load(GUARDED)
        await furnished.enqueue(queue)
    await drain(furnished)
    return furnished


@pytest.mark.parametrize("asked", ["cause", "reason_code"])
async def test_rest_finds_letters_by_cause(sf, asked):
    clients = Clients(sf)
    client = await clients.of("operator")
    found = (await client.get("/dead-letters", params={asked: "unknown_commit_state"})).json()["items"]
    groups = (await client.get("/dead-letters/groups", params={asked: "unknown_commit_state"})).json()
    plan = (await client.post("/dead-letters/plan", json={"filter": {asked: "unknown_commit_state"}})).json()
    await clients.close()
    assert [letter["queue"] for letter in found] == ["spent"]
    assert (found[0]["failure"]["reason_code"], found[0]["failure"]["cause"]) == (
        "max_attempts",
        "unknown_commit_state",
    )
    assert found[0]["triage"]["note"].startswith("dlq_rules#1 would replay it, but its effect may have landed")
    assert [group["cause"] for group in groups["items"]] == ["unknown_commit_state"]
    assert plan["letters"] == 1


async def test_the_dashboard_finds_letters_by_cause_and_says_why_none_was_replayed(sf):
    browsers = Browsers(sf)
    client = await browsers.of("operator")
    page = (await client.get("/dead-letters", params={"cause": "unknown_commit_state"})).text
    [letter] = await sf.dead_letters.list({"cause": "unknown_commit_state"})
    shown = (await client.get(f"/jobs/{letter.id}")).text
    await browsers.close()
    assert letter.id in page
    assert "handler_refused" not in page
    assert 'name="cause" value="unknown_commit_state"' in page
    assert "<code>max_attempts</code> caused by <code>unknown_commit_state</code>" in shown
    assert "dlq_rules#1 would replay it, but its effect may have landed" in shown
