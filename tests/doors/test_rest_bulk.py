"""POST /jobs:bulk: many jobs in one request, each line answered by itself, within the limits of a single one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from standfast import Standfast
from standfast.errors import StoreUnavailable
from standfast.server.api import LARGEST_BULK
from standfast.testing import drain
from standfast.wings.jobs.bulk_routes import MOST_LINES
from tests.doors.test_rest import Clients, hint

NDJSON = "application/x-ndjson"


@pytest.fixture
def sf(furnished: Standfast) -> Standfast:
    return furnished


@pytest.fixture
async def clients(sf: Standfast) -> AsyncIterator[Clients]:
    made = Clients(sf)
    yield made
    await made.close()


def body(*lines: Any) -> bytes:
    """Write lines; text is written as it stands."""
    return b"\n".join(each.encode() if isinstance(each, str) else json.dumps(each).encode() for each in lines)


async def send(client: httpx2.AsyncClient, *lines: Any, **headers: str) -> httpx2.Response:
    return await client.post("/jobs:bulk", content=body(*lines), headers={"Content-Type": NDJSON, **headers})


async def test_each_line_has_its_receipt_in_order_and_runs(sf, clients):
    client = await clients.of("producer")
    answer = await send(client, *({"queue": "echo", "payload": n, "labels": {"n": str(n)}} for n in range(250)))
    assert (answer.status_code, answer.json()["outcomes"]) == (200, {"accepted": 250})
    items = answer.json()["items"]
    assert [item["line"] for item in items] == [*range(1, 251)]
    await drain(sf)
    last = (await client.get(f"/jobs/{items[-1]['receipt']['id']}")).json()
    assert (last["result"], last["labels"], last["requester"]) == ({"got": 249}, {"n": "249"}, "producer-0")


async def test_a_bad_line_keeps_no_other_out_and_says_what_is_wrong(sf, clients):
    client = await clients.of("producer", queues=["echo"])
    keyed = {"queue": "echo", "payload": 1, "idempotency_key": "k"}
    lines = [
        keyed,
        "{",
        keyed,
        {**keyed, "payload": 2},
        {"queue": "echo", "unknown": 1},
        {"queue": "other"},
        {"queue": "echo", "session": "somebody's"},
        {"queue": "echo", "payload": 1, "http": {"method": "GET", "url": "https://example.org/"}},
        {"queue": "echo", "http": {"method": "GET", "url": "http://127.0.0.1/"}},
        '{"queue": "echo", "payload": NaN}',
        "",
        {"queue": "echo", "payload": "last", "at": "2099-06-01T00:00:00Z"},
    ]
    answer = await send(client, *lines)
    found = answer.json()
    assert found["outcomes"] == {"accepted": 2, "duplicate": 1, "refused": 8}
    statuses = [(item["line"], item["status"]) for item in found["items"]]
    assert statuses == [
        *((1, 201), (2, 400), (3, 200), (4, 422), (5, 422), (6, 403), (7, 403)),
        *((8, 422), (9, 422), (10, 422), (12, 201)),
    ]
    for item in found["items"]:
        assert (item["receipt"] is None) == (item["problem"] is not None)
        assert item["problem"] is None or item["problem"]["hint"]
    scheduled = await sf.status(found["items"][-1]["receipt"]["id"])
    assert scheduled is not None
    assert (scheduled.view, scheduled.due_at.year) == ("scheduled", 2099)


async def test_the_answer_is_lines_where_lines_are_asked_for(clients):
    client = await clients.of("producer")
    answer = await send(client, {"queue": "echo"}, "{", Accept=NDJSON)
    assert answer.headers["content-type"].startswith(NDJSON)
    assert [json.loads(line)["status"] for line in answer.text.splitlines()] == [201, 400]


async def test_a_full_queue_refuses_what_it_has_no_room_for(sf, clients):
    sf.queue("echo", max_depth=3)
    client = await clients.of("producer")
    answer = await send(client, *({"queue": "echo", "payload": n} for n in range(5)))
    assert [item["status"] for item in answer.json()["items"]] == [201, 201, 201, 429, 429]


async def test_who_may_not_enqueue_and_what_is_too_much_is_refused_whole(sf, clients):
    viewer, producer, nobody = [await clients.of(role) for role in ("viewer", "producer", None)]
    assert (await send(viewer, {"queue": "echo"})).status_code == 403
    assert (await send(nobody, {"queue": "echo"})).status_code == 401
    assert "several requests" in hint(await send(producer, *["{}"] * (MOST_LINES + 1)), 413)
    assert "fewer lines" in hint(await producer.post("/jobs:bulk", content=b"x" * (LARGEST_BULK + 1)), 413)
    assert hint(await send(producer, "", " "), 422)
    assert len(await sf.jobs()) == 0


async def test_ten_thousand_lines_are_taken(sf, clients):
    client = await clients.of("producer")
    lines = body(*(f'{{"queue":"echo","payload":{n}}}' for n in range(MOST_LINES)))
    async with client.stream("POST", "/jobs:bulk", content=lines) as answer:  # comparing it with its schema takes long
        found = json.loads(await answer.aread())
    assert found["outcomes"] == {"accepted": MOST_LINES}
    assert (await sf.stats())["total_pending"] == MOST_LINES


async def test_a_line_as_large_as_no_request_may_be_is_refused_alone(clients):
    client = await clients.of("producer")
    answer = await send(client, {"queue": "echo", "payload": "x" * (1 << 20)}, {"queue": "echo"})
    assert [item["status"] for item in answer.json()["items"]] == [413, 201]


async def test_a_store_that_does_not_answer_is_told_for_each_line(sf, clients, monkeypatch):
    """Which of the lines are on disk is known: those with a receipt."""
    client = await clients.of("producer")

    async def away(_jobs):
        raise StoreUnavailable("the store is away", definite=True)

    monkeypatch.setattr(sf._reception, "accept_each", away)  # noqa: SLF001 - a store that fails on cue
    answer = await send(client, {"queue": "echo"}, "{")
    assert [item["status"] for item in answer.json()["items"]] == [503, 400]


async def test_a_single_job_may_be_scheduled_by_a_time_as_the_api_writes_them(sf, clients):
    client = await clients.of("producer")
    for at in ("2099-01-01T00:00:00Z", "2099-01-01T02:00:00+02:00", 4_070_908_800):
        answer = await client.post("/jobs", json={"queue": "echo", "at": at})
        assert answer.status_code == 201, answer.text
        job = await sf.status(answer.json()["id"])
        assert job is not None
        assert job.due_at.timestamp() == pytest.approx(4_070_908_800, abs=0.001)
    assert hint(await client.post("/jobs", json={"queue": "echo", "at": "2099-01-01T00:00:00"}), 422)


async def test_each_job_of_a_call_is_answered_by_itself(sf):
    receipts = await sf.enqueue_each(
        [
            {"queue": "echo", "payload": 1, "idempotency_key": "k"},
            {"payload": 1},
            {"queue": "echo", "prority": 1},
            {"queue": "echo", "http": {"method": "POST", "url": "https://example.org/", "body": 1}},
        ]
    )
    assert [getattr(each, "outcome", type(each).__name__) for each in receipts] == [
        *("accepted", "ConfigurationError", "ConfigurationError", "accepted")
    ]
    assert {job.handler for job in await sf.jobs()} == {"echo", "http"}
