"""What the REST door keeps from whom, and what it says while the store cannot take more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from standfast import ConfigurationError, Permanent, Standfast
from standfast.server.app import API, Server
from standfast.server.auth import CSRF_HEADER
from standfast.store.sqlite.disk import Disk
from standfast.testing import drain
from standfast.wings.calls import routes as calls
from standfast.wings.policy import routes as policy
from tests.doors.browsing import sign_in
from tests.worker.inside import publish_elsewhere, store_of

HERE = "http://127.0.0.1"
POLICY = """
version: v1
replay_rules:
  - {match: {labels: {ask: "yes"}}, decision: require_approval, approver_group: platform}
  - {match: {}, decision: allow}
"""


@pytest.fixture
async def sf(tmp_path: Path) -> AsyncIterator[Standfast]:
    """Give a queue with two lanes, and letters in both."""
    made = Standfast(tmp_path / "queue.db")

    for queue in ("ours", "theirs"):

        @made.handler(queue)
        async def refused(_job):
            raise Permanent("no: password=hunter2")

    made.policy.load(POLICY)
    async with made:
        yield made


async def client(sf: Standfast, role: str, **scope: Any) -> httpx2.AsyncClient:
    """Give a client of a role."""
    made = await sf.tokens.create(f"{role}-{len(await sf.tokens.list())}", person=role, role=role, **scope)
    shown = {"Authorization": f"Bearer {made['token']}"}
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=Server(sf).app), base_url=f"{HERE}{API}", headers=shown
    )


def status(answer: httpx2.Response) -> int:
    """Give the status of an answer; a refusal is a problem document with a hint."""
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["hint"]
    return answer.status_code


async def test_a_token_that_is_revoked_here_counts_no_more_at_once(sf: Standfast) -> None:
    """Although what it stands for is remembered, so that not every request asks the store."""
    async with await client(sf, "producer") as known, await client(sf, "producer") as other:
        assert status(await known.post("/jobs", json={"queue": "ours"})) == 201
        assert status(await other.post("/jobs", json={"queue": "ours"})) == 201
        await sf.tokens.revoke("producer-0")
        assert status(await known.post("/jobs", json={"queue": "ours"})) == 401
        assert status(await other.post("/jobs", json={"queue": "ours"})) == 201


async def test_the_short_way_is_guarded_like_the_long_one(sf: Standfast) -> None:
    """Host, origin, size and token are looked at before a job is taken in, and the answer has every header."""
    async with await client(sf, "producer") as producer:
        taken = await producer.post("/jobs", json={"queue": "ours"})
        listed = await producer.get("/jobs")
        guards = {"content-security-policy", "x-content-type-options", "x-frame-options", "referrer-policy"}
        guards |= {"cross-origin-opener-policy", "cross-origin-resource-policy", "cache-control"}
        assert {name: taken.headers[name] for name in guards} == {name: listed.headers[name] for name in guards}
        for shown, refused in (
            ({"Host": "evil.example"}, 421),
            ({"Origin": "http://evil.example"}, 403),
            ({"Content-Length": "9999999"}, 413),
            ({"Authorization": "Bearer none"}, 401),
        ):
            assert status(await producer.post("/jobs", content=b'{"queue": "ours"}', headers=shown)) == refused
        assert status(await producer.put("/jobs", content=b"{}")) in {404, 405}
    assert len(await sf.jobs()) == 1


async def test_a_token_for_one_queue_learns_nothing_of_another(sf: Standfast) -> None:
    """Lists leave it out, single things are not there, and what is about everything is refused."""
    theirs = str((await sf.enqueue("theirs", 1, labels={"ask": "yes"}, requester="zoe")).id)
    ours = str((await sf.enqueue("ours", 1, requester="zoe")).id)
    await drain(sf)
    approval = (await sf.dead_letters.replay(theirs, by="bob"))["approval"]
    await sf.schedules.add("nightly", "theirs", cron="0 0 * * *")
    plan = (await sf.dead_letters.plan({"queue": "theirs"}))["token"]
    whole = (await sf.dead_letters.plan({}))["token"]
    flow = sf.workflow("both")
    flow.step("a", "ours")
    flow.step("b", "theirs")
    workflow = await flow.start()
    await sf.queues.pause("theirs")

    async with await client(sf, "admin", queues=["ours"], groups=["platform"]) as admin:
        assert [each["id"] for each in (await admin.get("/dead-letters")).json()["items"]] == [ours]
        assert {each["queue"] for each in (await admin.get("/jobs")).json()["items"]} == {"ours"}
        for path in ("/approvals", "/schedules"):
            assert (await admin.get(path)).json()["items"] == [], path
        assert "theirs" not in (await admin.get("/health")).text
        assert "theirs" not in (await admin.get("/queues")).text
        hidden = [
            await admin.get(f"/jobs/{theirs}"),
            await admin.get(f"/dead-letters/{theirs}"),
            await admin.get(f"/workflows/{workflow}"),
            await admin.post(f"/workflows/{workflow}/cancel"),
            await admin.post(f"/approvals/{approval}/approve"),
            await admin.post(f"/approvals/{approval}/deny", json={"reason": "no"}),
            await admin.post("/schedules/nightly/pause"),
            await admin.delete("/schedules/nightly"),
            await admin.post("/redrives", json={"token": plan, "reason": "x"}),
            await admin.post("/redrives", json={"token": whole, "reason": "x"}),
            await admin.get("/audit", params={"job": theirs}),
        ]
        assert [status(each) for each in hidden] == [404] * len(hidden)
        refused = [
            await admin.get("/jobs", params={"queue": "theirs"}),
            await admin.post("/schedules", json={"name": "nightly", "queue": "ours", "every": 60}),
            await admin.request("DELETE", "/dead-letters", json={"confirm": 2, "reason": "old"}),
            await admin.post("/dead-letters/plan", json={}),
            await admin.get("/dead-letters/groups"),
            await admin.get("/audit"),
            await admin.get("/tokens"),
            await admin.post("/tokens", json={"name": "more", "person": "eve", "role": "admin"}),
            await admin.delete("/tokens/admin-0"),
            await admin.post("/policy/check", json={"text": POLICY}),
        ]
        assert [status(each) for each in refused] == [403] * len(refused)
        mine = (await admin.post("/dead-letters/plan", json={"filter": {"queue": "ours"}})).json()["token"]
        assert status(await admin.post("/redrives", json={"token": mine, "reason": "x"})) == 202
        assert status(await admin.get(f"/redrives/{mine}")) == 200
        assert status(await admin.get("/audit", params={"job": ours})) == 200


async def test_workers_of_other_queues_are_left_out(sf: Standfast) -> None:
    """Who works for them."""
    async with (
        sf.worker(["ours", "theirs"]),
        sf.worker(["theirs"]),
        await client(sf, "operator", queues=["ours"]) as some,
        await client(sf, "operator") as all_,
    ):
        assert [each["queues"] for each in (await some.get("/stats")).json()["workers"]] == [["ours"]]
        assert len((await all_.get("/stats")).json()["workers"]) == 2


async def test_a_health_of_some_queues_is_judged_by_these(sf: Standfast) -> None:
    """Not by a queue whose name merely begins alike."""
    for queue in ("ours", "ours:2"):
        sf.queue(queue, dead_warning=1)

    @sf.handler("ours:2")
    async def refused(_job):
        raise Permanent("no")

    await sf.enqueue_many("ours:2", [1, 2])
    await drain(sf)
    async with await client(sf, "viewer", queues=["ours"]) as viewer, await client(sf, "viewer") as all_:
        said, whole = (await viewer.get("/health")).json(), (await all_.get("/health")).json()
    assert (said["status"], said["issues"]) == ("healthy", [])
    assert any(issue.startswith("ours:2: ") for issue in whole["issues"])


async def test_a_token_for_some_queues_hears_nothing_of_the_spool_of_all(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "standfast.toml").write_text(f'[store]\nspool = "{tmp_path}/jobs.spool"\n')
    monkeypatch.chdir(tmp_path)
    async with Standfast(postgres_url) as made:
        await made.enqueue("ours")
        async with await client(made, "viewer", queues=["ours"]) as viewer, await client(made, "viewer") as all_:
            said, whole = (await viewer.get("/health")).json(), (await all_.get("/health")).json()
    assert whole["spool"]["path"].endswith("jobs.spool")
    assert said["spool"] is None
    assert said.keys() == whole.keys()


async def test_a_token_for_some_queues_hears_no_name_of_a_step_in_another(sf: Standfast) -> None:
    flow = sf.workflow("pay")
    flow.step("pay_ann", "theirs")
    flow.step("tell", "ours", after=["pay_ann"])
    named = await flow.start()
    await drain(sf)
    waiting = (await sf.workflows.get(named))["steps"]["tell"]["job_id"]
    async with await client(sf, "viewer", queues=["ours"]) as viewer, await client(sf, "viewer") as all_:
        paths = (f"/jobs/{waiting}", f"/jobs/{waiting}/explain", "/jobs?queue=ours")
        said, whole = [[(await each.get(path)).text for path in paths] for each in (viewer, all_)]
    assert [("pay_ann" in each, "handler_refused" in each) for each in whole] == [(True, True)] * 3
    assert [("pay_ann" in each, "handler_refused" in each) for each in said] == [(False, False)] * 3
    assert all("waits for an earlier step of its workflow" in each for each in said)


async def test_decisions_are_read_page_by_page(sf: Standfast) -> None:
    """Each page says where the next one begins; the last one that there is none."""
    for n in range(5):
        await sf.tokens.create(f"t{n}", person="zoe", role="viewer")
    async with await client(sf, "viewer") as viewer:
        found: list[int] = []
        after: int | None = 0
        while after is not None:
            page = (await viewer.get("/audit", params={"after": after, "limit": 2})).json()
            found += [each["seq"] for each in page["items"]]
            after = page["next_after"]
        whole = (await viewer.get("/audit", params={"limit": 1000})).json()
        refused = [await viewer.get("/audit", params={"after": given}) for given in ("-1", str(1 << 70), "x")]
    assert found == [each["seq"] for each in whole["items"]]
    assert (len(found), whole["next_after"]) == (len(set(found)), None)
    assert [status(each) for each in refused] == [422] * 3


async def test_a_call_that_nobody_answers_does_not_hold_its_request(
    sf: Standfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process has the handler: the call is queued, and the reply says so."""
    monkeypatch.setattr(calls, "LONGEST_RUN", 0.05)
    await publish_elsewhere(sf, "elsewhere")
    async with await client(sf, "producer") as producer:
        said = await producer.post("/run", json={"handler": "elsewhere"})
    assert (status(said), said.json()["status"]) == (200, "queued")
    assert said.json()["hint"]


@pytest.mark.parametrize("verb", ["run", "submit"])
async def test_a_handler_that_is_unknown_is_a_problem_with_the_nearest_names(sf: Standfast, verb: str) -> None:
    await publish_elsewhere(sf, "billing", "invoice")
    async with await client(sf, "producer") as producer, await client(sf, "producer", queues=["ours"]) as some:
        unknown = await producer.post(f"/{verb}", json={"handler": "invoce"})
        beyond = await some.post(f"/{verb}", json={"handler": "invoce"})
    told = unknown.json()
    assert (status(unknown), told["type"].rpartition("/")[2]) == (404, "unknown-handler")
    assert told["nearest"] == ["billing/invoice"]
    assert "did you mean billing/invoice?" in told["detail"]
    assert told["hint"]
    assert (status(beyond), beyond.json()["nearest"]) == (403, [])
    refused = "this token may not call a handler named 'invoce'; nothing was written: ask for a token for its queue"
    assert beyond.json()["detail"].startswith(refused)
    assert not await sf.jobs()


async def test_looking_for_text_does_not_tell_a_viewer_what_is_hidden(sf: Standfast) -> None:
    """Neither payloads nor messages are searched for those who may not read them."""
    job = str((await sf.enqueue("ours", {"api_key": "k3y"}, thread_key="t-1")).id)
    await drain(sf)
    async with await client(sf, "viewer") as viewer, await client(sf, "operator") as operator:
        for text in ("k3y", "hunter2"):
            assert (await viewer.get("/jobs", params={"q": text})).json()["items"] == []
        assert [each["id"] for each in (await operator.get("/jobs", params={"q": "k3y"})).json()["items"]] == [job]
        assert [each["id"] for each in (await viewer.get("/jobs", params={"q": "t-1"})).json()["items"]] == [job]


async def test_looking_for_text_finds_no_header_that_is_hidden_from_all(sf: Standfast) -> None:
    """Who reads payloads is shown `***` for it, and would find it character by character."""
    headers = {"Authorization": "Bearer s3cret", "X-Team": "billing"}
    receipt = await sf.enqueue_http(
        "ours", "POST", "https://example.com/pay", body={"note": "an invoice"}, headers=headers
    )
    async with await client(sf, "operator") as operator:
        for text in ("Bearer s3", "s3cret"):
            assert (await operator.get("/jobs", params={"q": text})).json()["items"] == []
        for text in ("billing", "an invoice", "example.com"):
            assert [each["id"] for each in (await operator.get("/jobs", params={"q": text})).json()["items"]] == [
                receipt.id
            ]


async def test_looking_for_a_label_does_not_tell_a_viewer_what_is_hidden(sf: Standfast) -> None:
    """A short secret is found by trying all of them: in the list, on its page, and with a policy that asks for it."""
    job = str((await sf.enqueue("ours", 1, labels={"pin": "4711", "team": "a"})).id)
    await drain(sf)
    policy = "version: v1\ndlq_rules: [{match: {labels: {pin: '%s'}}, action: quarantine}]\n"
    async with await client(sf, "viewer") as viewer, await client(sf, "operator") as operator:
        assert [each["labels"]["pin"] for each in (await viewer.get("/jobs")).json()["items"]] == ["***"]
        for guess in ("4711", "4712"):
            assert status(await viewer.get("/jobs", params={"label": f"pin:{guess}"})) == 422
            assert job not in (await viewer.get(f"{HERE}/jobs", params={"label": f"pin:{guess}"})).text
        tried = [(await viewer.post("/policy/check", json={"text": policy % pin})).json() for pin in ("4711", "4712")]
        assert len({str({**each, "snapshot": None}) for each in tried}) == 1
        for label in ("pin", "team:a"):
            assert [each["id"] for each in (await viewer.get("/jobs", params={"label": label})).json()["items"]] == [
                job
            ]
        found = (await operator.get("/jobs", params={"label": "pin:4711"})).json()["items"]
        assert [each["id"] for each in found] == [job]


async def test_a_name_that_handlers_of_several_queues_have_tells_of_no_other_queue(sf: Standfast) -> None:
    """To a token for one of them it means that one; to a token for none of them it means nothing."""
    for queue in ("mine", "hidden", "secret"):
        sf.handler(queue, name="send")(lambda job: job.payload)
    async with (
        await client(sf, "producer", queues=["mine"]) as one,
        await client(sf, "producer", queues=["ours"]) as no,
    ):
        assert (await one.post("/run", json={"handler": "send", "params": 7})).json()["result"] == 7
        for verb, more in (("run", {}), ("submit", {}), ("hand-over", {"error": "no"})):
            refused = await no.post(f"/{verb}", json={"handler": "send", **more})
            unknown = await no.post(f"/{verb}", json={"handler": "nowhere", **more})
            assert status(refused) == 403
            assert refused.text.replace("send", "nowhere") == unknown.text
        told = await _run_by_mcp(no, "send")
    assert not [name for name in ("mine", "hidden", "secret") if name in told]


async def test_whether_a_job_of_another_queue_is_no_letter_is_not_told(sf: Standfast) -> None:
    """To a token that does not reach it, it is not there, whatever became of it."""
    job = str((await sf.enqueue("theirs", 1, delay=3600)).id)
    async with await client(sf, "viewer", queues=["ours"]) as some, await client(sf, "viewer") as all_:
        answers = [await each.get(f"/dead-letters/{job}") for each in (some, all_)]
        assert [status(each) for each in answers] == [404, 409]
        told = [await _letter_by_mcp(each, job) for each in (some, all_)]
    assert [("is not a letter" in each) for each in told] == [False, True]


async def _letter_by_mcp(http: httpx2.AsyncClient, job: str) -> str:
    async with Client(streamable_http_client(f"{HERE}/mcp", http_client=http)) as agent:
        with pytest.raises(MCPError) as refused:
            await agent.read_resource(f"standfast://letters/{job}")
    return str(refused.value)


async def test_a_viewer_who_tries_a_large_policy_keeps_nobody_waiting(sf: Standfast) -> None:
    """Thousands of patterns for every letter: that is compared beside the loop that serves everybody."""
    await sf.enqueue_many("ours", [*range(200)])
    await drain(sf)
    patterns = ",".join(["'*a*b*c'"] * 11_000)
    text = f"version: v1\ndlq_rules:\n  - {{match: {{queue: [{patterns}]}}, action: quarantine}}\n"
    async with await client(sf, "viewer") as viewer:
        asked = asyncio.ensure_future(viewer.post("/policy/check", json={"text": text}))
        began = last = time.monotonic()
        longest = 0.0
        while not asked.done():
            await asyncio.sleep(0.001)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
    assert (status(await asked), (await asked).json()["letters"]) == (200, 200)
    assert longest < (last - began) / 2, "the loop went on meanwhile"


async def test_a_policy_that_takes_too_long_to_try_is_given_up(sf: Standfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that whoever asks next is not kept waiting for good."""
    await sf.enqueue("ours", 1)
    await drain(sf)
    monkeypatch.setattr(policy, "LONGEST_TRIAL", 0.0)
    async with await client(sf, "viewer") as viewer:
        refused = await viewer.post("/policy/check", json={"text": "version: v1"})
    assert (status(refused), "standfast policy check" in refused.json()["detail"]) == (422, True)


async def _run_by_mcp(http: httpx2.AsyncClient, handler: str) -> str:
    async with Client(streamable_http_client(f"{HERE}/mcp", http_client=http)) as agent:
        return str(await agent.call_tool("run", {"handler": handler}))


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=x", "cursor=-1", "q=%00", "state=gone", "view=gone", "other=1", "q=a&q=b", "q=", "q=%FF"],
)
async def test_a_query_that_does_not_fit_is_refused(sf: Standfast, query: str) -> None:
    """Bytes that are no text come as replacement characters, and find nothing."""
    async with await client(sf, "viewer") as viewer:
        answer = await viewer.get(f"/jobs?{query}")
        assert status(answer) == (200 if query == "q=%FF" else 422)


async def test_a_browser_changes_something_only_from_a_page_of_ours(sf: Standfast) -> None:
    """Its cookie comes by itself; what the page knows does not."""
    token = (await sf.tokens.create("b", person="bea", role="operator"))["token"]
    transport = httpx2.ASGITransport(app=Server(sf).app)
    async with httpx2.AsyncClient(transport=transport, base_url=f"{HERE}{API}") as browser:
        known = await sign_in(browser, token)
        assert status(await browser.get("/stats")) == 200
        answers = [
            await browser.post("/queues/ours/pause"),
            await browser.post("/queues/ours/pause", headers={CSRF_HEADER: "wrong"}),
            await browser.post("/queues/ours/pause", headers={CSRF_HEADER: known, "Origin": "http://evil.example"}),
            await browser.post("/queues/ours/pause", headers={CSRF_HEADER: known, "Origin": "null"}),
            await browser.post("/queues/ours/pause", headers={CSRF_HEADER: known, "Origin": HERE}),
        ]
        token_in_form = {"csrf": known, "queue": "ours"}
        form = await browser.post("/jobs", data=token_in_form, headers={"Origin": HERE})
    assert [status(each) for each in (*answers, form)] == [403, 403, 403, 403, 200, 415]


async def test_what_cannot_be_taken_now_says_when_to_come_back(sf: Standfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full queue is 429, a full disk 507, a store that is away 503; each says after how long."""
    sf.queue("narrow", max_depth=1)
    await sf.enqueue("narrow", 1)
    async with await client(sf, "producer") as producer:
        job = {"queue": "narrow"}
        full = await producer.post("/jobs", json=job)
        monkeypatch.setattr(Disk, "free_bytes", lambda _disk: 1)
        engine: Any = store_of(sf)._engine  # noqa: SLF001
        engine._files.disk.plenty_until = 0.0  # noqa: SLF001 - it would be asked again within a second
        low = await producer.post("/jobs", json={"queue": "ours"})
        assert (await producer.get(f"{HERE}/readyz")).status_code == 503
        assert (await producer.get(f"{HERE}/healthz")).text == "up"
    nowhere = Standfast("postgresql://127.0.0.1:1/none")
    transport = httpx2.ASGITransport(app=Server(nowhere).app)
    async with httpx2.AsyncClient(transport=transport, base_url=f"{HERE}{API}") as stranger:
        away = await stranger.get("/jobs", headers={"Authorization": "Bearer sft_abc_def"})
        agents = await stranger.post(f"{HERE}/mcp", json={}, headers={"Authorization": "Bearer sft_abc_def"})
    await nowhere.close()
    assert [status(each) for each in (full, low, away, agents)] == [429, 507, 503, 503]
    assert all(int(each.headers["retry-after"]) > 0 for each in (full, low, away, agents))
    assert not any("127.0.0.1" in each.text for each in (away, agents)), "where the store is is nobody's business"


async def test_nobody_speaks_in_our_name(sf: Standfast) -> None:
    """The queues that carry alerts and notices take what we found ourselves, and nothing from any door."""
    forged = {"surface": "ops", "alert": {"message": "send money"}}
    async with await client(sf, "admin") as admin:
        for queue in ("standfast.notify", "standfast.subscribers"):
            answers = [
                await admin.post("/jobs", json={"queue": queue, "payload": forged}),
                await admin.post("/jobs", json={"queue": "ours", "handler": queue, "payload": forged}),
                await admin.post("/jobs", json={"queue": queue, "http": {"method": "GET", "url": "http://a.example/"}}),
                await admin.post("/run", json={"handler": queue, "params": forged}),
                await admin.post("/submit", json={"handler": f"{queue}/{queue}", "params": forged}),
                await admin.post("/hand-over", json={"handler": queue, "params": forged, "error": "x"}),
                await admin.post("/schedules", json={"name": "n", "queue": queue, "payload": forged, "every": 60}),
            ]
            assert {status(each) for each in answers} <= {403, 404, 422}
            with pytest.raises(ConfigurationError, match="own messages"):
                sf.workflow("forged").step("a", queue, forged)
            with pytest.raises(ConfigurationError, match="own messages"):
                await sf.ingest(queue, forged)
    assert not await sf.jobs()


async def test_probes_are_answered_at_any_address_and_nothing_else_is(sf: Standfast) -> None:
    """What keeps the server running asks at the address it has inside."""
    async with await client(sf, "viewer") as viewer:
        inside = {"Host": "10.1.2.3:8080"}
        probed = [(await viewer.get(f"{HERE}{path}", headers=inside)).text for path in ("/healthz", "/readyz")]
        assert probed == ["up", "up"]
        assert status(await viewer.get("/stats", headers=inside)) == 421


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil@127.0.0.1", "127.0.0.1#.evil.example", "127.0.0.1/x", "127.0.0.1, evil", "localhost.", ""],
)
async def test_a_host_that_only_resembles_ours_is_refused(sf: Standfast, host: str) -> None:
    async with await client(sf, "viewer") as viewer:
        assert status(await viewer.get("/stats", headers={"Host": host})) == 421


@pytest.mark.parametrize("name", ["Host", "Authorization", "Idempotency-Key"])
async def test_a_header_that_must_be_one_is_refused_as_two(sf: Standfast, name: str) -> None:
    """Somebody before us may have read the other one; what may come twice does."""
    async with await client(sf, "producer") as producer:
        shown = {"Host": "127.0.0.1", "Idempotency-Key": "k", **producer.headers, "Accept": "*/*"}
        one = {key.lower(): value for key, value in shown.items()}
        twice = [*one.items(), (name.lower(), one[name.lower()])]
        harmless = [*one.items(), ("accept", "text/html")]
        assert status(await producer.post("/jobs", json={"queue": "ours"}, headers=twice)) == 400
        assert status(await producer.post("/jobs", json={"queue": "ours"}, headers=harmless)) == 201


async def test_a_delivery_nobody_expects_learns_where_it_is_named(sf: Standfast) -> None:
    """And not that it is too large."""
    async with await client(sf, "viewer") as sender:
        answer = await sender.post("/ingest/github", json={"zen": "x"})
    assert status(answer) == 404
    assert "[ingest.github]" in answer.json()["hint"]
