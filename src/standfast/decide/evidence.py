"""What each piece of evidence says about a failure: tables of kinds, exception types and HTTP statuses.

`landed: no` is a promise that nothing happened, so a row gives it only where the library cannot have sent anything
or the receiver said it did nothing. In doubt it is `maybe`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from standfast.errors import HandlerFailure, Permanent, Transient, Uncertain
from standfast.failure import CATALOGUE, Class, Landed


class Judgement(NamedTuple):
    """What one piece of evidence says."""

    cls: Class
    landed: Landed
    reason_code: str


NOT_DONE = Judgement(Class.TRANSIENT, Landed.NO, "dependency_unavailable")
MAYBE_DONE = Judgement(Class.TRANSIENT, Landed.MAYBE, "dependency_unavailable")
NOT_REACHED_IN_TIME = Judgement(Class.TRANSIENT, Landed.NO, "timeout")
NO_ANSWER_IN_TIME = Judgement(Class.TRANSIENT, Landed.MAYBE, "timeout")
RATE_LIMITED = Judgement(Class.TRANSIENT, Landed.NO, "rate_limited")
UNCERTAIN = Judgement(Class.TRANSIENT, Landed.MAYBE, "unknown_commit_state")
UNVERIFIED = Judgement(Class.TRANSIENT, Landed.MAYBE, "unverified")
OUT_OF_MEMORY = Judgement(Class.TRANSIENT, Landed.MAYBE, "unclassified_error")
REFUSED_BY_HANDLER = Judgement(Class.PERMANENT, Landed.NO, "handler_refused")
REJECTED = Judgement(Class.PERMANENT, Landed.NO, "request_rejected")
REDIRECTED = Judgement(Class.PERMANENT, Landed.MAYBE, "redirected")
DENIED = Judgement(Class.PERMANENT, Landed.NO, "denied")
PERSON_NEEDED = Judgement(Class.PERMANENT, Landed.NO, "user_action_required")
MISFIT = Judgement(Class.PERMANENT, Landed.NO, "schema_invalid")
UNREADABLE_REPLY = Judgement(Class.PERMANENT, Landed.MAYBE, "parse_error")
FORGOTTEN = Judgement(Class.PERMANENT, Landed.MAYBE, "forgotten_await")
UNCLASSIFIED = Judgement(Class.UNKNOWN, Landed.MAYBE, "unclassified_error")

HANDLERS: dict[type[HandlerFailure], Judgement] = {
    Transient: NOT_DONE,
    Permanent: REFUSED_BY_HANDLER,
    Uncertain: UNCERTAIN,
}
"""What a handler says by what it raises."""

KINDS: dict[str, Judgement] = {
    "timeout": NO_ANSWER_IN_TIME,
    "timed_out": NO_ANSWER_IN_TIME,
    "deadline_exceeded": NO_ANSWER_IN_TIME,
    "uncertain": UNCERTAIN,
    "post_write_uncertain": UNCERTAIN,
    "unknown_commit_state": UNCERTAIN,
    "unverified": UNVERIFIED,
    "unavailable": NOT_DONE,
    "dependency_unavailable": NOT_DONE,
    "connection_refused": NOT_DONE,
    "connection_reset": MAYBE_DONE,
    "connection_lost": MAYBE_DONE,
    "rate_limited": RATE_LIMITED,
    "throttled": RATE_LIMITED,
    "too_many_requests": RATE_LIMITED,
    "refused": DENIED,
    "denied": DENIED,
    "forbidden": DENIED,
    "permission_denied": DENIED,
    "unauthorized": DENIED,
    "user_action_required": PERSON_NEEDED,
    "consent_required": PERSON_NEEDED,
    "auth_required": PERSON_NEEDED,
    "login_required": PERSON_NEEDED,
    "schema_invalid": MISFIT,
    "validation_error": MISFIT,
}
"""What a handler or tool says by `error_kind`, raised or returned. Every reason code of the catalogue is a kind too."""

TYPES: dict[str, Judgement] = {
    "builtins.ConnectionRefusedError": NOT_DONE,
    "builtins.ConnectionError": MAYBE_DONE,
    "builtins.TimeoutError": NO_ANSWER_IN_TIME,
    "builtins.MemoryError": OUT_OF_MEMORY,
    "socket.gaierror": NOT_DONE,
    "ssl.SSLCertVerificationError": NOT_DONE,
    "ssl.SSLError": MAYBE_DONE,
    "asyncio.IncompleteReadError": MAYBE_DONE,
    "msgspec.ValidationError": UNREADABLE_REPLY,
    "msgspec.DecodeError": UNREADABLE_REPLY,
    "pydantic_core.ValidationError": UNREADABLE_REPLY,
    "json.JSONDecodeError": UNREADABLE_REPLY,
    "http.InvalidURL": REJECTED,
    "http.HTTPException": MAYBE_DONE,
    "httpx.ConnectError": NOT_DONE,
    "httpx.ConnectTimeout": NOT_REACHED_IN_TIME,
    "httpx.PoolTimeout": NOT_REACHED_IN_TIME,
    "httpx.TimeoutException": NO_ANSWER_IN_TIME,
    "httpx.NetworkError": MAYBE_DONE,
    "httpx.ProtocolError": MAYBE_DONE,
    "httpx.ProxyError": MAYBE_DONE,
    "httpx.DecodingError": MAYBE_DONE,
    "httpx.TooManyRedirects": REDIRECTED,
    "httpx.UnsupportedProtocol": REJECTED,
    "httpx.InvalidURL": REJECTED,
    "requests.ConnectTimeout": NOT_REACHED_IN_TIME,
    "requests.Timeout": NO_ANSWER_IN_TIME,
    # Its cause may be a refused connection, yet an adapter with retries may have sent the request before that.
    "requests.ConnectionError": MAYBE_DONE,
    "requests.RetryError": MAYBE_DONE,
    "requests.ChunkedEncodingError": MAYBE_DONE,
    "requests.ContentDecodingError": MAYBE_DONE,
    "requests.JSONDecodeError": UNREADABLE_REPLY,
    "requests.TooManyRedirects": REDIRECTED,
    "requests.URLRequired": REJECTED,
    "requests.MissingSchema": REJECTED,
    "requests.InvalidSchema": REJECTED,
    "requests.InvalidURL": REJECTED,
    "requests.InvalidHeader": REJECTED,
    "urllib3.NewConnectionError": NOT_DONE,
    "urllib3.ConnectTimeoutError": NOT_REACHED_IN_TIME,
    "urllib3.TimeoutError": NO_ANSWER_IN_TIME,
    "urllib3.MaxRetryError": MAYBE_DONE,
    "urllib3.ProtocolError": MAYBE_DONE,
    "urllib3.LocationValueError": REJECTED,
    "aiohttp.ClientConnectorError": NOT_DONE,
    "aiohttp.ConnectionTimeoutError": NOT_REACHED_IN_TIME,
    "aiohttp.ServerTimeoutError": NO_ANSWER_IN_TIME,
    "aiohttp.ClientConnectionError": MAYBE_DONE,
    "aiohttp.ClientPayloadError": MAYBE_DONE,
    "aiohttp.ContentTypeError": UNREADABLE_REPLY,
    "aiohttp.InvalidURL": REJECTED,
}
"""What an exception says by its type: `family.Class`, found along its base classes, nearest first.

Names, so that no library is imported to be recognised. Subclasses without a row of their own follow their base."""

FAMILIES = {"httpx2": "httpx", "httpcore": "httpx", "httpcore2": "httpx"}
"""Packages whose exceptions bear the names of another's."""

STATUS_ATTRIBUTES = {"aiohttp.ClientResponseError": "status", "urllib.HTTPError": "code"}
"""Where libraries keep the reply's status, if not in `status_code`."""

STATUSES: dict[int, Judgement] = {
    401: DENIED,
    403: DENIED,
    408: NOT_REACHED_IN_TIME,
    425: NOT_DONE,
    429: RATE_LIMITED,
    503: NOT_DONE,
}
STATUS_RANGES: dict[int, Judgement] = {3: REDIRECTED, 4: REJECTED, 5: MAYBE_DONE}
"""What the first digit says of a status without a row; any other digit is no final answer."""


def type_names(error: BaseException) -> list[str]:
    """Name an exception's type and its bases as the tables do, nearest first."""
    return [f"{_family(base)}.{base.__name__}" for base in type(error).__mro__]


def judge_type(error: BaseException) -> Judgement | None:
    """Look the type up, or else its nearest known base."""
    return next((TYPES[name] for name in type_names(error) if name in TYPES), None)


def judge_status(status: int) -> Judgement:
    """Look the status of a reply up that was no success."""
    return STATUSES.get(status) or STATUS_RANGES.get(status // 100, MAYBE_DONE)


def judge_kind(kind: str) -> Judgement | None:
    """Look a kind up: in its table, in the catalogue, or by its ending (`obsidian_refused`)."""
    name = re.sub(r"[^a-z0-9]+", "_", kind.lower()).strip("_")
    return KINDS.get(name) or _judge_reason(name) or _judge_ending(name)


def _judge_reason(code: str) -> Judgement | None:
    if code not in CATALOGUE:
        return None
    cls = CATALOGUE[code].cls
    return Judgement(cls, Landed.NO if cls is Class.PERMANENT else Landed.MAYBE, code)


def _judge_ending(name: str) -> Judgement | None:
    words = name.split("_")
    endings = ("_".join(words[start:]) for start in range(1, len(words)))
    found = next((KINDS[ending] for ending in endings if ending in KINDS), None)
    # The words before can change what happened (`reply_unavailable`), hardly whether repeating helps.
    return found and found._replace(landed=Landed.MAYBE)


def _family(base: type) -> str:
    package = str(base.__module__).partition(".")[0]
    return FAMILIES.get(package, package)
