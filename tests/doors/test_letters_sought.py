"""Letters chosen over REST and on the dashboard by what they hold, and by whom."""

from __future__ import annotations

import pytest

from standfast import Standfast
from standfast.testing import drain
from tests.doors.test_rest import Clients, hint


@pytest.fixture
async def sf(furnished: Standfast) -> Standfast:
    for name in ("ann", "bob"):
        payload = {"to": name, "customer": {"id": len(name)}, "api_key": f"k-{name}"}
        await furnished.enqueue("refused", payload, labels={"tenant": name, "password": f"p-{name}"})
    await drain(furnished)
    return furnished


@pytest.fixture
async def clients(sf: Standfast):
    made = Clients(sf)
    yield made
    await made.close()


@pytest.mark.parametrize(
    "query",
    ["payload.to=ann", "payload=to%3Dann", "label=tenant:ann", "text=k-ann", "handler=refused&label=tenant:ann"],
)
async def test_an_operator_finds_letters_by_what_they_hold(clients: Clients, query: str) -> None:
    operator = await clients.of("operator")
    found = (await operator.get(f"/dead-letters?{query}")).json()["items"]
    assert [letter["payload"]["to"] for letter in found] == ["ann"]
    groups = (await operator.get(f"/dead-letters/groups?{query}")).json()["items"]
    assert [group["count"] for group in groups] == [1]


async def test_a_plan_takes_the_letters_that_the_list_shows(clients: Clients) -> None:
    operator = await clients.of("operator")
    plan = await operator.post(
        "/dead-letters/plan", json={"filter": {"payload": "to=ann", "since": "2020-01-01T00:00Z"}}
    )
    assert plan.json()["letters"] == 1, plan.text
    assert hint(await operator.post("/dead-letters/plan", json={"filter": {"since": "soon"}}), 422)


@pytest.mark.parametrize("query", ["text=k-ann", "payload.api_key=k-ann", "label=password:p-ann"])
async def test_a_viewer_cannot_find_by_trial_what_is_hidden_from_it(clients: Clients, query: str) -> None:
    viewer = await clients.of("viewer")
    assert "operator" in hint(await viewer.get(f"/dead-letters?{query}"), 403)
    assert "operator" in hint(await viewer.get(f"/dead-letters/groups?{query}"), 403)
    shown = (await viewer.get("/dead-letters?label=tenant:ann&handler=refused")).json()["items"]
    assert [letter["labels"]["tenant"] for letter in shown] == ["ann"]


async def test_lists_of_redrives_workflows_and_approvals_show_what_a_token_reaches(
    sf: Standfast, clients: Clients
) -> None:
    plan = await sf.dead_letters.plan({"queue": "refused"})
    await sf.dead_letters.redrive(plan["token"], by="ann")
    flows = []
    for _ in range(3):
        flow = sf.workflow("flow")
        flow.step("later", "echo", delay=3600)
        flows.append(await flow.start())
    viewer, outsider = await clients.of("viewer"), await clients.of("viewer", queues=["echo"])
    assert [each["id"] for each in (await viewer.get("/redrives")).json()["items"]] == [plan["token"]]
    assert (await outsider.get("/redrives")).json()["items"] == []
    first = (await viewer.get("/workflows?limit=2")).json()
    rest = (await viewer.get(f"/workflows?limit=2&cursor={first['next_cursor']}")).json()
    assert [each["id"] for each in [*first["items"], *rest["items"]]] == sorted(flows, reverse=True)
    assert rest["next_cursor"] is None
    assert "by its id" in hint(await outsider.get("/workflows"), 403)
    assert len((await viewer.get("/audit?last=1")).json()["items"]) == 1
    async with sf.worker(["echo", "refused"]):
        [seen] = (await outsider.get("/workers")).json()["items"]
    assert seen["queues"] == ["echo"]
