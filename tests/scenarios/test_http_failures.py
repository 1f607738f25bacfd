"""What becomes of a request that failed: what may have landed is repeated only where that is safe."""

from __future__ import annotations

import asyncio
import socket
from threading import Event

import pytest

from standfast import JobView, Standfast, fixed
from standfast.testing import drain
from standfast.testing.kit import InMemory
from tests.receiver import Receiver, Spot
from tests.sending import WAIT, full_backlog, last, run_out, tried
from tests.waiting import failure_of, job_of, seen, stamp

MAYBE = [
    {"status": 500},
    {"status": 502},
    {"status": 504},
    {"status": 507},
    {"do": "reset"},
    {"do": "close"},
    {"do": "half"},
    {"do": "slow", "seconds": 1.0},
    {"do": "drip"},
]
"""Replies after which the receiver may have done it."""
NOT_DONE = [408, 425, 429, 503]
"""Statuses by which it says that it did not."""
DATE = "Sun, 15 Nov 2026 {} GMT"


def due_in(app: InMemory, job: JobView) -> float:
    """Give the seconds until the next attempt."""
    return stamp(job.due_at) - app.clock.wall()


@pytest.mark.parametrize("reply", MAYBE)
async def test_an_unkeyed_post_that_may_have_landed_is_sent_once(app, spot, reply):
    job = await run_out(app, await app.enqueue_http("feedback", "POST", spot.url(**reply), body={}, timeout=0.3))
    assert len(spot.requests) == 1
    failure = failure_of(job)
    assert (job.state, failure.reason_code, failure.cls, failure.landed) == (
        "dead",
        "unknown_commit_state",
        "transient",
        "maybe",
    )
    assert failure.message, "a person must learn what happened"


@pytest.mark.parametrize("reply", MAYBE)
async def test_with_a_key_it_is_repeated_under_that_key(app, spot, reply):
    receipt = await app.enqueue_http("feedback", "POST", spot.url(**reply), timeout=1.0, idempotency_key="k")
    job = await run_out(app, receipt)
    assert (job.state, failure_of(job).reason_code, failure_of(job).landed) == ("dead", "max_attempts", "maybe")
    assert [sent["headers"]["idempotency-key"] for sent in spot.requests] == ["k"] * 3
    assert [line.possible_duplicate for line in job.history] == [True, True, False]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"])
async def test_a_method_that_does_the_same_twice_is_repeated_without_a_key(app, spot, method):
    job = await run_out(app, await app.enqueue_http("feedback", method, spot.url(status="500,200")))
    assert (job.state, len(spot.requests)) == ("completed", 2)


async def test_patch_is_not(app, spot):
    job = await run_out(app, await app.enqueue_http("feedback", "PATCH", spot.url(status="500,200")))
    assert (failure_of(job).reason_code, len(spot.requests)) == ("unknown_commit_state", 1)


@pytest.mark.parametrize("status", NOT_DONE)
async def test_what_was_not_processed_is_repeated_also_without_a_key(app, spot, status):
    receipt = await app.enqueue_http("feedback", "POST", spot.url(status=f"{status},200"))
    job = await tried(app, receipt)
    assert (job.view, last(job).cls, last(job).landed) == ("retry_pending", "transient", "no")
    assert not last(job).possible_duplicate
    job = await run_out(app, receipt)
    assert (job.state, len(spot.requests)) == ("completed", 2)


@pytest.mark.parametrize("status", [429, 503, 500])
@pytest.mark.parametrize(
    ("asked", "wait"),
    [
        ({"header": "Retry-After:7"}, 7.0),
        ({"header": "Retry-After:3600"}, 3600.0),
        ({"header": f"Retry-After:{DATE.format('10:02:00')}", "date": DATE.format("10:00:00")}, 120.0),
    ],
)
async def test_retry_after_replaces_the_backoff_exactly(app, spot, status, asked, wait):
    receipt = await app.enqueue_http("feedback", "POST", spot.url(status=f"{status},200", **asked), idempotency_key="k")
    job = await tried(app, receipt)
    assert due_in(app, job) == pytest.approx(wait, abs=1e-6)
    app.clock.advance(wait - 1)
    assert not await drain(app)
    app.clock.advance(1.001)
    assert (await tried(app, receipt)).state == "completed"


async def test_a_retry_after_that_says_nothing_leaves_the_backoff(app, spot):
    url = spot.url(status=503, header="Retry-After:soon")
    job = await tried(app, await app.enqueue_http("feedback", "POST", url))
    assert WAIT * 0.9 <= due_in(app, job) <= WAIT


@pytest.mark.parametrize(
    ("status", "reason"),
    [(400, "request_rejected"), (404, "request_rejected"), (422, "request_rejected"), (401, "denied"), (403, "denied")],
)
async def test_what_the_receiver_refuses_is_sent_once(app, spot, status, reason):
    url = spot.url(status=status, body='{"error": "no such \x1b[31mfield"}')
    job = await run_out(app, await app.enqueue_http("feedback", "POST", url, idempotency_key="k"))
    failure = failure_of(job)
    assert (failure.cls, failure.landed, failure.reason_code) == ("permanent", "no", reason)
    assert failure.message.startswith(f'HTTP {status}: {{"error": "no such')
    assert "\x1b" not in failure.message
    assert len(spot.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(app, spot, status, receiver):
    there = Spot(receiver, f"/elsewhere/{status}")
    url = spot.url(status=status, header=f"Location:{there.url()}")
    job = await run_out(app, await app.enqueue_http("feedback", "GET", url))
    failure = failure_of(job)
    assert (job.state, failure.cls, failure.reason_code) == ("dead", "permanent", "redirected")
    assert there.url() in failure.message
    assert (len(spot.requests), there.requests) == (1, [])


@pytest.mark.parametrize("how", ["drip", "half"])
async def test_a_refusal_counts_from_its_status_whatever_becomes_of_its_body(app, spot, how):
    receipt = await app.enqueue_http("feedback", "POST", spot.url(status=400, do=how), timeout=0.3)
    job = await run_out(app, receipt)
    assert (failure_of(job).reason_code, failure_of(job).landed) == ("request_rejected", "no")


async def test_a_receiver_that_is_down_gets_the_request_when_it_is_back(app, tmp_path):
    receiver = Receiver(tmp_path / "requests.jsonl").start()
    receiver.stop()
    spot = Spot(receiver, "/orders")
    receipt = await app.enqueue_http("feedback", "POST", spot.url(), body={"n": 1})
    job = await tried(app, receipt)
    assert (job.view, last(job).cls, last(job).landed) == ("retry_pending", "transient", "no")
    receiver.start()
    try:
        app.clock.advance(WAIT)
        job = await tried(app, receipt)
    finally:
        receiver.stop()
    assert (job.state, job.attempts, len(spot.requests)) == ("completed", 2, 1)


async def test_a_name_that_leads_nowhere_was_not_sent(app):
    job = await tried(app, await app.enqueue_http("feedback", "POST", "http://no-such-host.invalid/"))
    assert (job.view, last(job).cls, last(job).landed) == ("retry_pending", "transient", "no")


async def test_a_lookup_that_hangs_was_not_sent(app, monkeypatch):
    over = Event()

    def hangs(*_args: object, **_options: object) -> None:
        over.wait()
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    job = await tried(app, await app.enqueue_http("feedback", "POST", "http://slow-dns.test/", timeout=0.5))
    over.set()
    assert (job.view, last(job).landed, last(job).reason_code) == ("retry_pending", "no", "timeout")


async def test_a_receiver_that_does_not_accept_was_not_sent_to(app):
    """A full backlog: the kernel answers nothing, and the connection is never made."""
    with full_backlog() as address:
        job = await tried(app, await app.enqueue_http("feedback", "POST", f"http://{address}/", timeout=1))
    assert (job.view, last(job).landed, last(job).reason_code) == ("retry_pending", "no", "timeout")
    assert (last(job).error_kind, last(job).message) == ("ConnectTimeout", "no connection within 0.2 s")


async def test_tls_that_fails_was_not_sent_and_asked_for_the_name(app, resolver):
    """The socket goes to the vetted address; the name is what TLS asks for, and what its certificate must be of."""
    resolver("receiver.test", ["127.0.0.1"])
    hellos: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hellos.append(await reader.read(4096))
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        job = await tried(app, await app.enqueue_http("feedback", "POST", f"https://receiver.test:{port}/"))
    assert (job.view, last(job).cls, last(job).landed) == ("retry_pending", "transient", "no")
    assert [b"receiver.test" in hello for hello in hellos] == [True]


async def test_the_queues_timeout_bounds_the_requests(app, spot):
    app.queue("hasty", destinations=["127.0.0.1"], timeout=0.5)
    receipt = await app.enqueue_http("hasty", "POST", spot.url(do="slow", seconds=5), timeout=60)
    job = await tried(app, receipt)
    assert (failure_of(job).reason_code, failure_of(job).landed) == ("unknown_commit_state", "maybe")
    with full_backlog() as address:
        job = await tried(app, await app.enqueue_http("hasty", "POST", f"http://{address}/", timeout=60))
    assert (job.view, last(job).landed) == ("retry_pending", "no")


@pytest.mark.parametrize(("key", "end"), [(None, ("dead", 1, 0)), ("k", ("queued", 0, 1))])
async def test_a_drain_that_cuts_a_request_gives_back_only_what_may_be_repeated(url, spot, key, end):
    async with Standfast(url) as sf:
        sf.queue("feedback", destinations=["127.0.0.1"], backoff=fixed(60))
        async with sf.worker(grace=0.05):
            url = spot.url(do="slow", seconds=5)
            receipt = await sf.enqueue_http("feedback", "POST", url, idempotency_key=key)
            await seen(lambda: spot.requests)
        job = await job_of(sf, receipt.id)
    assert (job.state, job.attempts, job.deferrals) == end
    if key is None:
        assert (failure_of(job).reason_code, failure_of(job).landed) == ("unknown_commit_state", "maybe")
