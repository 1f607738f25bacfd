"""The dashboard, asked in this process without a browser: who sees what, what forms do, and what is refused."""

from __future__ import annotations

import asyncio
import hashlib
import html
import re
import time
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

import httpx2
import pytest

from standfast import Effect, Job, Standfast, Uncertain
from standfast.dashboard.drawing import ago, line, mark
from standfast.dashboard.shared_cache import SharedCache
from standfast.dashboard.sitemap import ACTIONS, PAGES
from standfast.dashboard.statics import NAMES
from standfast.errors import UnknownQueue
from standfast.server.app import Server
from standfast.testing import drain
from standfast.wings.access.words import RIGHTS, Right, Role
from standfast.wings.health.series import growth, percentiles
from standfast.wings.records.figures import number, span
from standfast.wings.workflows.pages import drawing
from tests.store.suite import claim_one
from tests.worker.inside import store_of

HERE = "http://127.0.0.1"
ADDRESSES = tuple(each.path for each in PAGES if "{" not in each.path)


@pytest.fixture
def sf(furnished: Standfast) -> Standfast:
    return furnished


class Browsers:
    """People with browsers, each signed in with a token of their own."""

    def __init__(self, sf: Standfast) -> None:
        self._sf = sf
        self.server = Server(sf)
        self._transport = httpx2.ASGITransport(app=self.server.app)
        self._made: list[httpx2.AsyncClient] = []

    def anybody(self) -> httpx2.AsyncClient:
        self._made.append(httpx2.AsyncClient(transport=self._transport, base_url=HERE))
        return self._made[-1]

    async def of(self, role: str, **scope: Any) -> httpx2.AsyncClient:
        name = f"{role}-{len(self._made)}"
        token = await self._sf.tokens.create(name, person=scope.pop("person", name), role=role, **scope)
        client = self.anybody()
        signed = await client.post("/sign-in", data={"token": token["token"]})
        assert signed.status_code == 200
        return client

    async def close(self) -> None:
        for each in self._made:
            await each.aclose()
        await self.server.close()


@pytest.fixture
async def browsers(sf: Standfast) -> AsyncIterator[Browsers]:
    made = Browsers(sf)
    yield made
    await made.close()


def csrf(page: str) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
    assert found is not None
    return found[1]


async def letter(sf: Standfast, **options: Any) -> str:
    receipt = await sf.enqueue("refused", {"card": "x", "password": "hunter2"}, **options)
    await drain(sf)
    return str(receipt.id)


async def press(client: httpx2.AsyncClient, address: str, **fields: str) -> httpx2.Response:
    """Send a form as a page of ours does."""
    page = await client.get("/jobs")
    return await client.post(address, data={"csrf": csrf(page.text), **fields})


async def test_a_link_signs_one_browser_in_once(sf: Standfast, browsers: Browsers) -> None:
    made = await sf.tokens.create("ann", person="ann", role="admin")
    code = browsers.server.gate.link(made["id"])
    assert "set-cookie" not in (await browsers.anybody().head("/sign-in", params={"code": code})).headers  # a preview
    first, second = browsers.anybody(), browsers.anybody()
    answer = await first.get("/sign-in", params={"code": code})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert (await first.get("/")).status_code == 200
    assert (await second.get("/sign-in", params={"code": code})).status_code == 401
    late = await first.get("/sign-in", params={"code": code})
    assert (late.status_code, late.headers["location"]) == (303, "/")  # whoever is signed in needs no link
    assert (await second.get("/")).status_code == 401


async def test_who_signs_out_or_whose_token_is_revoked_sees_nothing_more(sf: Standfast, browsers: Browsers) -> None:
    client = await browsers.of("viewer")
    page = (await client.get("/")).text
    assert (await client.post("/sign-out", data={"csrf": csrf(page)})).status_code == 303
    assert (await client.get("/")).status_code == 401
    assert (await client.post("/sign-in", data={"token": "sft_nobody_nothing"})).status_code == 401
    assert (await client.post("/sign-in", content=b"\xff")).status_code in {400, 401}
    assert len(await sf.tokens.list()) == 1


ACTING = "/\u202eevil.example/"
"""Written as an escape it would begin with a slash and a backslash, which leads browsers to another host."""


async def test_after_signing_in_nobody_is_led_to_another_site(sf: Standfast, browsers: Browsers) -> None:
    made = await sf.tokens.create("ann", person="ann", role="viewer")
    for wanted in (
        "/sign-in?x",
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        "javascript:alert(1)",
        ACTING,
    ):
        answer = await browsers.anybody().post("/sign-in", data={"token": made["token"], "wanted": wanted})
        assert 'url=/"' in answer.text, wanted


async def test_nothing_invisible_is_on_a_page(sf: Standfast, browsers: Browsers) -> None:
    """Neither what has no width nor what turns the direction of writing, wherever it was written."""
    hidden = "pay\u200bpal\u202etxt\U000e0041"
    job = await sf.enqueue("refused", {hidden: hidden})
    await drain(sf)
    await sf.dead_letters.quarantine(str(job.id), by="ann", reason=hidden, owner="ann")
    client = await browsers.of("admin")
    for address in (f"/jobs/{job.id}", "/dead-letters", "/audit", f"/jobs?q={hidden}", f"/jobs/{hidden}"):
        page = html.unescape((await client.get(address)).text)
        assert not [each for each in "\u200b\u202e\U000e0041" if each in page], address
    assert "pay\\u200bpal" in html.unescape((await client.get(f"/jobs/{job.id}")).text)


@pytest.mark.parametrize("role", [None, *Role])
async def test_every_page_is_for_those_with_its_right(sf: Standfast, browsers: Browsers, role: Role | None) -> None:
    """With nothing in the store too: every empty page teaches."""
    assert sf is not None
    client = browsers.anybody() if role is None else await browsers.of(role)
    for page in PAGES:
        address = page.path.replace("{id}", "nowhere").replace("{name:path}", "nowhere")
        answer = await client.get(address)
        assert answer.headers["content-type"].startswith("text/html")
        if role is None:
            assert answer.status_code == 401, page.path
        elif not {page.right, page.also} & RIGHTS[role]:
            assert answer.status_code == 403, page.path
        else:
            assert answer.status_code == (404 if "{" in page.path else 200), (page.path, answer.text)


async def test_a_form_that_no_page_of_ours_gave_changes_nothing(sf: Standfast, browsers: Browsers) -> None:
    """Whatever it is for: without its field, with another browser's, or with none signed in."""
    client, other = await browsers.of("admin"), await browsers.of("admin")
    stolen = csrf((await other.get("/")).text)
    for action in (*ACTIONS, type(ACTIONS[0])("/jobs/many", "POST", "", ACTIONS[0].ends)):
        address = action.path.replace("{id}", "nowhere").replace("{name:path}", "nowhere")
        for fields in ({}, {"csrf": ""}, {"csrf": stolen}):
            answer = await client.post(address, data={"reason": "x", **fields})
            assert (answer.status_code, "page of this server" in answer.text) == (403, True), address
        assert (await browsers.anybody().post(address, data={"csrf": stolen})).status_code == 401
    assert len(await sf.tokens.list()) == 2


@pytest.mark.parametrize("role", [Role.VIEWER, Role.PRODUCER, Role.APPROVER, Role.OPERATOR])
async def test_a_form_does_no_more_than_the_api_would(sf: Standfast, browsers: Browsers, role: Role) -> None:
    job = await letter(sf, requester="somebody")
    client = await browsers.of(role)
    answer = await press(client, f"/dead-letters/{job}/discard", reason="not wanted")
    state = (await sf.dead_letters.list()) == []
    assert state == (Right.OPERATE in RIGHTS[role])
    assert answer.status_code == (303 if state else 403)


async def test_secrets_are_hidden_from_those_who_only_look(sf: Standfast, browsers: Browsers) -> None:
    """In payloads, failures, explanations and groups, on every page there is."""
    job = await letter(sf)
    looking, working = await browsers.of("viewer"), await browsers.of("operator")
    for address in (*ADDRESSES, f"/jobs/{job}", "/queues/refused"):
        assert "hunter2" not in (await looking.get(address)).text, address
    assert "hunter2" in (await working.get(f"/jobs/{job}")).text


async def test_the_page_of_a_job_shows_where_its_last_attempt_raised(sf: Standfast, browsers: Browsers) -> None:
    @sf.handler("returns")
    async def returns(_job):
        return {"error_kind": "denied", "error": "no"}

    raised, returned = await letter(sf), str((await sf.enqueue("returns")).id)
    await drain(sf)
    for role in ("viewer", "operator"):
        client = await browsers.of(role)
        page = html.unescape((await client.get(f"/jobs/{raised}")).text)
        shown = re.search(r'<details id="traceback" open>.*?<pre>(.*?)</pre>', page, re.DOTALL)
        assert shown is not None
        assert "in refused\n" in shown[1]
        assert shown[1].endswith("Permanent: no: password=***")
        page = html.unescape((await client.get(f"/jobs/{returned}")).text)
        assert "None: the attempt raised no exception" in page


async def test_what_a_token_does_not_reach_is_not_there(sf: Standfast, browsers: Browsers) -> None:
    job = await letter(sf)
    flow = sf.workflow("refused")
    flow.step("refused", "refused")
    started = await flow.start()
    plan = (await sf.dead_letters.plan({"queue": "refused"}))["token"]
    await sf.dead_letters.redrive(plan, by="refused", reason="refused")
    client = await browsers.of("operator", queues=["echo"])
    async with sf.worker(["refused"]):
        for address in ("/", "/queues", "/jobs", "/dead-letters", "/redrives", "/audit", "/workers", "/workflows"):
            page = await client.get(address)
            assert page.status_code == 200
            assert "refused" not in page.text, address
        assert "No worker is running" in (await client.get("/workers")).text
    for address in (f"/jobs/{job}", "/queues/refused", f"/workflows/{started}", f"/redrives/{plan}"):
        assert (await client.get(address)).status_code == 404
    assert (await client.get("/jobs", params={"q": job})).status_code == 200
    assert (await press(client, f"/dead-letters/{job}/replay", reason="x")).status_code == 404


async def test_a_letter_is_amended_and_replayed_by_forms(sf: Standfast, browsers: Browsers) -> None:
    job = await letter(sf)
    client = await browsers.of("operator", person="olga")
    bad = await press(client, f"/dead-letters/{job}/amend", payload="{", reason="x")
    assert bad.status_code == 422
    assert f'action="/dead-letters/{job}/amend"' in bad.text
    assert re.search(r'name="payload"[^>]*>\s*{</textarea>', bad.text)  # what was typed is still there
    assert (await press(client, f"/dead-letters/{job}/amend", payload='{"card": "y"}', reason="")).status_code == 422
    done = await press(client, f"/dead-letters/{job}/amend", payload='{"card": "y"}', reason="typo")
    assert done.headers["location"] == f"/jobs/{job}?done=amend"
    assert (await press(client, f"/dead-letters/{job}/replay", reason="again")).status_code == 303
    found = await sf.status(job)
    assert found is not None
    assert (found.state, found.payload) == ("queued", {"card": "y"})
    page = html.unescape((await client.get(f"/jobs/{job}?done=replay")).text)
    assert "went back to work" in page
    assert "olga" in page


async def test_jobs_are_found_and_changed_together(sf: Standfast, browsers: Browsers) -> None:
    later = [await sf.enqueue("echo", n, delay="1h") for n in range(3)]
    kept = await sf.enqueue("echo", 9, delay="1h", session="planner")
    client = await browsers.of("operator")
    assert (await client.get("/jobs", params={"q": later[0].id})).headers["location"] == f"/jobs/{later[0].id}"
    page = (await client.get("/jobs", params={"session": "planner"})).text
    assert str(kept.id) in page
    assert str(later[0].id) not in page
    assert "unknown" in (await client.get("/jobs", params={"view": "nonsense"})).text
    assert (await press(client, "/jobs/many", verb="cancel")).status_code == 422
    planner = {"verb": "cancel", "filter.session": "planner"}
    assert "Cancel 1 job?" in (await press(client, "/jobs/many", **planner)).text
    assert "1 job cancelled" in (await press(client, "/jobs/many", reason="not now", **planner)).text
    wanted = {"filter.queue": "echo", "filter.state": "queued"}
    assert "Retry 3 jobs?" in (await press(client, "/jobs/many", verb="retry", **wanted)).text  # and nothing changed
    answer = await press(client, "/jobs/many", verb="retry", reason="it is up again", **wanted)
    assert "3 jobs due now" in answer.text
    assert await drain(sf) is not None
    views = [job.view for job in await sf.jobs(queue="echo")]
    assert sorted(views) == ["cancelled", "completed", "completed", "completed"]


async def test_a_token_is_shown_once_and_revoked(sf: Standfast, browsers: Browsers) -> None:
    client = await browsers.of("admin")
    made = await press(
        client, "/tokens", name="ci/bot", person="ci", role="producer", queues="echo, mail", expires="30d"
    )
    assert re.search(r"sft_\w+", made.text)
    [token] = [each for each in await sf.tokens.list() if each["name"] == "ci/bot"]
    assert token["queues"] == ("echo", "mail") or token["queues"] == ["echo", "mail"]
    assert "sft_" not in (await client.get("/tokens")).text
    assert "token ci/bot, for ci, role producer" in (await client.get("/audit")).text
    assert (await press(client, "/tokens/ci%2Fbot/revoke")).status_code == 303
    assert len(await sf.tokens.list()) == 1


async def test_pages_keep_to_the_policy_for_content(sf: Standfast, browsers: Browsers) -> None:
    """No script or style inside a page, nothing from elsewhere, a field against forgery in every form that changes."""
    job = await letter(sf)
    client = await browsers.of("admin")
    for address in (*ADDRESSES, f"/jobs/{job}", "/queues/refused"):
        answer = await client.get(address)
        page = answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not re.search(r"<script(?![^>]* src=\"/static/)|<style|\sstyle=|\son\w+=|javascript:", page), address
        assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", page), address
        for form in re.findall(r"<form[^>]*method=\"post\".*?</form>", page, re.DOTALL):
            assert 'name="csrf"' in form, address


async def test_under_a_prefix_every_address_has_it(sf: Standfast, browsers: Browsers) -> None:
    await letter(sf)
    made = await sf.tokens.create("ann", person="ann", role="admin")
    inside = httpx2.ASGITransport(app=browsers.server.app, root_path="/standfast")
    async with httpx2.AsyncClient(transport=inside, base_url=HERE) as client:
        await client.post("/standfast/sign-in", data={"token": made["token"]})
        for address in ADDRESSES:
            page = await client.get(f"/standfast{address}")
            assert page.status_code == 200, address
            assert not re.search(r"(?:src|href|action|hx-get|data-source)=\"/(?!standfast)", page.text), address


async def test_files_are_served_as_they_are_and_no_others(browsers: Browsers) -> None:
    client = browsers.anybody()
    for name in NAMES:
        answer = await client.get(f"/static/{name}")
        assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True)
    for name in ("../__init__.py", "%2e%2e/site.py", "vendor/MANIFEST", "nothing.js"):
        assert (await client.get(f"/static/{name}")).status_code == 404


def test_what_others_wrote_is_what_they_published() -> None:
    vendor = files("standfast.dashboard") / "static" / "vendor"
    lines = [each.split("  ", 1) for each in (vendor / "MANIFEST").read_text().splitlines()]
    listed = {name: expected for expected, name in lines}
    found = {each.name for each in vendor.iterdir()} - {"MANIFEST", "README.md"}
    assert found == set(listed)
    for name, expected in listed.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == expected, name
    assert {f"vendor/{name}" for name in found} <= set(NAMES)


def test_values_are_written_for_people() -> None:
    assert [span(each) for each in (0, 0.25, 5, 65, 3600, 90061, None)][:6] == [
        "0 s", "250 ms", "5 s", "1 min 5 s", "1 h", "1 d 1 h",
    ]  # fmt: skip
    assert [number(each) for each in (3, 1_000_000)] == ["3", "1 000 000".replace(" ", "\N{NO-BREAK SPACE}")]
    assert line("a\nb\u202e" + "x" * 400, 6) == "a b\ufffdxx…"
    assert (mark("dead"), mark("completed"), mark("queued")) == ("bad", "good", "calm")
    assert ago(None) == "\N{EN DASH}"


async def test_counts_say_how_old_they_are(sf: Standfast, browsers: Browsers) -> None:
    """An answer that took long counts as new for a while, and is shown with its age."""
    client = await browsers.of("viewer")
    assert "Counted just now." in (await client.get("/")).text
    known = browsers.server._site._cache._known  # noqa: SLF001
    known["stats"] = (time.monotonic() - 12, 10.0, await sf.stats())
    assert "Counted 12 s ago." in (await client.get("/")).text


async def test_a_dear_question_is_asked_once_and_not_waited_for() -> None:
    """Many want to know: one asks. What is known is shown while a new answer is on its way; a failure is told."""
    cache, asked, gate = SharedCache(), [], asyncio.Event()

    async def ask() -> int:
        asked.append(1)
        await gate.wait()
        return len(asked)

    assert await cache.get_soon("depth", ask, 0.01) is None
    waiting = [asyncio.ensure_future(cache.get("depth", ask)) for _ in range(5)]
    await asyncio.sleep(0)
    gate.set()
    assert [told.value for told in await asyncio.gather(*waiting)] == [1] * 5
    assert ((await cache.get("depth", ask)).value, len(asked)) == (1, 1)

    async def refuse() -> None:
        raise UnknownQueue("none such")

    with pytest.raises(UnknownQueue):
        await cache.get("other", refuse)
    await cache.close()


def test_a_chart_shows_growth_and_never_less_than_nothing() -> None:
    rates = growth((10.0, {"completed": 5, "retry": 9}), (12.0, {"completed": 15, "retry": 1}))
    assert rates == {"enqueued": 0.0, "completed": 5.0, "retried": 0.0, "dead": 0.0}
    assert percentiles([]) is None
    assert percentiles([3.0, 1.0, 2.0]) == (2.0, 2.0)


def test_a_graph_places_steps_behind_those_they_wait_for() -> None:
    step = {"state": "queued", "view": "queued"}
    drawn = drawing({"a": {**step, "after": []}, "b": {**step, "after": ["a"]}, "c": {**step, "after": ["a", "b"]}})
    assert drawn is not None
    assert [box.x for box in drawn.boxes] == sorted({box.x for box in drawn.boxes})
    assert len(drawn.ways) == 3
    assert drawing({str(n): {**step, "after": []} for n in range(1000)}) is None


async def test_the_page_of_a_job_shows_a_bar_and_every_look(sf: Standfast, browsers: Browsers) -> None:
    @sf.handler("slow", replay="verify_first", effects=[Effect("ticket", lambda _job: False)])
    async def slow(job: Job) -> None:
        job.progress(0.4, "2 of 5 <files>")
        raise Uncertain("no answer")

    receipt = await sf.enqueue("slow", attempts=3)
    sf.queue("slow", backoff="none")
    await drain(sf)
    page = (await (await browsers.of("viewer")).get(f"/jobs/{receipt.id}")).text
    assert re.search(r'<progress max="1" value="0\.4" aria-label="Progress"></progress> <strong>40 %</strong>', page)
    assert "2 of 5 &lt;files&gt;" in page
    effects = page[page.index('aria-label="Effects"') :]
    assert len(re.findall(r"absent</", effects)) == 2, "one before each repeat"


async def test_the_page_of_a_job_that_waits_for_consent_calls_it_no_failure(sf: Standfast, browsers: Browsers) -> None:
    @sf.handler("pay", consent=True)
    async def pay(_job: Job) -> None:
        """Pay."""

    receipt = await sf.enqueue("pay", session="s")
    await drain(sf)
    page = (await (await browsers.of("admin")).get(f"/jobs/{receipt.id}")).text
    assert "<dt>Waits for consent</dt>" in page
    assert "<dt>Failure</dt>" not in page
    assert html.escape("It has waited for its session's consent for", quote=True).replace("&#x27;", "&#39;") in page


@pytest.mark.parametrize("where", ["asks", "running", "completed", "dead"])
async def test_a_retry_that_was_refused_is_not_shown_as_done(sf: Standfast, browsers: Browsers, where: str) -> None:
    """Before, the page said "Done: it runs again as soon as it may." whatever the retry answered."""
    if where == "asks":
        sf.handler("asks", consent=True)(lambda _: None)
        job = str((await sf.enqueue("asks", session="s")).id)
        await drain(sf)
    elif where == "completed":
        job = str((await sf.enqueue("echo")).id)
        await drain(sf)
    elif where == "running":
        job = str((await sf.enqueue("echo")).id)
        await claim_one(store_of(sf), "echo")
    else:
        job = await letter(sf)
    client = await browsers.of("operator")
    pressed = await press(client, f"/jobs/{job}/retry")
    if where == "dead":
        assert (pressed.status_code, pressed.headers["location"]) == (303, f"/jobs/{job}?done=retry")
        return
    assert pressed.status_code == 409
    assert "That was not done" in pressed.text
    assert "retried" in pressed.text


async def test_a_cancellation_that_came_too_late_is_not_shown_as_done(sf: Standfast, browsers: Browsers) -> None:
    job = str((await sf.enqueue("echo")).id)
    await drain(sf)
    pressed = await press(await browsers.of("operator"), f"/jobs/{job}/cancel")
    assert (pressed.status_code, "Nothing was cancelled" in pressed.text) == (409, True)
