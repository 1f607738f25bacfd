"""What real HTTP clients raise when a receiver on the loopback misbehaves, and how that is judged."""

from __future__ import annotations

import asyncio
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3
from urllib3.util import Retry

from standfast.failure.classify import of_exception
from tests.core.misbehaving import Misbehaving, misbehaving
from tests.core.raised import told

PATIENCE = 1.0

NOT_SENT = "transient no dependency_unavailable"
NOT_REACHED = "transient no timeout"
NO_ANSWER = "transient maybe timeout"
BROKEN = "transient maybe dependency_unavailable"
MISREAD = "permanent maybe parse_error"
REDIRECTED = "permanent maybe redirected"

EXPECTED = {
    "refused": NOT_SENT,
    "no name": NOT_SENT,
    "no TLS": NOT_SENT,
    "full": NOT_REACHED,
    "hang": NO_ANSWER,
    "close": BROKEN,
    "reset": BROKEN,
    "garbage": BROKEN,
    "cut": BROKEN,
    "chunk": BROKEN,
    "gzip": BROKEN,
    "html": MISREAD,
    "busy": NOT_SENT,
    "loop": REDIRECTED,
}
EXCEPTIONS = {
    # They tell a failed handshake as they tell what breaks later, and a slow connection as they tell a slow reply.
    ("requests", "no TLS"): BROKEN,
    ("urllib3", "no TLS"): BROKEN,
    ("urllib", "no TLS"): BROKEN,
    ("http.client", "no TLS"): BROKEN,
    ("urllib", "full"): NO_ANSWER,
    ("http.client", "full"): NO_ANSWER,
    # They follow no redirects, and do not raise on a status or decode anything.
    ("urllib3", "loop"): None,
    ("urllib3", "busy"): None,
    ("http.client", "loop"): None,
    ("http.client", "busy"): None,
    ("http.client", "gzip"): None,
    ("http.client", "html"): None,
    ("urllib", "gzip"): MISREAD,
}


def by_httpx(library: Any) -> Callable[[str], None]:
    def send(url: str) -> None:
        with library.Client(timeout=PATIENCE, follow_redirects=True, trust_env=False, verify=False) as client:
            client.post(url, content=b"x").raise_for_status().json()

    return send


def by_requests(url: str) -> None:
    with requests.Session() as session:
        session.trust_env = False
        reply = session.post(url, data=b"x", timeout=PATIENCE)
        reply.raise_for_status()
        reply.json()


def by_urllib3(url: str) -> None:
    with urllib3.PoolManager() as pool:
        reply = pool.request("POST", url, body=b"x", timeout=PATIENCE, retries=False)
        if reply.status == http.client.OK:
            reply.json()


def by_urllib(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, data=b"x", timeout=PATIENCE) as reply:
            json.loads(reply.read())
    except urllib.error.HTTPError as error:
        error.close()  # it is the reply, too
        raise


def by_http_client(url: str) -> None:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=PATIENCE)
    try:
        connection.request("POST", parts.path, body=b"x")
        connection.getresponse().read()
    finally:
        connection.close()


def by_aiohttp(url: str) -> None:
    async def send() -> None:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=PATIENCE, sock_read=PATIENCE)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.post(url, data=b"x") as reply:
            reply.raise_for_status()
            await reply.json()

    asyncio.run(send())


CLIENTS = {
    "httpx": by_httpx(httpx),
    "httpx2": by_httpx(httpx2),
    "requests": by_requests,
    "urllib3": by_urllib3,
    "urllib": by_urllib,
    "http.client": by_http_client,
    "aiohttp": by_aiohttp,
}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Misbehaving]:
    with misbehaving() as running:
        yield running


def raised_by(send: Callable[[str], None], url: str) -> BaseException | None:
    try:
        send(url)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is to be judged
        return error
    return None


@pytest.mark.parametrize("trouble", EXPECTED)
@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_raises_is_judged_by_what_happened(receiver, client, trouble):
    error = raised_by(CLIENTS[client], receiver.urls[trouble])
    expected = EXCEPTIONS.get((client, trouble), EXPECTED[trouble])
    assert (error and told(of_exception(error))) == expected, repr(error)
    if error is not None and trouble == "busy":
        assert of_exception(error).retry_after == 7


@pytest.mark.parametrize(("trouble", "expected"), [("refused", NOT_SENT), ("hang", NO_ANSWER), ("close", BROKEN)])
def test_a_client_that_repeats_by_itself_is_judged_by_its_last_try(receiver, trouble, expected):
    with urllib3.PoolManager() as pool, pytest.raises(urllib3.exceptions.MaxRetryError) as caught:
        pool.request("PUT", receiver.urls[trouble], timeout=PATIENCE, retries=Retry(1))
    assert told(of_exception(caught.value)) == expected
