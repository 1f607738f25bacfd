"""What each role is shown, at the API and on the pages: secrets nowhere, and of other queues nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from standfast import Permanent, Standfast, redact
from standfast.cli.serve_command import _greet
from standfast.dashboard.sitemap import PAGES
from standfast.rules import Breaker, QueueRules
from standfast.server.api_routes import ROUTES
from standfast.server.app import API, Server
from standfast.server.auth import CSRF_FIELD
from standfast.server.token_view import gates_of, health_for, issues_for
from standfast.testing import drain, memory
from standfast.wings.access.words import Grant, Role
from standfast.wings.notices import routes as notices
from tests.doors.browsing import sign_in
from tests.waiting import seen

SECRET = "hunter2sekret"  # noqa: S105 - nobody's
SAID = f"refused with password={SECRET}"
RULES = """
version: v1
dlq_rules:
  - {match: {queue: asked}, action: require_approval, approver_group: g}
replay_rules:
  - {match: {queue: asked}, decision: require_approval, approver_group: g}
"""


def handlers(sf: Standfast) -> None:
    """Declare handlers that give secrets away in what they return, raise or say."""

    @sf.handler("kept")
    def kept(_job):
        return {"password": SECRET, "note": SAID}

    @sf.handler("refused")
    @sf.handler("asked")
    def refused(_job):
        raise Permanent(SAID)

    def gate():
        raise RuntimeError(SAID)

    sf.queue("gated", gate=gate)
    sf.handler("gated")(lambda _job: None)


async def planted(sf: Standfast) -> tuple[str, dict[str, str]]:
    """Put a secret into everything that can hold one; give a letter, and where things are by how addresses begin."""
    handlers(sf)
    sf.policy.load(RULES)
    payload = {"password": SECRET, "note": SAID}
    done, dead, asked = [str((await sf.enqueue(name, payload)).id) for name in ("kept", "refused", "asked")]
    await sf.enqueue("gated", payload)
    flow = sf.workflow("flow")
    flow.step("first", "kept", payload)
    flow.step("then", "refused", payload, after=["first"])
    started = await flow.start()
    await sf.schedules.add("nightly", "kept", payload, every=3600)
    await drain(sf)
    await sf.dead_letters.amend(dead, {**payload, "more": 1}, by="ann", reason=SAID)
    plan = (await sf.dead_letters.plan({"queue": "refused"}))["token"]
    await sf.dead_letters.redrive(plan, by="ann", reason=SAID)
    [approval] = await sf.approvals.list()
    await sf.approvals.deny(approval["id"], by="bob", reason=SAID)
    ids = {
        "/jobs": done,
        "/dead-letters": asked,
        "/workflows": started,
        "/redrives": plan,
        "/approvals": approval["id"],
    }
    return dead, ids


def addresses(paths: list[str], ids: dict[str, str]) -> list[str]:
    """Give an address for each path, of something that is there."""
    begins = [(path, f"/{path.split('/')[1]}") for path in paths]
    return [path.replace("{name:path}", "gated").replace("{id}", ids.get(begin, "nowhere")) for path, begin in begins]


async def client_of(sf: Standfast, role: str, **scope: Any) -> httpx2.AsyncClient:
    made = await sf.tokens.create(f"{role}-{len(await sf.tokens.list())}", person=role, role=role, **scope)
    transport = httpx2.ASGITransport(app=Server(sf).app)
    headers = {"Authorization": f"Bearer {made['token']}"}
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)


async def test_nobody_who_only_looks_is_shown_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """At every route and page there is, with a secret in everything; those who work with payloads read it."""
    monkeypatch.setattr(notices, "LONGEST", 0.1)
    async with memory() as sf:
        dead, ids = await planted(sf)
        routes = addresses([each.path for each in ROUTES if each.method == "GET"], ids)
        more = [f"/jobs/{dead}", f"/jobs/{dead}/explain", f"/jobs/{ids['/jobs']}/result?key=password"]
        more += ["/approvals?state=all", "/jobs?q=hunter2", f"/audit?job={dead}", "/notices?after=0"]
        pages = addresses([each.path for each in PAGES], ids)
        pages += [f"/jobs/{dead}", "/approvals?state=all", f"/jobs/{ids['/dead-letters']}"]
        asked = [*(f"{API}{each}" for each in (*routes, *more)), *pages, "/metrics", "/live/series"]
        hidden = {"/api/v1/tokens", "/tokens", "/api/v1/sessions/nowhere/inbox"}
        shown, hashes = 0, {job.payload_sha256 for job in await sf.jobs()}
        async with await client_of(sf, "viewer") as looks, await client_of(sf, "approver") as works:
            for each in asked:
                answer = await looks.get(each)
                assert SECRET not in answer.text, each
                assert not [each for true in hashes if true[:12] in answer.text], "a short secret is guessed by it"
                assert answer.status_code == 200 or each in hidden, (each, answer.text)
                shown += each.startswith(API) and SECRET in (await works.get(each)).text
    assert shown >= 16, "it was there to be seen"


async def test_viewers_are_shown_no_payloads_where_the_settings_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor results; those who work with them read both."""
    (tmp_path / "standfast.toml").write_text("[server]\nviewer_payloads = false\n")
    monkeypatch.chdir(tmp_path)
    async with Standfast(":memory:") as sf:
        sf.handler("echo")(lambda job: {"told": job.payload["note"]})
        job = str((await sf.enqueue("echo", {"note": "plain words"})).id)
        await sf.schedules.add("nightly", "echo", {"note": "plain words"}, every=3600)
        await drain(sf)
        asked = [f"{API}/jobs", f"{API}/jobs/{job}", f"{API}/jobs/{job}/result", f"{API}/jobs/{job}/result?key=told"]
        asked += [f"{API}/schedules", f"/jobs/{job}", "/schedules", "/jobs"]
        async with await client_of(sf, "viewer") as looks, await client_of(sf, "operator") as works:
            for each in asked:
                answer = await looks.get(each)
                assert (answer.status_code, "plain words" in answer.text) == (200, False), each
            assert "plain words" in (await works.get(f"{API}/jobs/{job}")).text
            shown = [str(each) for each in await _by_mcp(looks, job)]
        assert shown
        assert not [each for each in shown if "plain words" in each]


async def _by_mcp(http: httpx2.AsyncClient, job: str) -> list[Any]:
    """Read a job by the tools and the resources of agents."""
    async with Client(streamable_http_client("http://127.0.0.1/mcp", http_client=http)) as client:
        answers = [await client.call_tool(tool, {"id": job}) for tool in ("status", "wait", "explain")]
        return [*answers, await client.read_resource(f"standfast://jobs/{job}")]


async def _letters_by_mcp(http: httpx2.AsyncClient, **asked: Any) -> dict[str, Any]:
    async with Client(streamable_http_client("http://127.0.0.1/mcp", http_client=http)) as client:
        return (await client.call_tool("list_dead_letters", asked)).structured_content or {}


async def test_names_of_ones_own_are_hidden_from_viewers_by_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`[redact] keys` of a worker's file holds in a server without that file, too."""
    monkeypatch.setattr("standfast.redact._also", redact._Also())  # noqa: SLF001
    (tmp_path / "standfast.toml").write_text('[redact]\nkeys = ["iban"]\n')
    monkeypatch.chdir(tmp_path)
    async with Standfast("queue.db") as worker:
        worker.queue("pay")
        job = str((await worker.enqueue("pay", {"iban": "DE12", "n": 1})).id)
    monkeypatch.setattr("standfast.redact._also", redact._Also())  # noqa: SLF001 - another process
    monkeypatch.setenv("STANDFAST_CONFIG", str(tmp_path / "other.toml"))
    (tmp_path / "other.toml").write_text("")
    async with Standfast("queue.db") as server, await client_of(server, "viewer") as looks:
        assert (await looks.get(f"{API}/jobs/{job}")).json()["payload"] == {"iban": "***", "n": 1}


def test_an_issue_of_a_queue_is_not_told_to_a_token_whose_queue_only_begins_alike() -> None:
    """A queue may be called `pay: x`."""
    grant = Grant(id="1", name="v", person="v", role=Role.VIEWER, queues=("pay",))
    issues = ["pay: 3 pending (backed up)", "pay: x: 5 pending (backed up)", "the disk is low"]
    assert issues_for(issues, grant, ["pay", "pay: x"]) == issues[:1]
    assert issues_for(issues, msgspec.structs.replace(grant, queues=None), ["pay"]) == issues


async def test_charts_and_policy_of_all_queues_are_not_for_a_token_of_some() -> None:
    async with (
        Standfast(":memory:") as sf,
        await client_of(sf, "viewer", queues=["pay"]) as some,
        await client_of(sf, "viewer") as all_,
    ):
        for each in (f"{API}/policy", "/policy"):
            assert [(await client.get(each)).status_code for client in (some, all_)] == [403, 200]
        app = Server(sf).app  # one server samples for all who look at it
        for client in (some, all_):
            client._transport = httpx2.ASGITransport(app=app)  # noqa: SLF001
        await seen(lambda: _charted(all_))
        assert not await _charted(some)
        assert "data-chart" not in (await some.get("/")).text
        assert "data-chart" in (await all_.get("/")).text


async def _charted(client: httpx2.AsyncClient) -> bool:
    return any((await client.get("/live/series")).json().values())


async def test_tokens_and_the_record_of_all_queues_are_not_for_an_admin_of_some() -> None:
    """Neither at the API nor on a page: both are of the whole."""
    async with memory() as sf:
        some, all_ = await client_of(sf, "admin", queues=["ours"]), await client_of(sf, "admin")
        for address in ("/tokens", "/audit/verify"):
            for asked in (f"{API}{address}", address):
                answers = [(await each.get(asked)).status_code for each in (some, all_)]
                assert answers == [403, 200], asked


async def test_a_secret_in_the_address_of_a_gate_is_not_shown_to_viewers() -> None:
    """A rule of a queue is read by everybody who may look."""
    async with memory() as sf:
        sf.queue("asking", gate=f"http://127.0.0.1:1/open?token={SECRET}")
        await sf.enqueue("asking", 1)
        async with await client_of(sf, "viewer") as looks, await client_of(sf, "operator") as works:
            for asked in (f"{API}/queues", "/queues/asking", "/queues"):
                assert SECRET not in (await looks.get(asked)).text, asked
            [shown] = (await looks.get(f"{API}/queues")).json()["items"]
            assert (shown["rules"]["gate"], shown["rules"]["keep_keys"]) == (
                "http://127.0.0.1:1/open?token=***",
                604800,
            )
            assert SECRET in (await works.get(f"{API}/queues")).text


async def test_of_other_queues_nothing_is_told() -> None:
    """Neither in sums nor in what stands; and one's own is not hidden behind theirs."""
    async with memory() as sf:
        handlers(sf)
        sf.policy.load(RULES.replace("{queue: asked}", "{}"))
        await sf.enqueue_many("refused", [1, 2, 3])
        await sf.enqueue("asked", 1)
        await drain(sf)
        sf.clock.advance(60)
        await sf.enqueue_many("refused", [4, 5])
        await drain(sf)
        await sf.enqueue("refused", 6)
        sf.queue("asked/more")
        async with await client_of(sf, "approver", queues=["asked", "asked/more"]) as client:
            health, stats = [(await client.get(f"{API}{path}")).json() for path in ("/health", "/stats")]
            assert (health["total_dead_letter"], stats["total_dead_letter"]) == (1, 1)
            assert (health["total_pending"], stats["total_pending"]) == (0, 0)
            assert stats["counters"] == stats["queues"]["asked"]["counters"]
            assert set(stats["queues"]) == {"asked", "asked/more"}
            waiting = (await client.get(f"{API}/approvals?limit=1")).json()
            assert ([each["queue"] for each in waiting["items"]], waiting["more"]) == (["asked"], False)
            letters = (await client.get(f"{API}/dead-letters?limit=1")).json()
            assert ([each["queue"] for each in letters["items"]], letters["next_cursor"]) == (["asked"], None)
            assert (await _letters_by_mcp(client, limit=1))["next_cursor"] is None
            assert (await client.get(f"{API}/jobs", params={"q": "nothing"})).json()["scanned"] is None
            assert "refused" not in (await client.get("/approvals")).text
            assert "/approvals/" in (await client.get("/approvals")).text


def test_a_gate_is_of_one_queue() -> None:
    """Also where another queue's name begins with its name."""
    grant = Grant(id="1", name="v", person="v", role=Role.VIEWER, queues=("pay",))
    rules = QueueRules(breaker=Breaker(dependency="bank"))
    keys = ["limit:pay", "limit:payments", "rate:pay:7", "probe:pay:card", "breaker:bank", "breaker:pay", "gate:x:pay"]
    gates = [{"key": key, "kind": key.partition(":")[0]} for key in keys]
    found = [each["key"] for each in gates_of(gates, "pay", rules, grant)]
    assert found == ["limit:pay", "rate:pay:7", "probe:pay:card", "breaker:bank"]


def test_what_stands_without_an_issue_is_healthy_to_everybody() -> None:
    found = {"status": "healthy", "issues": [], "alerts": [{"queue": "pay", "message": "pay: 101 pending"}]}
    whole = Grant(id="1", name="v", person="v", role=Role.VIEWER)
    for grant in (whole, msgspec.structs.replace(whole, queues=("pay",))):
        assert health_for(found, grant, None) == found
    assert health_for(found, msgspec.structs.replace(whole, queues=("other",)), None)["alerts"] == []


async def test_names_with_slashes_are_addresses_too() -> None:
    async with memory() as sf, await client_of(sf, "admin") as client:
        await sf.enqueue("a/b", 1)
        await sf.tokens.create("x/y", person="x", role="viewer")
        await sf.schedules.add("s/t", "a/b", 1, every=60)
        assert (await client.post(f"{API}/queues/a%2Fb/pause")).json() == {"name": "a/b", "paused": True}
        gone = [await client.delete(f"{API}/{address}") for address in ("tokens/x%2Fy", "schedules/s%2Ft", "tokens/")]
        assert [each.status_code for each in gone] == [204, 204, 404]
        assert (await client.post(f"{API}/queues/two%0Alines/pause")).status_code == 422
        assert len(await sf.tokens.list()) == 1


async def test_the_api_takes_no_field_of_a_form_for_its_header() -> None:
    """What reads forms is not installed with the server; and a name that no store can be asked for is refused."""
    async with memory() as sf, await client_of(sf, "admin") as client:
        token = client.headers.pop("Authorization").removeprefix("Bearer ")
        fields, shown = {CSRF_FIELD: await sign_in(client, token)}, {"Origin": "http://127.0.0.1"}
        job = await sf.enqueue("echo", 1)
        assert (await client.post(f"{API}/jobs/{job.id}/cancel", data=fields, headers=shown)).status_code == 403
        assert (await client.post(f"{API}/queues/echo/pause", data=fields, headers=shown)).status_code == 415
        assert (await client.post("/queues/echo/pause", data=fields, headers=shown)).status_code == 303
        assert (await client.post("/queues/%00/pause", data=fields, headers=shown)).status_code == 422


async def test_of_two_servers_that_begin_at_once_one_greets(capsys: pytest.CaptureFixture[str]) -> None:
    async with memory() as sf:
        await asyncio.gather(*(_greet(sf, Server(sf), f"http://{host}") for host in ("a", "b")))
    said = capsys.readouterr().err
    assert (said.count("serving at"), said.count("/sign-in?code=")) == (2, 1)
