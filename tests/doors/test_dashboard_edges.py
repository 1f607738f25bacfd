"""The dashboard at its edges: what is too long, too many, asked too often, or asked while the store is away."""

from __future__ import annotations

import asyncio
import html
import json
import logging
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from standfast import Permanent, Standfast, StoreUnavailable
from standfast.dashboard.drawing import MOST_INDENTED, whole_json
from standfast.dashboard.incidents import incidents
from standfast.dashboard.shared_cache import MOST_GOING, SharedCache
from standfast.server.app import Server
from standfast.server.cookies import name_at
from standfast.testing import drain
from standfast.wings.access.words import RIGHTS, Grant, Right, Role
from standfast.wings.jobs import many
from standfast.wings.jobs import pages as jobs
from standfast.wings.limits.outages import Outage
from standfast.wings.records.figures import APART
from standfast.wings.redrives.rules import issues_of_halts
from standfast.wings.workflows.rules import issues as issues_of_workflows
from tests.doors.test_dashboard import HERE, Browsers, press

WANTS_A_PERSON = "version: v1\ndlq_rules:\n  - {match: {}, action: require_approval, approver_group: treasury}\n"


@pytest.fixture
async def sf() -> AsyncIterator[Standfast]:
    async with Standfast(":memory:") as made:
        yield made


@pytest.fixture
async def browsers(sf: Standfast) -> AsyncIterator[Browsers]:
    made = Browsers(sf)
    yield made
    await made.close()


async def asked_for(sf: Standfast, payload: Any) -> str:
    """Have a letter wait for a person; give the approval's id."""
    sf.policy.load(WANTS_A_PERSON)

    @sf.handler("pay")
    async def refused(_job):
        raise Permanent("no")

    await sf.enqueue("pay", payload)
    await drain(sf)
    [approval] = await sf.approvals.list()
    return str(approval["id"])


def payload_on(page: str) -> Any:
    found = re.search(r'id="payload" open>.*?<pre tabindex="0">(.*?)</pre>', page, re.DOTALL)
    assert found is not None
    return json.loads(html.unescape(found[1]))


async def test_the_list_of_letters_shows_what_triage_decided_and_whose_they_are(
    sf: Standfast, browsers: Browsers
) -> None:
    sf.queue("mail", attempts=1)

    @sf.handler("mail")
    async def refused(_job):
        raise Permanent("no")

    receipt = await sf.enqueue("mail")
    await drain(sf)
    client = await browsers.of("viewer")
    assert ">pending review</span>" in (await client.get("/dead-letters")).text
    await sf.dead_letters.quarantine(str(receipt.id), by="ann", reason="theirs", owner="team-x")
    page = (await client.get("/dead-letters")).text
    assert '<th scope="col">Triage</th>' in page
    assert '>quarantined</span><br><span class="soft">owner team-x</span>' in page
    assert "Triage" not in (await client.get("/jobs")).text


async def test_who_approves_sees_all_of_it(sf: Standfast, browsers: Browsers, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it is; whoever is not shown all of it has no button."""
    payload = {"a_note": "x" * 200_000, "password": "hunter2", "z_transfer": "all the money"}
    approval = await asked_for(sf, payload)
    client = await browsers.of("approver", groups=["treasury"])
    page = (await client.get(f"/approvals/{approval}")).text
    assert payload_on(page) == payload
    assert "nothing left out" in page
    assert "<dt>On approval</dt><dd>handler pay of queue pay runs again</dd>" in page
    assert "Reason for denial" in page
    assert "Approve and carry out" in page
    monkeypatch.setitem(RIGHTS, Role.APPROVER, frozenset({Right.READ, Right.APPROVE}))
    page = (await client.get(f"/approvals/{approval}")).text
    assert "hunter2" not in page
    assert "nothing left out" not in page
    assert "Approve and carry out" not in page


def test_every_role_that_approves_reads_payloads() -> None:
    """Else it would approve what it does not see."""
    assert all(Right.READ_PAYLOADS in rights for rights in RIGHTS.values() if Right.APPROVE in rights)


def test_what_is_shown_whole_is_not_swollen_by_indenting() -> None:
    deep: Any = [*range(20_000), "last"]
    for _ in range(60):
        deep = [deep]
    text = whole_json(deep)
    assert json.loads(text) == deep
    assert len(text) < MOST_INDENTED


async def test_while_the_store_is_away_every_page_and_form_says_so() -> None:
    nowhere = Standfast("postgresql://127.0.0.1:1/none")
    server = Server(nowhere)
    transport = httpx2.ASGITransport(app=server.app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url=HERE, cookies={name_at(HERE): "x" * 43}) as client:
        pages = [await client.get(address) for address in ("/", "/jobs")]
        forms = [await client.post(address, data={"token": "sft_abc_def"}) for address in FORMS]
        lines = await client.get("/live/series")
    await server.close()
    await nowhere.close()
    for answer in (*pages, *forms, lines):
        assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (503, True), answer.url
    for answer in (*pages, *forms):
        assert "The store does not answer" in answer.text
        assert "Reload the page in a moment" in answer.text


FORMS = ("/sign-in", "/queues/echo/pause", "/jobs/many")


async def test_what_matches_is_changed_to_the_last_one(
    sf: Standfast, browsers: Browsers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One form changes the newest, and leads on to the older ones, past what was changed; the log names each."""
    monkeypatch.setattr(many, "MOST", 4)
    monkeypatch.setattr(many, "PAGE", 2)
    brought = [str((await sf.enqueue("echo", n)).id) for n in range(7)]
    client = await browsers.of("operator", person="olga")
    asked = {"filter.queue": "echo"}
    assert (await press(client, "/jobs/many", verb="nonsense", **asked)).status_code == 422
    caplog.set_level(logging.INFO, "standfast.server")
    first = await press(client, "/jobs/many", verb="cancel", **asked)
    assert "Cancel the newest 4 jobs?" in first.text
    assert {job.view for job in await sf.jobs()} == {"queued"}
    first = await press(client, "/jobs/many", verb="cancel", reason="a mistake", **asked)
    assert "4 jobs cancelled" in first.text
    older = dict(re.findall(r'type="hidden" name="([\w.]+)" value="([^"]*)"', first.text.partition("<main")[2]))
    second = await client.post("/jobs/many", data=older)
    assert "3 jobs cancelled" in second.text
    assert "Continue with older jobs" not in second.text
    assert {job.view for job in await sf.jobs()} == {"cancelled"}
    noted = [each.getMessage() for each in caplog.records if "/jobs/many" in each.getMessage()]
    assert len(noted) == len(brought)
    assert all("cancel" in line and "olga" in line and "a mistake" in line for line in noted)
    assert all(any(job in line for line in noted) for job in brought)


async def test_a_form_for_many_ends_in_time_and_not_silently(
    sf: Standfast, browsers: Browsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes long stops after a page; a store that goes away is said, and not taken for a job that was left."""
    monkeypatch.setattr(many, "PAGE", 2)
    monkeypatch.setattr(many, "LONGEST", -1.0)
    for n in range(3):
        await sf.enqueue("echo", n)
    client = await browsers.of("operator")
    stopped = await press(client, "/jobs/many", verb="cancel", reason="x", **{"filter.queue": "echo"})
    assert "2 jobs cancelled" in stopped.text
    assert "Continue with older jobs" in stopped.text

    async def away(_id: str) -> None:
        raise StoreUnavailable("away", definite=True)

    olga = Grant(id="o", name="o", person="olga", role=Role.OPERATOR)
    [left] = await sf.jobs(state="queued")
    with pytest.raises(StoreUnavailable):
        await many._one(olga, many.Verb("cancel", away, many.GOES_ON), "x", left)  # noqa: SLF001


async def test_who_needs_an_approval_is_led_to_it(sf: Standfast, browsers: Browsers) -> None:
    approval = await asked_for(sf, {})
    [letter] = await sf.dead_letters.list()
    client = await browsers.of("operator")
    answer = await press(client, f"/dead-letters/{letter.id}/replay", reason="again")
    assert answer.headers["location"] == f"/approvals/{approval}?done=asked"
    assert "This is the approval that was requested" in (await client.get(answer.headers["location"])).text


async def test_an_address_that_leads_nowhere_is_a_page_for_people(browsers: Browsers) -> None:
    client = await browsers.of("viewer")
    person, program = {"Accept": "text/html,*/*"}, {"Accept": "*/*"}
    for address, headers, expected in (
        ("/nowhere", person, "text/html"),
        ("/nowhere", program, "application/problem+json"),
        ("/api/v1/nowhere", person, "application/problem+json"),
    ):
        answer = await client.get(address, headers=headers)
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (404, expected), address
    assert '<a href="/">Back to the overview</a>' in (await browsers.anybody().get("/nowhere", headers=person)).text


async def test_jobs_of_our_own_queues_are_shown_to_those_who_ask(
    sf: Standfast, browsers: Browsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is done to everything that matches is not done to them."""
    monkeypatch.setattr(jobs, "OURS", "carrier.")  # nobody else may bring work to those that are ours
    ours, other = await sf.enqueue("carrier.mail", {}), await sf.enqueue("echo", {})
    client = await browsers.of("operator")
    pages = [(await client.get(f"/jobs?{asked}")).text for asked in ("", "ours=1", "queue=carrier.mail")]
    assert [str(ours.id) in page for page in pages] == [False, True, True]
    assert str(other.id) in pages[0]
    await press(client, "/jobs/many", verb="cancel", reason="x", **{"filter.state": "queued"})
    assert {job.queue: job.state for job in await sf.jobs()} == {"carrier.mail": "queued", "echo": "cancelled"}


def test_everything_that_is_wrong_with_one_queue_is_one_line() -> None:
    """An alert has the amounts of a moment ago, and is the same trouble."""
    issues = ["c: 1 due job and no worker", "a: b: 14 dead letters", "clock jumped", "c: 2 pending (backed up)"]
    alerts = [{"message": "a: b: 13 dead letters"}, {"message": "c: 5 dead letters"}]
    found = incidents(issues, alerts, ["a: b", "c"])
    assert [(each.queue, [tuple(part) for part in each.says]) for each in found] == [
        ("c", [("1 due job and no worker", None), ("2 pending (backed up)", None), ("5 dead letters", alerts[1])]),
        ("a: b", [("14 dead letters", alerts[0])]),
        (None, [("clock jumped", None)]),
    ]


@pytest.mark.parametrize("amount", ["61 s", "1 min 1 s", "3 h", f"1{APART}000", "250 ms"])
def test_an_alert_with_another_amount_is_the_same_trouble(amount: str) -> None:
    alert = {"message": "sweeper last ran 21 s ago"}
    [found] = incidents([f"sweeper last ran {amount} ago"], [alert], [])
    assert found.says[0].alert is alert


def test_what_has_a_page_of_its_own_is_linked_as_health_words_it() -> None:
    stuck = issues_of_workflows([("wf-1", "order: 7", 1, 2)], 5)
    halted = issues_of_halts([("rd-1", "2 of the 2 that were tried first failed again")])
    away = str(Outage("CRM", datetime(2026, 1, 2, 11, 45, tzinfo=UTC), 360.0))
    assert away == "CRM has not answered since 2026-01-02 11:45 UTC; next try in 6 min"
    first, second, third = incidents([*stuck, *halted, away], [], ["order"])
    assert first.link == ("/workflows/wf-1", "Workflow", "order: 7", "is stuck: 1 step stopped, 2 not done")
    assert second.link == ("/redrives/rd-1", "Redrive", "rd-1", "halted: 2 of the 2 that were tried first failed again")
    assert (third.link, third.away) == (None, "CRM")


async def test_one_visitor_does_not_start_work_without_end() -> None:
    """Each address may ask another question: only so many are under way, and the counts are still told."""
    cache, gate, going = SharedCache(), asyncio.Event(), 0

    async def ask() -> int:
        nonlocal going
        going += 1
        await gate.wait()
        return 7

    async def count() -> int:
        return 3

    for n in range(MOST_GOING + 5):
        assert await cache.get_soon(("groups", n), ask, 0) is None
    assert going == MOST_GOING
    assert (await cache.get("stats", count)).value == 3
    gate.set()
    told = await cache.get_soon(("groups", 0), ask)
    assert told is not None
    again = await cache.get_soon(("groups", MOST_GOING), ask)
    assert (told.value, again is not None) == (7, True)
    await cache.close()
