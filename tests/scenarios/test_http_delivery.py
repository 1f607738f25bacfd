"""A request that a worker delivers: what arrives at the receiver, and what is kept of its reply."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest

from standfast import IdempotencyConflict, Standfast
from standfast.spine.payload import canonical, sha256
from standfast.testing import drain
from standfast.wings.http.client import LARGEST_BODY
from tests.sending import run_out, tried
from tests.waiting import ended, job_of
from tests.worker.processes import environment


async def test_a_reply_is_kept_as_the_result(app, spot):
    url = spot.url(header=["X-Request-Id:r-1", "X-Other:no"], body='{"id": 7, "tags": ["a"]}')
    job = await tried(app, await app.enqueue_http("feedback", "POST", url, body={"b": [1, 2.5], "a": "ü"}))
    assert job.state == "completed"
    assert (job.result["status"], job.result["body"]) == (200, {"id": 7, "tags": ["a"]})
    assert set(job.result["headers"]) == {"content-length", "content-type", "date", "x-request-id"}
    assert job.result["headers"]["x-request-id"] == "r-1"
    [sent] = spot.requests
    assert (sent["method"], sent["body"]) == ("POST", '{"a":"ü","b":[1,2.5]}')
    assert sent["headers"]["content-type"] == "application/json"
    assert sent["headers"]["host"].startswith("127.0.0.1:")


async def test_secrets_in_headers_are_sent_and_never_shown(app, spot):
    secret = {"Authorization": "Bearer s3cret", "cookie": "s3cret=1", "X-Api-Key": "s3cret", "X-Auth-Token": "s3cret"}
    plain = {"Accept": "text/plain", "X-Team": "red"}
    receipt = await app.enqueue_http("feedback", "POST", spot.url(status=422), headers=secret | plain)
    stored = canonical({"method": "POST", "url": spot.url(status=422), "headers": secret | plain})
    job = await tried(app, receipt)
    assert job.payload["headers"] == dict.fromkeys(secret, "***") | plain
    assert job.payload_sha256 == sha256(stored)
    seen = [job, await app.jobs(), await app.dead_letters.list(), await app.dead_letters.get(job.id)]
    assert "s3cret" not in msgspec.json.encode(seen).decode()
    await app.dead_letters.replay(job.id, by="ann")
    await drain(app)
    assert [request["headers"]["authorization"] for request in spot.requests] == ["Bearer s3cret"] * 2


async def test_any_worker_sends_also_for_a_queue_without_a_handler(url, spot):
    async with Standfast(url) as sf:
        sf.queue("feedback", destinations=["127.0.0.1"])
        async with sf.worker():
            receipt = await sf.enqueue_http("feedback", "GET", spot.url())
            job = await ended(sf, receipt.id)
    assert (job.state, job.handler, len(spot.requests)) == ("completed", "http", 1)


@pytest.mark.parametrize(
    ("body", "named", "sent"),
    [
        ({"a": 1}, None, '{"a":1}'),
        (["x"], "application/vnd.api+json", '["x"]'),
        ("words", None, '"words"'),
        ("a,b\n1,ü\n", "text/csv", "a,b\n1,ü\n"),
        (0, None, "0"),
        (None, None, ""),
    ],
)
async def test_a_body_is_json_unless_it_is_text_of_a_named_type(app, spot, body, named, sent):
    headers = {"content-type": named} if named else None
    await tried(app, await app.enqueue_http("feedback", "POST", spot.url(), body=body, headers=headers))
    [request] = spot.requests
    expected = named or (None if body is None else "application/json")
    assert (request["body"], request["headers"].get("content-type")) == (sent, expected)
    assert request["headers"]["content-length"] == str(len(sent.encode()))


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "put"])
async def test_every_method_arrives(app, spot, method):
    job = await tried(app, await app.enqueue_http("feedback", method, spot.url()))
    assert (job.state, [each["method"] for each in spot.requests]) == ("completed", [method.upper()])


async def test_every_attempt_carries_the_same_key_and_a_higher_fence(app, spot):
    url = spot.url(status="503,500,200")
    job = await run_out(app, await app.enqueue_http("feedback", "POST", url, idempotency_key="feedback_7"))
    assert job.state == "completed"
    headers = [sent["headers"] for sent in spot.requests]
    assert [each["idempotency-key"] for each in headers] == ["feedback_7"] * 3
    assert [each["x-standfast-attempt"] for each in headers] == ["1", "2", "3"]
    fences = [int(each["x-standfast-fence"]) for each in headers]
    assert fences == sorted(set(fences))
    assert all(each["user-agent"].startswith("standfast/") for each in headers)


async def test_without_a_key_the_jobs_id_is_sent(app, spot):
    receipt = await app.enqueue_http("feedback", "POST", spot.url(status="503,200"))
    assert (await run_out(app, receipt)).state == "completed"
    assert [sent["headers"]["idempotency-key"] for sent in spot.requests] == [receipt.id] * 2


async def test_a_callers_own_headers_are_sent(app, spot):
    headers = {"Authorization": "Bearer t", "X-Empty": "", "user-agent": "mine/1"}
    await tried(app, await app.enqueue_http("feedback", "GET", spot.url(), headers=headers))
    [sent] = spot.requests
    got = {name: sent["headers"][name.lower()] for name in headers}
    assert got == headers


async def test_a_key_covers_method_url_and_body_but_not_headers(app, spot):
    first = await app.enqueue_http("feedback", "POST", spot.url(), body={"a": 1, "b": 2}, idempotency_key="k")
    again = await app.enqueue_http(
        "feedback", "POST", spot.url(), body={"b": 2, "a": 1}, headers={"X-Trace": "2"}, timeout=5, idempotency_key="k"
    )
    assert (again.id, again.outcome) == (first.id, "duplicate")
    for method, url, body in (
        ("PUT", spot.url(), {"a": 1, "b": 2}),
        ("POST", spot.url(other=1), {"a": 1, "b": 2}),
        ("POST", spot.url(), {"a": 1}),
        ("POST", spot.url(), None),
    ):
        with pytest.raises(IdempotencyConflict):
            await app.enqueue_http("feedback", method, url, body=body, idempotency_key="k")


async def test_the_shortcut_and_the_plain_call_are_the_same_job(app, spot):
    payload = {"method": "POST", "url": spot.url(), "body": {"a": 1}, "headers": {"X-A": "1"}}
    first = await app.enqueue("feedback", payload, handler="http", idempotency_key="k")
    again = await app.enqueue_http("feedback", "POST", spot.url(), body={"a": 1}, idempotency_key="k")
    assert (again.id, again.outcome) == (first.id, "duplicate")


async def test_a_huge_reply_is_cut(app, spot):
    job = await tried(app, await app.enqueue_http("feedback", "POST", spot.url(do="huge", type="text/plain")))
    assert (job.state, job.warning) == ("completed", None)
    assert (job.result["body"], job.result["_truncated"]) == ("x" * LARGEST_BODY, True)


@pytest.mark.parametrize(
    ("body", "content_type", "kept"),
    [
        ('{"a": [1, {"b": null}]}', "application/problem+json; charset=utf-8", {"a": [1, {"b": None}]}),
        ("plain", "text/plain", "plain"),
        ('{"a": 1}', "text/plain", '{"a": 1}'),
        ("not json", "application/json", "not json"),
        ('{"a": NaN}', "application/json", '{"a": NaN}'),
        ('{"a": 1, "a": 2}', "application/json", '{"a": 1, "a": 2}'),
        ("[" * 100 + "]" * 100, "application/json", "[" * 100 + "]" * 100),
        ("\xff\x00\x1b", "application/octet-stream", "\ufffd\ufffd\x1b"),
        ('"\\u0000"', "application/json", '"\\u0000"'),
        ("", "text/plain", None),
    ],
)
async def test_whatever_a_reply_holds_is_kept(app, spot, body, content_type, kept):
    job = await tried(app, await app.enqueue_http("feedback", "GET", spot.url(body=[body], type=content_type)))
    assert (job.state, job.warning) == ("completed", None)
    assert job.result["body"] == kept


async def test_the_worst_reply_that_fits_is_kept(app, spot):
    url = spot.url(do="huge", type="text/plain", fill="\x01")
    job = await tried(app, await app.enqueue_http("feedback", "GET", url))
    assert (job.warning, job.result["body"]) == (None, "\x01" * LARGEST_BODY)


async def test_compressed_bytes_are_not_kept_as_text(app, spot):
    url = spot.url(header="Content-Encoding:gzip", body="\x1f\x8b\x08")
    job = await tried(app, await app.enqueue_http("feedback", "GET", url))
    assert (job.state, job.result["body"]) == ("completed", None)
    assert spot.requests[0]["headers"]["accept-encoding"] == "identity"


async def test_a_cookie_does_not_travel_to_the_next_job(app, spot):
    for _ in range(2):
        url = spot.url(header="Set-Cookie:session=secret; Path=/")
        await tried(app, await app.enqueue_http("feedback", "GET", url))
    assert [sent["headers"].get("cookie") for sent in spot.requests] == [None, None]


async def test_proxies_of_the_environment_are_ignored(app, spot, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    job = await tried(app, await app.enqueue_http("feedback", "POST", spot.url()))
    assert (job.state, len(spot.requests)) == ("completed", 1)


async def test_only_what_may_be_repeated_takes_a_connection_that_was_used_before(app, spot):
    for key in ("a", "b", None, None):
        await tried(app, await app.enqueue_http("feedback", "POST", spot.url(), idempotency_key=key))
    first, second, third, fourth = (sent["connection"] for sent in spot.requests)
    assert first == second
    assert len({first, third, fourth}) == 3


async def test_a_closed_application_sends_again_when_it_is_used_again(app, spot):
    for _ in range(2):
        receipt = await app.enqueue_http("feedback", "GET", spot.url())
        await drain(app)
        assert (await job_of(app, receipt.id)).state == "completed"
        await app._sender.close()  # noqa: SLF001 - what close does, without losing what is in memory
    assert len({sent["connection"] for sent in spot.requests}) == 2


async def test_a_queue_of_requests_needs_no_handler_of_its_own(app, spot):
    receipt = await app.enqueue_http("feedback", "GET", spot.url())
    assert not any("handler" in issue for issue in (await app.health())["issues"])
    assert "handler" not in await app.explain(receipt.id)


def test_whoever_only_enqueues_imports_neither_the_client_nor_a_terminal():
    code = "import json, sys, standfast; standfast.Standfast(':memory:'); print(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    heavy = {"anyio", "click", "cronsim", "h11", "httpx2", "importlib.metadata", "psycopg", "rich"}
    assert heavy & set(json.loads(ran.stdout)) == set()
