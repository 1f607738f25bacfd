"""Where requests may go and what they may hold: refused before anything is written, and again when connecting."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from standfast import ConfigurationError, PayloadRejected, Standfast
from standfast.testing import memory
from standfast.wings.http.words import LARGEST_HEADERS, LONGEST_URL, MOST_HEADERS
from tests.receiver import Receiver
from tests.sending import tried
from tests.waiting import failure_of

pytestmark = pytest.mark.long_on_postgres  # addresses and headers are judged before any store is asked

PRIVATE = [
    "http://127.0.0.1:8000/",
    "http://10.0.0.1/",
    "http://192.168.1.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://0.0.0.0/",
    "http://224.0.0.1/",
    "http://localhost/",
    "http://LOCALHOST:1/",
    "http://api.localhost/",
    "http://[::1]:8000/",
    "http://[::]/",
    "http://[fe80::1]/",
    "http://[fd00::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[64:ff9b::7f00:1]/",
    "http://0x7f.1/",
    "http://2130706433/",
    "http://0177.0.0.1/",
    "http://127.1/",
]

BAD_URLS = [
    "",
    "/orders",
    "example.com/orders",
    "//example.com/",
    "http:///orders",
    "http://",
    "http://:80/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "http://user@example.com/",
    "http://user:secret@example.com/",
    "http://@example.com/",
    "http://example.com:0/",
    "http://example.com:99999/",
    "http://example.com:http/",
    "http://example.com/a b",
    "http://example.com/a\r\nX-Injected: 1",
    "http://example.com/a\nb",
    "http://example.com/a\tb",
    "http://example.com/a\x00b",
    "http://example.com/\x7f",
    "http://exam\nple.com/",
    " http://example.com/",
    "http://example.com\\@127.0.0.1/",
    "http://127%2e0.0.1/",
    "http://ex_ample..com/",
    "http://-example.com/",
    "http://[::1/",
    "http://[nonsense]/",
    "http://１２７.0.0.1/",  # noqa: RUF001 - digits that some resolvers read as digits
    "http://exämple.com/",
    "http://" + "a" * 64 + ".com/",
    "http://example.com/" + "a" * LONGEST_URL,
    5,
    None,
]

BAD_HEADERS = [
    {"X-A": "1\r\nX-Injected: 2"},
    {"X-A": "1\n2"},
    {"X-A": "1\r"},
    {"X-A": "\x00"},
    {"X-A": "\x1b[31m"},
    {"X-A": "a\tb"},
    {"X-A": "\x7f"},
    {"X-A": " 1"},
    {"X-A": "1 "},
    {"X-A": "ü"},
    {"X-A": 1},
    {"X-A": None},
    {"X-A\r\nX-B": "1"},
    {"X A": "1"},
    {"X-A:": "1"},
    {"": "1"},
    {"Ü": "1"},
    {"X-A": "1", "x-a": "2"},
    {"Host": "evil.example"},
    {"content-length": "0"},
    {"Transfer-Encoding": "chunked"},
    {"Connection": "close"},
    {"Keep-Alive": "1"},
    {"Proxy-Authorization": "Basic x"},
    {"TE": "trailers"},
    {"Trailer": "X"},
    {"Upgrade": "h2c"},
    {"Expect": "100-continue"},
    {"Accept-Encoding": "gzip"},
    {"Idempotency-Key": "k"},
    {"X-Standfast-Fence": "99"},
    {"x-standfast-attempt": "1"},
    {f"X-{n}": "1" for n in range(MOST_HEADERS + 1)},
    {"X-A": "a" * LARGEST_HEADERS},
]


async def refused(sf: Standfast, *request, **options) -> str:
    """Enqueue what must be refused with nothing written; give what is said about it."""
    with pytest.raises(PayloadRejected) as told:
        await sf.enqueue_http("feedback", *request, **options)
    assert await sf.jobs() == []
    assert "nothing was written" in str(told.value)
    return str(told.value)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database of the caller's own."""
    opened = sqlite3.connect(tmp_path / "shop.db")
    yield opened
    opened.close()


# --- when it is enqueued


@pytest.mark.parametrize("url", PRIVATE)
async def test_a_private_address_is_refused_at_once(url):
    async with memory() as sf:
        sf.queue("feedback")
        told = await refused(sf, "POST", url)
    assert "sf.queue(" in told or "in disguise; write that" in told


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1:8000/x", "127.0.0.1"),
        ("http://[::1]/", "::1"),
        ("http://localhost:8000/", "localhost"),
        ("http://api.localhost/", "api.localhost"),
    ],
)
async def test_the_refusal_gives_a_line_that_works(url, host):
    async with memory() as sf:
        sf.queue("feedback", destinations=["10.0.0.0/8"])
        told = await refused(sf, "POST", url)
        line = f'sf.queue("feedback", destinations=["10.0.0.0/8", "{host}"])'
        assert line in told
        exec(line, {"sf": sf})  # noqa: S102 - what a reader of the message does
        assert (await sf.enqueue_http("feedback", "POST", url)).outcome == "accepted"


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "134744072"])
async def test_an_address_is_written_as_everybody_reads_it(app, host):
    assert "in disguise" in await refused(app, "POST", f"http://{host}/")


async def test_a_queue_nobody_declared_names_nothing():
    async with memory() as sf:
        assert 'sf.queue("feedback", destinations=["127.0.0.1"])' in await refused(sf, "GET", "http://127.0.0.1/")


async def test_a_refusal_makes_no_store(path):
    """Where no store is, nobody can have declared the queue."""
    sf = Standfast(path)
    with pytest.raises(PayloadRejected, match="nothing was written"):
        await sf.enqueue_http("feedback", "POST", "http://127.0.0.1/")
    await sf.close()
    assert list(Path(path).parent.iterdir()) == []


async def test_what_another_process_declared_counts(url):
    async with Standfast(url) as declaring:
        declaring.queue("feedback", destinations=["127.0.0.1"])
        await declaring.open()
    async with Standfast(url) as other:
        assert (await other.enqueue_http("feedback", "GET", "http://127.0.0.1/")).outcome == "accepted"


async def test_public_addresses_and_names_are_accepted(app):
    for url in (
        "https://example.com",
        "http://EXAMPLE.com.:8080/a/b?c=d&e=%20#f",
        "https://8.8.8.8/",
        "https://[2606:2800:220:1::1]:8443/",
        "https://a_b.example.co.uk/~user/ümlaut?q=ü",
        "https://xn--exmple-cua.com/",
    ):
        assert (await app.enqueue_http("feedback", "POST", url)).outcome == "accepted"


@pytest.mark.parametrize("url", BAD_URLS)
async def test_a_url_that_could_not_be_called_is_refused(app, url):
    await refused(app, "POST", url)


@pytest.mark.parametrize("headers", BAD_HEADERS, ids=range(len(BAD_HEADERS)))
async def test_a_header_that_may_not_be_sent_is_refused(app, headers):
    await refused(app, "POST", "https://example.com/", headers=headers)


@pytest.mark.parametrize("method", ["", "CONNECT", "BREW", "GET\r\nX: 1", "GET /", "G ET", 5, None])
async def test_an_unknown_method_is_refused(app, method):
    assert "known are DELETE, GET" in await refused(app, method, "https://example.com/") or not isinstance(method, str)


@pytest.mark.parametrize("span", [0, -1, 1e9])
async def test_an_impossible_timeout_is_refused(app, span):
    await refused(app, "POST", "https://example.com/", timeout=span)


@pytest.mark.parametrize("body", [{"a": float("nan")}, b"bytes", {"a": object()}, "x" * (300 * 1024)])
async def test_a_body_that_is_not_json_or_too_big_is_refused(app, body):
    with pytest.raises(PayloadRejected):
        await app.enqueue_http("feedback", "POST", "https://example.com/", body=body)
    assert await app.jobs() == []


@pytest.mark.parametrize("key", ["ü", " k", "k "])
async def test_a_key_that_no_header_takes_is_refused(app, key):
    assert "idempotency_key" in await refused(app, "POST", "https://example.com/", idempotency_key=key)


@pytest.mark.parametrize(
    "payload",
    [
        None,
        {},
        {"method": "POST"},
        {"method": "POST", "url": "https://example.com/", "header": {}},
        {"method": "POST", "url": "https://example.com/", "headers": {"X-A": "1\r\n"}},
    ],
)
async def test_the_plain_call_is_checked_alike(app, payload):
    with pytest.raises(PayloadRejected):
        await app.enqueue("feedback", payload, handler="http")
    assert await app.jobs() == []


@pytest.mark.parametrize("queue", ["feedback", "undeclared"])
@pytest.mark.parametrize(
    ("url", "options"), [("http://10.0.0.1/", {}), ("https://example.com/", {"idempotency_key": " ü "})]
)
async def test_every_way_in_has_the_same_guards(app, shop, queue, url, options):
    payload = {"method": "GET", "url": url}
    ways: list[Callable[..., Any]] = [
        partial(app.enqueue, queue, payload),
        partial(app.enqueue, queue, payload, tx=shop),
        partial(asyncio.to_thread, app.enqueue_sync, queue, payload),
        partial(app.enqueue_many, queue, [payload, payload]),
    ]
    for enqueue in ways:
        with pytest.raises(PayloadRejected, match="idempotency_key" if options else "destinations="):
            await enqueue(handler="http", **options)
    assert await app.jobs() == []


async def test_what_another_process_declared_counts_for_every_way_in(path, spot):
    async with Standfast(path) as other:
        other.queue("open", destinations=["127.0.0.1"])
        await other.open()
        sf = Standfast(path)
        payload = {"method": "GET", "url": spot.url()}
        assert (await sf.enqueue("open", payload, handler="http")).outcome == "accepted"
        assert (await asyncio.to_thread(sf.enqueue_sync, "open", payload, handler="http")).outcome == "accepted"
        await sf.close()


def test_its_name_is_taken_in_every_queue():
    with pytest.raises(ConfigurationError, match="every queue has a handler named 'http'"):
        memory().handler("mail", name="http")(print)


# --- when it connects


async def test_a_name_that_leads_to_a_private_address_is_refused_when_connecting(app, spot, resolver):
    resolver("receiver.test", ["127.0.0.1"])
    app.queue("open")
    job = await tried(app, await app.enqueue_http("open", "POST", spot.url(host="receiver.test")))
    failure = failure_of(job)
    assert (job.state, failure.cls, failure.landed, failure.reason_code) == ("dead", "permanent", "no", "denied")
    assert 'sf.queue("open", destinations=["receiver.test"])' in failure.message
    assert spot.requests == []


async def test_a_name_may_lead_where_its_queue_allows(app, spot, resolver):
    resolver("receiver.test", ["127.0.0.1"])
    for destination in ("receiver.test", "*.test", "127.0.0.0/8"):
        app.queue(destination, destinations=[destination])
        job = await tried(app, await app.enqueue_http(destination, "POST", spot.url(host="receiver.test")))
        assert job.state == "completed"
    assert {sent["headers"]["host"].partition(":")[0] for sent in spot.requests} == {"receiver.test"}


async def test_one_bad_address_among_good_ones_refuses_the_name(app, spot, resolver):
    resolver("receiver.test", ["127.0.0.1", "10.0.0.1"])
    job = await tried(app, await app.enqueue_http("feedback", "POST", spot.url(host="receiver.test")))
    assert (failure_of(job).reason_code, spot.requests) == ("denied", [])


async def test_the_next_address_is_tried_when_the_first_refuses(app, spot, resolver):
    resolver("receiver.test", ["127.0.0.9", "127.0.0.1"])
    app.queue("local", destinations=["127.0.0.0/8"])
    job = await tried(app, await app.enqueue_http("local", "POST", spot.url(host="receiver.test")))
    assert (job.state, len(spot.requests)) == ("completed", 1)


async def test_the_address_that_was_vetted_is_the_one_that_is_called(app, spot, receiver, resolver, tmp_path):
    """A resolver that answers otherwise the second time gets no second time."""
    inner = Receiver(tmp_path / "inner.jsonl", "127.0.0.2", receiver.port).start()
    try:
        asked = resolver("receiver.test", ["127.0.0.1"], ["127.0.0.2"])
        job = await tried(app, await app.enqueue_http("feedback", "POST", spot.url(host="receiver.test")))
    finally:
        inner.stop()
    assert (job.state, len(spot.requests), inner.requests()) == ("completed", 1, [])
    assert asked == ["receiver.test"]


async def test_a_connection_that_one_queue_may_use_is_not_anothers(app, spot, resolver):
    resolver("receiver.test", ["127.0.0.1"])
    app.queue("trusted", destinations=["receiver.test"])
    app.queue("open")
    url = spot.url(host="receiver.test")
    job = await tried(app, await app.enqueue_http("trusted", "GET", url))
    assert job.state == "completed"
    job = await tried(app, await app.enqueue_http("open", "GET", url))
    assert (failure_of(job).reason_code, len(spot.requests)) == ("denied", 1)


async def test_the_rules_in_force_when_it_runs_decide(app, spot):
    receipt = await app.enqueue_http("feedback", "GET", spot.url())
    app.queue("feedback", destinations=())
    job = await tried(app, receipt)
    assert (failure_of(job).reason_code, spot.requests) == ("denied", [])
