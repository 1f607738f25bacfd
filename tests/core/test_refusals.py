"""A receiver that refuses for now and says when: heard from every client and SDK, and through whatever wraps them."""

from __future__ import annotations

import asyncio
import gc
import json
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from threading import Thread
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
import requests

from standfast import Permanent, Transient, Uncertain
from standfast.failure.classify import of_exception, of_http, of_result
from tests.core.raised import told

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::DeprecationWarning"
)

BODY = b'{"error": {"message": "not now", "type": "invalid_request_error"}}'
QUOTA = {
    "error": {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": "quota",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}],
    }
}


class Receiver(ThreadingHTTPServer):
    """Answers every request alike."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.answers(200)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answers(self, status: int, body: bytes = BODY, **headers: str) -> str:
        """Answer like this from now on; give the address."""
        self.status, self.body = status, body
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.url


class Answering(BaseHTTPRequestHandler):
    server: Receiver

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.server.status)
        for name, value in {"Content-Length": str(len(self.server.body)), **self.server.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_POST = answer  # noqa: N815 - the names are the base class's

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture(autouse=True)
def _left_sockets() -> Iterator[None]:
    """Collect the sockets that SDKs leave to the garbage collector here, before a later test is blamed for them."""
    yield
    with warnings.catch_warnings(action="ignore"):
        gc.collect()


# --- clients and SDKs, as they are


def by_httpx(url: str) -> None:
    httpx.get(url, trust_env=False).raise_for_status()


def by_httpx2(url: str) -> None:
    httpx2.get(url, trust_env=False).raise_for_status()


def by_requests(url: str) -> None:
    requests.get(url, timeout=5, proxies={"http": ""}).raise_for_status()


def by_urllib(url: str) -> None:
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5)


def by_aiohttp(url: str) -> None:
    async def ask() -> None:
        async with aiohttp.ClientSession(raise_for_status=True) as session, session.get(url):
            pass

    asyncio.run(ask())


def by_openai(url: str) -> None:
    client = import_module("openai").OpenAI(api_key="k", base_url=url, max_retries=0)
    client.chat.completions.create(model="m", messages=[])


def by_anthropic(url: str) -> None:
    client = import_module("anthropic").Anthropic(api_key="k", base_url=url, max_retries=0)
    client.messages.create(model="m", max_tokens=1, messages=[])


def by_google(url: str) -> None:
    genai = import_module("google.genai")
    client = genai.Client(api_key="k", http_options={"base_url": url})
    client.models.generate_content(model="m", contents="x")


def by_botocore(url: str) -> None:
    config = import_module("botocore.config").Config(retries={"total_max_attempts": 1}, proxies={})
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "eu-west-1"}
    session = import_module("botocore.session").get_session()
    session.create_client("sqs", endpoint_url=url, config=config, **keys).list_queues()


def by_stripe(url: str) -> None:
    stripe = import_module("stripe")
    client = stripe.StripeClient("sk_test_x", base_addresses={"api": url}, max_network_retries=0)
    client.v1.customers.list()


CLIENTS = (by_httpx, by_httpx2, by_requests, by_urllib, by_aiohttp)
SDKS = (by_openai, by_anthropic, by_google, by_botocore, by_stripe)
BY_ALL = pytest.mark.parametrize("send", [*CLIENTS, *SDKS], ids=lambda send: send.__name__)

Send = Callable[[str], None]


def raised(send: Send, url: str) -> Exception:
    """Give what a client raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each client has its own, and of_exception judges it
        send(url)
    return caught.value


@BY_ALL
@pytest.mark.parametrize(("status", "reason"), [(429, "rate_limited"), (503, "dependency_unavailable")])
def test_a_refusal_that_says_when_is_heard_from_every_client(receiver, send, status, reason):
    failed = of_exception(raised(send, receiver.answers(status, Retry_After="7")))
    assert (failed.refused, failed.retry_after, told(failed)) == (True, 7.0, f"transient no {reason}")


@BY_ALL
def test_a_refusal_that_does_not_say_when_is_a_failure(receiver, send):
    failed = of_exception(raised(send, receiver.answers(429)))
    assert (failed.refused, failed.retry_after, told(failed)) == (False, None, "transient no rate_limited")


@BY_ALL
def test_milliseconds_and_dates_are_read_too(receiver, send):
    exact = of_exception(raised(send, receiver.answers(429, Retry_After="7", retry_after_ms="250")))
    assert (exact.refused, exact.retry_after) == (True, 0.25)
    azure = of_exception(raised(send, receiver.answers(429, x_ms_retry_after_ms="1500")))
    assert (azure.refused, azure.retry_after) == (True, 1.5)
    dated = of_exception(raised(send, receiver.answers(503, Retry_After=formatdate(usegmt=True, timeval=4e9))))
    assert (dated.refused, dated.retry_after) == (True, 86400.0)


@BY_ALL
def test_another_status_is_a_failure_whatever_it_says(receiver, send):
    for status in (400, 500):
        assert not of_exception(raised(send, receiver.answers(status, Retry_After="7"))).refused


def test_google_says_when_in_the_body(receiver):
    failed = of_exception(raised(by_google, receiver.answers(429, json.dumps(QUOTA).encode())))
    assert (failed.refused, failed.retry_after, told(failed)) == (True, 34.0, "transient no rate_limited")


@pytest.mark.parametrize("code", ["ThrottlingException", "RequestThrottled", "SlowDown"])
def test_aws_throttles_with_a_code_and_another_status(receiver, code):
    body = json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": "too fast"}).encode()
    assert told(of_exception(raised(by_botocore, receiver.answers(400, body)))) == "transient no rate_limited"
    failed = of_exception(raised(by_botocore, receiver.answers(400, body, Retry_After="3")))
    assert (failed.refused, failed.retry_after) == (True, 3.0)


# --- through what wraps them


def refusal(seconds: float = 30, status: int = 429) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "https://crm.example/")
    response = httpx.Response(status, headers={"Retry-After": str(seconds)}, request=request)
    return httpx.HTTPStatusError("refused", request=request, response=response)


def raised_from(error: Exception, cause: Exception) -> Exception:
    """Give what `raise error from cause` raises."""
    error.__cause__ = cause
    return error


def raised_while_handling(error: Exception, other: Exception) -> Exception:
    """Give what `raise error` raises in an `except` that handles the other one."""
    error.__context__ = other
    return error


WRAPPED = {
    "from": (raised_from(RuntimeError("sync failed"), refusal()), "transient no rate_limited"),
    "twice": (raised_from(RuntimeError("a"), raised_from(KeyError("b"), refusal())), "transient no rate_limited"),
    "while handling": (raised_while_handling(RuntimeError("a"), refusal()), "transient maybe rate_limited"),
    "transient": (raised_from(Transient("busy"), refusal()), "transient no dependency_unavailable"),
    "uncertain": (raised_from(Uncertain("busy"), refusal()), "transient maybe unknown_commit_state"),
    "another status": (raised_from(refusal(status=502), refusal()), "transient maybe dependency_unavailable"),
    "group": (ExceptionGroup("two", [refusal(10), refusal(30)]), "transient no rate_limited"),
    "mixed group": (ExceptionGroup("two", [refusal(30), ValueError("x")]), "unknown maybe unclassified_error"),
    "group in a chain": (raised_from(RuntimeError("a"), ExceptionGroup("g", [refusal()])), "transient no rate_limited"),
}


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_a_refusal_is_heard_through_whatever_wraps_it(wrapped):
    error, judged = WRAPPED[wrapped]
    failed = of_exception(error)
    assert (failed.refused, failed.retry_after, told(failed)) == (True, 30.0, judged)


def test_a_handler_that_gives_up_for_good_is_believed():
    failed = of_exception(raised_from(Permanent("no use"), refusal()))
    assert (failed.refused, told(failed)) == (False, "permanent no handler_refused")


def test_what_was_hidden_on_purpose_is_not_looked_at():
    error = raised_while_handling(RuntimeError("a"), refusal())
    error.__suppress_context__ = True
    assert not of_exception(error).refused


def test_a_chain_that_bites_its_tail_ends():
    error, other = RuntimeError("a"), RuntimeError("b")
    error.__cause__, other.__cause__ = other, error
    assert not of_exception(error).refused


# --- in the handler's own words


@pytest.mark.parametrize(
    ("error", "refused", "wait"),
    [
        (Transient("later", retry_after=5), False, 5.0),
        (Transient("slow down", retry_after=5, reason_code="rate_limited"), True, 5.0),
        (Transient("slow down", retry_after=5, error_kind="throttled"), True, 5.0),
        (Transient("slow down", reason_code="rate_limited"), False, None),
        (Permanent("no", retry_after=5, reason_code="rate_limited"), False, 5.0),
        (raised_from(Transient("later", retry_after=5), refusal(30)), True, 5.0),
    ],
)
def test_a_handler_that_says_when_spends_an_attempt_unless_it_says_that_it_was_refused(error, refused, wait):
    failed = of_exception(error)
    assert (failed.refused, failed.retry_after) == (refused, wait)


class Homemade(Exception):
    """An exception of somebody's own client."""

    def __init__(self, **kept: object) -> None:
        super().__init__("refused")
        vars(self).update(kept)


@pytest.mark.parametrize(
    "kept",
    [
        {"status_code": 429, "retry_after": 20},
        {"status_code": 429, "retry_after": "20"},
        {"status_code": 503, "retry_after": timedelta(seconds=20)},
        {"status_code": 429, "headers": {"RETRY-AFTER": "20"}},
        {"status_code": 429, "headers": {"retry-after": 20}},
        {"error_kind": "rate_limited", "retry_after": 20},
    ],
)
def test_exceptions_of_your_own_say_it_likewise(kept):
    failed = of_exception(Homemade(**kept))
    assert (failed.refused, failed.retry_after) == (True, 20.0)


def test_so_does_a_result_and_a_reply():
    assert of_result({"error_kind": "rate_limited", "retry_after": 9}).refused  # type: ignore[union-attr]
    assert not of_result({"error_kind": "timeout", "retry_after": 9}).refused  # type: ignore[union-attr]
    assert of_http(503, 9).refused  # type: ignore[union-attr]
    assert not of_http(503).refused  # type: ignore[union-attr]
    assert not of_http(500, 9).refused  # type: ignore[union-attr]
