"""A page shows what was asked for and no more: a filter that it cannot use is refused there, as the API refuses it."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator

import httpx2
import pytest

from standfast import Standfast
from standfast.testing import drain
from tests.doors.test_dashboard import Browsers, press
from tests.doors.test_rest import Clients

LETTERS = 6


@pytest.fixture
async def sf(furnished: Standfast) -> Standfast:
    for n in range(LETTERS):
        await furnished.enqueue("refused", {"n": n % 3}, labels={"tenant": "ab"[n % 2]})
    await drain(furnished)
    return furnished


@pytest.fixture
async def client(sf: Standfast) -> AsyncIterator[httpx2.AsyncClient]:
    browsers = Browsers(sf)
    yield await browsers.of("admin")
    await browsers.close()


def planned(page: str) -> dict[str, str]:
    """Give the filter that the page's last button plans by."""
    form = page.rpartition("/dead-letters/plan")[2]
    return dict(re.findall(r'name="filter\.([^"]+)" value="([^"]*)"', form))


async def test_a_path_into_the_payload_is_read_as_the_api_reads_it_and_carried_to_the_plan(sf, client):
    query = "queue=refused&payload.n=1"
    page = (await client.get(f"/dead-letters?{query}")).text
    clients = Clients(sf)
    listed = (await (await clients.of("operator")).get(f"/dead-letters?{query}")).json()["items"]
    await clients.close()
    shown = set(re.findall(r'<a class="id" href="/jobs/([^"]+)"', page))
    assert shown == {each["id"] for each in listed}
    assert len(shown) == 2
    assert planned(page) == {"queue": "refused", "payload": "n=1"}
    plan = await press(client, "/dead-letters/plan", **{"filter.queue": "refused", "filter.payload": "n=1"})
    assert "happen to 2 letters" in plan.text


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("/dead-letters?labl=tenant:a", "unknown filter 'labl' (did you mean 'label'?)"),
        ("/dead-letters?queue=refused&bogus=1", "unknown filter 'bogus'"),
        ("/dead-letters?bogus=", "unknown filter 'bogus'"),
        ("/dead-letters?label=tenant:a&label=tenant:b", "gives a name twice: label"),
        ("/dead-letters?payload.n=1&payload.m=2", "one path into the payload"),
        ("/dead-letters?clss=permanent", "did you mean 'class'?"),
        ("/dead-letters?class=no", "unknown class 'no'"),
        ("/dead-letters?since=soon", "is not a time"),
        ("/jobs?queue=refused&class=permanent", "unknown filter 'class'"),
        ("/jobs?queue=refused&fingerprint=f", "unknown filter 'fingerprint'"),
        ("/jobs?queue=refused&payload.n=1", "unknown filter 'payload.n'"),
        ("/jobs?label=tenant:a&label=tenant:b", "gives a name twice: label"),
        ("/jobs?queue=refused&state=ded", "did you mean 'dead'?"),
        ("/jobs?possible_duplicate=maybe", "unknown possible_duplicate 'maybe'"),
        ("/jobs?session=" + "s" * 600, "the filter session cannot be used"),
        ("/workflows?state=gone", "unknown state 'gone'"),
        ("/workflows?stat=failed", "did you mean 'state'?"),
        ("/approvals?state=pendin", "did you mean 'pending'?"),
        ("/approvals?queue=refused", "unknown filter 'queue'"),
        ("/audit?kind=replays", "did you mean 'replay'?"),
        ("/audit?job=a&job=b", "the filter job is given twice"),
    ],
)
async def test_what_a_page_cannot_choose_by_is_refused_and_nothing_is_offered_for_more(client, address, says):
    answer = await client.get(address)
    page = html.unescape(answer.text)
    assert answer.status_code == 422
    assert says in page
    assert "/dead-letters/plan" not in page
    assert "/jobs/many" not in page
    assert 'class="id" href="/jobs/' not in page, "no job is listed"
    assert f'href="{address.partition("?")[0]}">Clear the filter' in page


@pytest.mark.parametrize("path", ["/dead-letters", "/jobs"])
async def test_an_empty_field_of_a_form_chooses_nothing(client, path):
    answer = await client.get(f"{path}?queue=refused&label=&state=&cursor=")
    assert answer.status_code == 200
    assert len(set(re.findall(r'class="id" href="/jobs/([^"]+)"', answer.text))) == LETTERS
    assert 'name="filter.label"' not in answer.text


async def test_many_jobs_are_not_changed_by_a_filter_of_which_a_part_is_unknown(sf, client):
    job = (await sf.enqueue("echo", {}, delay=3600)).id
    wide = await press(client, "/jobs/many", verb="cancel", **{"filter.queue": "echo", "filter.fingerprint": "f"})
    assert wide.status_code == 422
    fields = {"csrf": re.findall(r'name="csrf" value="(\w+)"', (await client.get("/jobs")).text)[0], "verb": "cancel"}
    twice = {**fields, "reason": "r", "filter.label": ["tenant:a", "tenant:b"], "filter.queue": "echo"}
    assert (await client.post("/jobs/many", data=twice)).status_code == 422
    assert (await sf.status(job)).state == "queued"
