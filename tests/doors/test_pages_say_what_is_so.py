"""Pages and answers that once led a reader to the wrong conclusion."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx2
import msgspec
import pytest

from standfast import Permanent, Standfast, StoreUnavailable
from standfast.errors import UnknownJob
from standfast.mcp.outside import refusal
from standfast.testing import drain
from standfast.wings.consent.shapes import ConsentAnswered, ConsentAsked, ConsentGiven
from tests.doors.test_dashboard import Browsers
from tests.doors.test_rest import Clients


@pytest.fixture
async def sf(furnished: Standfast) -> Standfast:
    """Give queues that fail, that ask for consent, and that are never served."""

    @furnished.handler("orders")
    async def order(_job):
        raise Permanent("the carrier does not know this address")

    @furnished.handler("pay", consent=True)
    async def pay(_job):
        return {"paid": True}

    furnished.queue("orders", attempts=1)
    return furnished


@pytest.fixture
async def client(sf: Standfast) -> AsyncIterator[httpx2.AsyncClient]:
    browsers = Browsers(sf)
    yield await browsers.of("admin")
    await browsers.close()


async def test_a_job_that_waits_for_consent_is_not_shown_as_a_failed_attempt(sf, client):
    waiting = await sf.enqueue("pay", {}, session="s")
    await drain(sf)
    page = (await client.get(f"/jobs/{waiting.id}")).text
    assert "Not begun: it waits for consent." in page
    assert "Attempt 1 failed" not in page
    assert "Traceback" not in page
    assert "permanent" not in page


async def test_jobs_that_wait_for_consent_are_counted_on_the_overview_and_over_rest(sf, client):
    for _ in range(2):
        await sf.enqueue("pay", {}, session="s")
    await sf.enqueue("orders")
    await drain(sf)
    clients = Clients(sf)
    stats = (await (await clients.of("operator")).get("/stats")).json()
    assert (stats["total_awaiting_consent"], stats["total_dead_letter"]) == (2, 3)
    assert (stats["queues"]["pay"]["awaiting_consent"], stats["queues"]["orders"]["awaiting_consent"]) == (2, 0)
    await clients.close()
    page = re.sub(r"<[^>]*>|\s+", " ", (await client.get("/")).text)
    assert re.search(r"Waiting for consent +2 +held until a person answers", page)


async def test_a_stuck_workflow_says_which_step_stopped_and_that_it_goes_on_once_that_is_replayed(sf, client):
    flow = sf.workflow("restock")
    flow.step("second", "orders", {}, after=[flow.step("first", "orders", {})])
    workflow = await flow.start()
    await drain(sf)
    page = (await client.get(f"/workflows/{workflow}")).text
    first = (await sf.workflows.get(workflow))["steps"]["first"]["job_id"]
    assert f'Step <a href="/jobs/{first}">first</a> died: handler_refused.' in page
    assert "Once it is replayed or resolved, the workflow continues automatically" in page


async def test_a_redrive_of_a_paused_queue_does_not_say_that_letters_run(sf, client):
    await sf.enqueue("orders")
    await drain(sf)
    await sf.queues.pause("orders")
    plan = await sf.dead_letters.plan({"queue": "orders"})
    redrive = await sf.dead_letters.redrive(plan["token"], by="ann", reason="again", rate="10/s", halt_on=0.2)
    page = (await client.get(f"/redrives/{redrive.id}")).text
    assert "Replayed, not ended yet" in page
    assert ">Running<" not in page
    assert "20 % of them failing again" in page
    assert "10 a second" in page


async def test_jobs_of_a_label_lead_to_the_letters_of_that_label_alone(sf, client):
    await sf.enqueue("orders", labels={"team": "north"})
    await drain(sf)
    page = (await client.get("/jobs", params={"label": "team:north"})).text
    assert 'href="/dead-letters?label=team%3Anorth">Dead letters that match' in page
    running = (await client.get("/jobs", params={"label": "team:north", "state": "running"})).text
    assert "Dead letters that match" not in running, "no letter is running"


async def test_answers_to_consents_are_as_the_published_schema_says(sf):
    waiting = [await sf.enqueue("pay", {"n": n}, session="s") for n in range(2)]
    await drain(sf)
    clients = Clients(sf)
    client = await clients.of("admin")
    listed = (await client.get("/consents")).json()
    granted = (await client.post(f"/consents/{waiting[0].id}/grant", json={})).json()
    denied = (await client.post(f"/consents/{waiting[1].id}/deny", json={"reason": "no"})).json()
    given = (await client.post("/consents", json={"session": "s", "handler": "pay", "mode": "always"})).json()
    document = (await client.get("/openapi.json")).json()
    await clients.close()
    assert len(msgspec.convert(listed["asks"], list[ConsentAsked])) == 2
    assert msgspec.convert(granted, ConsentAnswered).job_id == waiting[0].id
    assert msgspec.convert(denied, ConsentAnswered).mode == "deny"
    assert msgspec.convert(given, ConsentGiven).session == "s"
    for path, status in (("/consents", "201"), ("/consents/{id}/grant", "200"), ("/consents/{id}/deny", "200")):
        answered = document["paths"][f"/api/v1{path}"]["post"]["responses"][status]
        assert "$ref" in answered["content"]["application/json"]["schema"]


@pytest.mark.parametrize(
    ("error", "says", "never"),
    [
        (StoreUnavailable("away", definite=False), "not known whether it was done", "make it again"),
        (StoreUnavailable("away", definite=True), "Make the same call again", "correct the call"),
        (UnknownJob.for_id("x"), "jobs lists your jobs", "make it again"),
    ],
)
def test_an_agent_is_not_told_to_call_again_what_may_have_been_done(error, says, never):
    answered = refusal(error)
    assert answered.is_error
    hint = (answered.structured_content or {})["hint"]
    assert says in hint
    assert never not in hint
