"""What each piece of evidence says: one line per row."""

from __future__ import annotations

import asyncio
import errno
import http.client
import json
import socket
import sqlite3
import ssl
import subprocess

import apsw
import asyncpg  # type: ignore[import-untyped]
import httpx2
import msgspec
import psycopg
import pytest

from standfast.errors import Permanent, Transient, Uncertain
from standfast.failure import CATALOGUE
from standfast.failure.classify import of_exception, of_http, of_result
from standfast.failure.evidence import (
    CARRIERS,
    ERRNOS,
    FAMILIES,
    HANDLERS,
    KINDS,
    SQLITE_CODES,
    SQLSTATES,
    STATUSES,
    TYPES,
)
from standfast.wings.http import broken
from tests.core.raised import UNCLASSIFIED, Kind, bare, foreign, real_classes, told

HANDLER_ROWS = {
    Transient: "transient no dependency_unavailable",
    Permanent: "permanent no handler_refused",
    Uncertain: "transient maybe unknown_commit_state",
}

KIND_ROWS = {
    "timeout": "transient maybe timeout",
    "timed_out": "transient maybe timeout",
    "deadline_exceeded": "transient maybe timeout",
    "uncertain": "transient maybe unknown_commit_state",
    "post_write_uncertain": "transient maybe unknown_commit_state",
    "unknown_commit_state": "transient maybe unknown_commit_state",
    "unverified": "transient maybe unverified",
    "unavailable": "transient no dependency_unavailable",
    "dependency_unavailable": "transient no dependency_unavailable",
    "connection_refused": "transient no dependency_unavailable",
    "connection_reset": "transient maybe dependency_unavailable",
    "connection_lost": "transient maybe dependency_unavailable",
    "rate_limited": "transient no rate_limited",
    "throttled": "transient no rate_limited",
    "too_many_requests": "transient no rate_limited",
    "refused": "permanent no denied",
    "denied": "permanent no denied",
    "forbidden": "permanent no denied",
    "permission_denied": "permanent no denied",
    "unauthorized": "permanent no denied",
    "user_action_required": "permanent no user_action_required",
    "consent_required": "permanent no user_action_required",
    "auth_required": "permanent no user_action_required",
    "login_required": "permanent no user_action_required",
    "schema_invalid": "permanent no schema_invalid",
    "validation_error": "permanent no schema_invalid",
}

OTHER_KINDS = {
    "parse_error": "permanent no parse_error",
    "tool_contract_mismatch": "permanent no tool_contract_mismatch",
    "approval_required": "permanent no approval_required",
    "worker_lost": "transient maybe worker_lost",
    "partial_external_write": "unknown maybe partial_external_write",
    " Rate-Limited ": "transient no rate_limited",
    "obsidian_post_write_uncertain": "transient maybe unknown_commit_state",
    "obsidian_refused": "permanent maybe denied",
    "obsidian.timeout": "transient maybe timeout",
    "db_connection_refused": "transient maybe dependency_unavailable",
    "confirmation_unavailable": "transient maybe dependency_unavailable",
    "[rate limited]": "transient no rate_limited",
    "gremlins": UNCLASSIFIED,
    "expired_card": UNCLASSIFIED,
    "card_expired": UNCLASSIFIED,
}

TYPE_ROWS = {
    "builtins.ConnectionRefusedError": "transient no dependency_unavailable",
    "builtins.ConnectionError": "transient maybe dependency_unavailable",
    "builtins.TimeoutError": "transient maybe timeout",
    "builtins.MemoryError": "transient maybe unclassified_error",
    "socket.gaierror": "transient no dependency_unavailable",
    "socket.herror": "transient no dependency_unavailable",
    "ssl.SSLCertVerificationError": "transient no dependency_unavailable",
    "ssl.SSLError": "transient maybe dependency_unavailable",
    "asyncio.IncompleteReadError": "transient maybe dependency_unavailable",
    "concurrent.BrokenExecutor": "transient maybe dependency_unavailable",
    "multiprocessing.TimeoutError": "transient maybe timeout",
    "subprocess.TimeoutExpired": "transient maybe timeout",
    "subprocess.CalledProcessError": UNCLASSIFIED,
    "msgspec.ValidationError": "permanent maybe parse_error",
    "msgspec.DecodeError": "permanent maybe parse_error",
    "pydantic_core.ValidationError": "permanent maybe parse_error",
    "json.JSONDecodeError": "permanent maybe parse_error",
    "http.InvalidURL": "permanent no request_rejected",
    "http.HTTPException": "transient maybe dependency_unavailable",
    "standfast.ConnectError": "transient no dependency_unavailable",
    "standfast.ConnectTimeout": "transient no timeout",
    "standfast.WireError": "transient maybe dependency_unavailable",
    "httpx.ConnectError": "transient no dependency_unavailable",
    "httpx.ConnectTimeout": "transient no timeout",
    "httpx.PoolTimeout": "transient no timeout",
    "httpx.TimeoutException": "transient maybe timeout",
    "httpx.NetworkError": "transient maybe dependency_unavailable",
    "httpx.ProtocolError": "transient maybe dependency_unavailable",
    "httpx.ProxyError": "transient maybe dependency_unavailable",
    "httpx.DecodingError": "transient maybe dependency_unavailable",
    "httpx.TooManyRedirects": "permanent maybe redirected",
    "httpx.UnsupportedProtocol": "permanent no request_rejected",
    "httpx.InvalidURL": "permanent no request_rejected",
    "requests.ConnectTimeout": "transient no timeout",
    "requests.Timeout": "transient maybe timeout",
    "requests.ConnectionError": "transient maybe dependency_unavailable",
    "requests.RetryError": "transient maybe dependency_unavailable",
    "requests.ChunkedEncodingError": "transient maybe dependency_unavailable",
    "requests.ContentDecodingError": "transient maybe dependency_unavailable",
    "requests.JSONDecodeError": "permanent maybe parse_error",
    "requests.InvalidJSONError": "permanent no request_rejected",
    "requests.TooManyRedirects": "permanent maybe redirected",
    "requests.URLRequired": "permanent no request_rejected",
    "requests.MissingSchema": "permanent no request_rejected",
    "requests.InvalidSchema": "permanent no request_rejected",
    "requests.InvalidURL": "permanent no request_rejected",
    "requests.InvalidHeader": "permanent no request_rejected",
    "urllib3.NewConnectionError": "transient no dependency_unavailable",
    "urllib3.ConnectTimeoutError": "transient no timeout",
    "urllib3.EmptyPoolError": "transient no timeout",
    "urllib3.ClosedPoolError": "transient no dependency_unavailable",
    "urllib3.TimeoutError": "transient maybe timeout",
    "urllib3.MaxRetryError": "transient maybe dependency_unavailable",
    "urllib3.ProtocolError": "transient maybe dependency_unavailable",
    "urllib3.SSLError": "transient maybe dependency_unavailable",
    "urllib3.DecodeError": "transient maybe dependency_unavailable",
    "urllib3.ResponseError": "transient maybe dependency_unavailable",
    "urllib3.LocationValueError": "permanent no request_rejected",
    "aiohttp.ClientConnectorError": "transient no dependency_unavailable",
    "aiohttp.ConnectionTimeoutError": "transient no timeout",
    "aiohttp.ServerTimeoutError": "transient maybe timeout",
    "aiohttp.ClientConnectionError": "transient maybe dependency_unavailable",
    "aiohttp.ClientPayloadError": "transient maybe dependency_unavailable",
    "aiohttp.HttpProcessingError": "transient maybe dependency_unavailable",
    "aiohttp.ContentTypeError": "permanent maybe parse_error",
    "aiohttp.TooManyRedirects": "permanent maybe redirected",
    "aiohttp.InvalidUrlRedirectClientError": "permanent maybe redirected",
    "aiohttp.NonHttpUrlRedirectClientError": "permanent maybe redirected",
    "aiohttp.NonHttpUrlClientError": "permanent no request_rejected",
    "aiohttp.InvalidURL": "permanent no request_rejected",
    "psycopg.ConnectionTimeout": "transient no timeout",
    "psycopg.OperationalError": "transient maybe dependency_unavailable",
    "psycopg.DataError": "permanent no request_rejected",
    "psycopg_pool.PoolTimeout": "transient no timeout",
    "psycopg_pool.PoolClosed": "transient no dependency_unavailable",
    "psycopg_pool.TooManyRequests": "transient no dependency_unavailable",
    # Without a code they say nothing.
    "builtins.OSError": UNCLASSIFIED,
    "psycopg.DatabaseError": UNCLASSIFIED,
    "asyncpg.PostgresError": UNCLASSIFIED,
    "sqlite3.Error": UNCLASSIFIED,
    "apsw.Error": UNCLASSIFIED,
}

ERRNO_ROWS = {
    "EMFILE ENFILE EADDRINUSE EADDRNOTAVAIL EBUSY ETXTBSY EDEADLK ENOLCK": "transient no dependency_unavailable",
    "ENOSPC EDQUOT EIO ENOMEM ENOBUFS ESTALE": "transient maybe dependency_unavailable",
    "EHOSTUNREACH ENETUNREACH EHOSTDOWN ENETDOWN": "transient maybe dependency_unavailable",
    "ENOTCONN ENETRESET EAGAIN": "transient maybe dependency_unavailable",
    "ENAMETOOLONG E2BIG ENOEXEC": "permanent no request_rejected",
    "EROFS": "permanent no denied",
}

SQLSTATE_ROWS = {
    "08": "transient maybe dependency_unavailable",
    "08001": "transient no dependency_unavailable",
    "08004": "transient no dependency_unavailable",
    "08007": "transient maybe unknown_commit_state",
    "22": "permanent no request_rejected",
    "23": "permanent no request_rejected",
    "25006": "transient no dependency_unavailable",
    "25P03": "transient no timeout",
    "25P04": "transient no timeout",
    "28": "permanent no denied",
    "3D": "permanent no request_rejected",
    "3F": "permanent no request_rejected",
    "40": "transient no dependency_unavailable",
    "40002": "permanent no request_rejected",
    "40003": "transient maybe unknown_commit_state",
    "42": "permanent no request_rejected",
    "42501": "permanent no denied",
    "53": "transient no dependency_unavailable",
    "54": "permanent no request_rejected",
    "55P03": "transient no dependency_unavailable",
    "57014": "transient no timeout",
    "57P01": "transient maybe dependency_unavailable",
    "57P02": "transient maybe dependency_unavailable",
    "57P03": "transient no dependency_unavailable",
    "57P05": "transient maybe dependency_unavailable",
    "58": "transient maybe dependency_unavailable",
}
OTHER_SQLSTATES = {
    "40001": "transient no dependency_unavailable",
    "40P01": "transient no dependency_unavailable",
    "23505": "permanent no request_rejected",
    "53300": "transient no dependency_unavailable",
    "25P02": UNCLASSIFIED,
    "XX000": UNCLASSIFIED,
    "P0001": UNCLASSIFIED,
}

SQLITE_ROWS = {
    "PERM READONLY AUTH": "permanent no denied",
    "BUSY LOCKED INTERRUPT FULL CANTOPEN PROTOCOL SCHEMA": "transient no dependency_unavailable",
    "IOERR": "transient maybe dependency_unavailable",
    "NOMEM": "transient maybe unclassified_error",
    "TOOBIG CONSTRAINT MISMATCH RANGE": "permanent no request_rejected",
}
OTHER_SQLITE_CODES = {
    "BUSY_SNAPSHOT": "transient no dependency_unavailable",
    "IOERR_FSYNC": "transient maybe dependency_unavailable",
    "CONSTRAINT_UNIQUE": "permanent no request_rejected",
    "ERROR": UNCLASSIFIED,
    "CORRUPT": UNCLASSIFIED,
}


def each_name(rows: dict[str, str]) -> dict[str, str]:
    return {name: expected for names, expected in rows.items() for name in names.split()}


REAL_EXCEPTIONS = [
    (ConnectionRefusedError(111, "refused"), "transient no dependency_unavailable"),
    (ConnectionResetError(104, "reset"), "transient maybe dependency_unavailable"),
    (ConnectionAbortedError(), "transient maybe dependency_unavailable"),
    (BrokenPipeError(), "transient maybe dependency_unavailable"),
    (socket.gaierror(-2, "Name or service not known"), "transient no dependency_unavailable"),
    (ssl.SSLCertVerificationError("self-signed"), "transient no dependency_unavailable"),
    (ssl.SSLEOFError("cut"), "transient maybe dependency_unavailable"),
    (TimeoutError(), "transient maybe timeout"),
    (MemoryError(), "transient maybe unclassified_error"),
    (asyncio.IncompleteReadError(b"", 4), "transient maybe dependency_unavailable"),
    (msgspec.ValidationError("Expected `int`"), "permanent maybe parse_error"),
    (msgspec.DecodeError("malformed"), "permanent maybe parse_error"),
    (json.JSONDecodeError("Expecting value", "<html>", 0), "permanent maybe parse_error"),
    (http.client.RemoteDisconnected("gone"), "transient maybe dependency_unavailable"),
    (http.client.IncompleteRead(b""), "transient maybe dependency_unavailable"),
    (http.client.InvalidURL("no host"), "permanent no request_rejected"),
    (broken.ConnectError("refused"), "transient no dependency_unavailable"),
    (broken.ConnectTimeout("slow"), "transient no timeout"),
    (broken.NetworkError("reset"), "transient maybe dependency_unavailable"),
    (httpx2.ConnectError("refused"), "transient no dependency_unavailable"),
    (httpx2.ConnectTimeout("slow"), "transient no timeout"),
    (httpx2.PoolTimeout("full"), "transient no timeout"),
    (httpx2.ReadTimeout("slow"), "transient maybe timeout"),
    (httpx2.WriteTimeout("slow"), "transient maybe timeout"),
    (httpx2.ReadError("cut"), "transient maybe dependency_unavailable"),
    (httpx2.WriteError("cut"), "transient maybe dependency_unavailable"),
    (httpx2.CloseError("cut"), "transient maybe dependency_unavailable"),
    (httpx2.RemoteProtocolError("broken reply"), "transient maybe dependency_unavailable"),
    (httpx2.ProxyError("proxy"), "transient maybe dependency_unavailable"),
    (httpx2.UnsupportedProtocol("gopher"), "permanent no request_rejected"),
    (httpx2.InvalidURL("no host"), "permanent no request_rejected"),
    (PermissionError(13, "denied"), UNCLASSIFIED),
    (FileNotFoundError(2, "missing"), UNCLASSIFIED),
    (IsADirectoryError(), UNCLASSIFIED),
    (NotADirectoryError(), UNCLASSIFIED),
    (OSError(None, "nobody knows"), UNCLASSIFIED),
    (subprocess.CalledProcessError(1, "false"), UNCLASSIFIED),
    (subprocess.TimeoutExpired("sleep", 1), "transient maybe timeout"),
    (ValueError("x"), UNCLASSIFIED),
    (asyncio.CancelledError(), UNCLASSIFIED),
    (SystemExit(3), UNCLASSIFIED),
]

STATUS_ROWS = {
    100: "transient maybe dependency_unavailable",
    199: "transient maybe dependency_unavailable",
    300: "permanent maybe redirected",
    302: "permanent maybe redirected",
    399: "permanent maybe redirected",
    400: "permanent no request_rejected",
    401: "permanent no denied",
    403: "permanent no denied",
    404: "permanent no request_rejected",
    408: "transient no timeout",
    409: "permanent no request_rejected",
    422: "permanent no request_rejected",
    425: "transient no dependency_unavailable",
    429: "transient no rate_limited",
    499: "permanent no request_rejected",
    500: "transient maybe dependency_unavailable",
    502: "transient maybe dependency_unavailable",
    503: "transient no dependency_unavailable",
    504: "transient maybe dependency_unavailable",
    599: "transient maybe dependency_unavailable",
    0: "transient maybe dependency_unavailable",
    -404: "transient maybe dependency_unavailable",
    600: "transient maybe dependency_unavailable",
    9999: "transient maybe dependency_unavailable",
}


# Every row


def test_every_row_is_listed_above():
    assert set(HANDLER_ROWS) == set(HANDLERS)
    assert set(KIND_ROWS) == set(KINDS)
    assert set(TYPE_ROWS) == set(TYPES)
    assert {getattr(errno, name) for name in each_name(ERRNO_ROWS)} == set(ERRNOS)
    assert set(SQLSTATE_ROWS) == set(SQLSTATES)
    assert {getattr(apsw, f"SQLITE_{name}") for name in each_name(SQLITE_ROWS)} == set(SQLITE_CODES)
    assert set(STATUS_ROWS) > set(STATUSES)


@pytest.mark.parametrize(("name", "expected"), TYPE_ROWS.items())
def test_type_row(name, expected):
    """The class is the library's own: a row for one that is not installed, or has gone, fails here."""
    found = real_classes(name, [package for package, family in FAMILIES.items() if family == name.split(".")[0]])
    for each in found:
        failed = of_exception(bare(each))
        assert told(failed) == expected
        assert failed.failure.error_kind == name.split(".")[1]


@pytest.mark.parametrize("name", CARRIERS)
def test_a_carrier_is_a_real_class(name):
    assert real_classes(name)


@pytest.mark.parametrize(("name", "expected"), each_name(ERRNO_ROWS).items())
def test_errno_row(name, expected):
    assert told(of_exception(OSError(getattr(errno, name), "no"))) == expected


@pytest.mark.parametrize(("code", "expected"), [*SQLSTATE_ROWS.items(), *OTHER_SQLSTATES.items()])
def test_sqlstate_row(code, expected):
    whole = code.ljust(5, "0")
    answers = [
        psycopg.errors.lookup(whole)("no"),
        asyncpg.PostgresError.new({"C": whole, "S": "ERROR", "M": "no"}),
    ]
    assert [told(of_exception(answer)) for answer in answers] == [expected] * 2


@pytest.mark.parametrize(("name", "expected"), [*each_name(SQLITE_ROWS).items(), *OTHER_SQLITE_CODES.items()])
def test_sqlite_row(name, expected):
    code = getattr(apsw, f"SQLITE_{name}")
    by_sqlite3 = sqlite3.OperationalError("no")
    by_sqlite3.sqlite_errorcode = code
    assert told(of_exception(by_sqlite3)) == told(of_exception(apsw.exception_for(code))) == expected


def test_an_error_number_of_another_kind_is_none_of_the_systems():
    assert told(of_exception(ssl.SSLError(5, "an SSL error's number"))) == "transient maybe dependency_unavailable"
    assert told(of_exception(socket.gaierror(5, "a resolver's number"))) == "transient no dependency_unavailable"
    assert told(of_exception(foreign("apsw.Error", result="5"))) == UNCLASSIFIED
    assert told(of_exception(foreign("asyncpg.PostgresError", sqlstate=40001))) == UNCLASSIFIED


@pytest.mark.parametrize(("error", "expected"), REAL_EXCEPTIONS, ids=lambda value: type(value).__name__)
def test_real_exception(error, expected):
    failed = of_exception(error)
    assert told(failed) == expected
    assert failed.failure.error_kind == type(error).__name__
    assert failed.failure.message == str(error)


@pytest.mark.parametrize("family", ["httpx", "httpx2", "httpcore", "httpcore2"])
def test_one_set_of_rows_serves_the_whole_httpx_family(family):
    assert told(of_exception(foreign(f"{family}.ConnectError"))) == "transient no dependency_unavailable"


def test_a_class_of_the_same_name_elsewhere_says_nothing():
    assert told(of_exception(foreign("mine.ConnectError"))) == UNCLASSIFIED


def test_the_nearest_base_decides():
    connection = type(foreign("requests.ConnectionError", OSError))
    assert told(of_exception(foreign("requests.SSLError", connection))) == "transient maybe dependency_unavailable"
    assert told(of_exception(foreign("requests.ConnectTimeout", connection))) == "transient no timeout"


@pytest.mark.parametrize(("kind", "expected"), [*KIND_ROWS.items(), *OTHER_KINDS.items()])
def test_kind_raised_and_returned(kind, expected):
    raised, returned = of_exception(Kind(kind)), of_result({"error_kind": kind})
    assert told(raised) == told(returned) == expected
    assert returned is not None
    assert raised.failure.error_kind == returned.failure.error_kind == kind.strip()


@pytest.mark.parametrize("code", [code for code in CATALOGUE if code != "consent_required"])
def test_every_reason_code_is_a_kind(code):
    assert of_exception(Kind(code)).failure.reason_code == code


def test_only_the_queue_itself_asks_for_consent():
    """A handler that says so needs a person: no grant would release it."""
    assert of_exception(Kind("consent_required")).failure.reason_code == "user_action_required"


@pytest.mark.parametrize(("status", "expected"), STATUS_ROWS.items())
def test_status(status, expected):
    failed = of_http(status)
    assert told(failed) == expected
    assert failed is not None
    assert (failed.failure.error_kind, failed.failure.message) == (f"http_{status}", f"HTTP {status}")


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_2xx_is_success(status):
    assert of_http(status) is None


@pytest.mark.parametrize(("raised", "expected"), HANDLER_ROWS.items())
def test_a_handler_says_how_it_failed(raised, expected):
    failed = of_exception(raised("because"))
    assert told(failed) == expected
    assert (failed.failure.message, failed.failure.error_kind) == ("because", raised.__name__)
    assert failed.retry_after is None
