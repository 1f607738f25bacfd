"""What each piece of evidence says about a failure: tables of kinds, exception types, codes and HTTP statuses.

`landed: no` is a promise that nothing happened, so a row has it only if the library cannot have sent anything, or the
receiver said that it did nothing. In doubt it is `maybe`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from typing import NamedTuple

from standfast.concurrency.guarded import call_guarded
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
"""What a handler says by the class that it raises."""

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
OWN_KINDS: dict[str, Judgement] = {}
"""The kinds that the application declared. A process judges by what any of its queues declared."""

ERRNOS: dict[int, Judgement] = {
    # The system lacked what the call needed, before the call did anything.
    **dict.fromkeys((errno.EMFILE, errno.ENFILE, errno.EADDRINUSE, errno.EADDRNOTAVAIL), NOT_DONE),
    **dict.fromkeys((errno.EBUSY, errno.ETXTBSY, errno.EDEADLK, errno.ENOLCK), NOT_DONE),
    # A write may have been partly done, and an open connection can end in the same way as one that never opened.
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.ENOBUFS, errno.ESTALE), MAYBE_DONE),
    **dict.fromkeys((errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN), MAYBE_DONE),
    **dict.fromkeys((errno.ENOTCONN, errno.ENETRESET, errno.EAGAIN), MAYBE_DONE),
    **dict.fromkeys((errno.ENAMETOOLONG, errno.E2BIG, errno.ENOEXEC), REJECTED),
    errno.EROFS: DENIED,
}
"""What the operating system's error number says, if Python has no class for it. Missing files and permissions say
nothing: they may be there in a minute."""

SQLSTATES: dict[str, Judgement] = {
    "08": MAYBE_DONE,  # the connection was lost
    "08001": NOT_DONE,
    "08004": NOT_DONE,
    "08007": UNCERTAIN,
    "22": REJECTED,
    "23": REJECTED,
    "25006": NOT_DONE,  # read-only: not the primary any more, or not yet
    "25P03": NOT_REACHED_IN_TIME,
    "25P04": NOT_REACHED_IN_TIME,
    "28": DENIED,
    "3D": REJECTED,
    "3F": REJECTED,
    "40": NOT_DONE,  # rolled back: a deadlock, or another transaction was first
    "40002": REJECTED,
    "40003": UNCERTAIN,
    "42": REJECTED,
    "42501": DENIED,
    "53": NOT_DONE,
    "54": REJECTED,
    "55P03": NOT_DONE,
    "57014": NOT_REACHED_IN_TIME,
    "57P01": MAYBE_DONE,
    "57P02": MAYBE_DONE,
    "57P03": NOT_DONE,
    "57P05": MAYBE_DONE,
    "58": MAYBE_DONE,
}
"""What PostgreSQL's answer says: by the whole code, or else by its class, the first two characters."""

SQLITE_CODES: dict[int, Judgement] = {
    3: DENIED,  # PERM
    5: NOT_DONE,  # BUSY
    6: NOT_DONE,  # LOCKED
    7: OUT_OF_MEMORY,  # NOMEM
    8: DENIED,  # READONLY
    9: NOT_DONE,  # INTERRUPT
    10: MAYBE_DONE,  # IOERR
    13: NOT_DONE,  # FULL: the statement is undone
    14: NOT_DONE,  # FULL: the statement is undone
    15: NOT_DONE,  # PROTOCOL
    17: NOT_DONE,  # SCHEMA
    18: REJECTED,  # TOOBIG
    19: REJECTED,  # CONSTRAINT
    20: REJECTED,  # MISMATCH
    23: DENIED,  # AUTH
    25: REJECTED,  # RANGE
}
"""What SQLite's primary result code says."""


def by_errno(error: BaseException) -> Judgement | None:
    """Judge an error of the operating system."""
    return _look_up(ERRNOS, attribute(error, "errno"))


def by_sqlstate(error: BaseException) -> Judgement | None:
    """Judge an answer of PostgreSQL."""
    state = attribute(error, "sqlstate")
    return (SQLSTATES.get(state) or SQLSTATES.get(state[:2])) if isinstance(state, str) else None


def by_psycopg(error: BaseException) -> Judgement | None:
    """Judge an error of psycopg: without an answer, it never connected or it lost the connection."""
    never_connected = attribute(error, "pgconn") is not None
    return by_sqlstate(error) or (NOT_DONE if never_connected else MAYBE_DONE)


def by_sqlite_code(error: BaseException) -> Judgement | None:
    """Judge an answer of SQLite; sqlite3 keeps the extended code, apsw the primary one."""
    code = attribute(error, "sqlite_errorcode") or attribute(error, "result")
    return SQLITE_CODES.get(code & 0xFF) if isinstance(code, int) else None


Rule = Judgement | Callable[[BaseException], Judgement | None]
TYPES: dict[str, Rule] = {
    "builtins.ConnectionRefusedError": NOT_DONE,
    "builtins.ConnectionError": MAYBE_DONE,
    "builtins.TimeoutError": NO_ANSWER_IN_TIME,
    "builtins.MemoryError": OUT_OF_MEMORY,
    "builtins.OSError": by_errno,
    "socket.gaierror": NOT_DONE,
    "socket.herror": NOT_DONE,
    "ssl.SSLCertVerificationError": NOT_DONE,
    "ssl.SSLError": MAYBE_DONE,
    "asyncio.IncompleteReadError": MAYBE_DONE,
    "concurrent.BrokenExecutor": MAYBE_DONE,
    "multiprocessing.TimeoutError": NO_ANSWER_IN_TIME,
    "subprocess.TimeoutExpired": NO_ANSWER_IN_TIME,
    "subprocess.CalledProcessError": UNCLASSIFIED,
    "msgspec.ValidationError": UNREADABLE_REPLY,
    "msgspec.DecodeError": UNREADABLE_REPLY,
    "pydantic_core.ValidationError": UNREADABLE_REPLY,
    "json.JSONDecodeError": UNREADABLE_REPLY,
    "http.InvalidURL": REJECTED,
    "http.HTTPException": MAYBE_DONE,
    "standfast.ConnectTimeout": NOT_REACHED_IN_TIME,
    "standfast.ConnectError": NOT_DONE,
    "standfast.WireError": MAYBE_DONE,
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
    "requests.ConnectionError": MAYBE_DONE,
    "requests.RetryError": MAYBE_DONE,
    "requests.ChunkedEncodingError": MAYBE_DONE,
    "requests.ContentDecodingError": MAYBE_DONE,
    "requests.JSONDecodeError": UNREADABLE_REPLY,
    "requests.InvalidJSONError": REJECTED,
    "requests.TooManyRedirects": REDIRECTED,
    "requests.URLRequired": REJECTED,
    "requests.MissingSchema": REJECTED,
    "requests.InvalidSchema": REJECTED,
    "requests.InvalidURL": REJECTED,
    "requests.InvalidHeader": REJECTED,
    "urllib3.NewConnectionError": NOT_DONE,
    "urllib3.ConnectTimeoutError": NOT_REACHED_IN_TIME,
    "urllib3.EmptyPoolError": NOT_REACHED_IN_TIME,
    "urllib3.ClosedPoolError": NOT_DONE,
    "urllib3.TimeoutError": NO_ANSWER_IN_TIME,
    "urllib3.MaxRetryError": MAYBE_DONE,
    "urllib3.ProtocolError": MAYBE_DONE,
    "urllib3.SSLError": MAYBE_DONE,
    "urllib3.DecodeError": MAYBE_DONE,
    "urllib3.ResponseError": MAYBE_DONE,
    "urllib3.LocationValueError": REJECTED,
    "aiohttp.ClientConnectorError": NOT_DONE,
    "aiohttp.ConnectionTimeoutError": NOT_REACHED_IN_TIME,
    "aiohttp.ServerTimeoutError": NO_ANSWER_IN_TIME,
    "aiohttp.ClientConnectionError": MAYBE_DONE,
    "aiohttp.ClientPayloadError": MAYBE_DONE,
    "aiohttp.HttpProcessingError": MAYBE_DONE,
    "aiohttp.ContentTypeError": UNREADABLE_REPLY,
    "aiohttp.TooManyRedirects": REDIRECTED,
    "aiohttp.InvalidUrlRedirectClientError": REDIRECTED,
    "aiohttp.NonHttpUrlRedirectClientError": REDIRECTED,
    "aiohttp.NonHttpUrlClientError": REJECTED,
    "aiohttp.InvalidURL": REJECTED,
    "psycopg.ConnectionTimeout": NOT_REACHED_IN_TIME,
    "psycopg.OperationalError": by_psycopg,
    "psycopg.DataError": REJECTED,
    "psycopg.DatabaseError": by_sqlstate,
    "psycopg_pool.PoolTimeout": NOT_REACHED_IN_TIME,
    "psycopg_pool.PoolClosed": NOT_DONE,
    "psycopg_pool.TooManyRequests": NOT_DONE,
    "asyncpg.PostgresError": by_sqlstate,
    "sqlite3.Error": by_sqlite_code,
    "apsw.Error": by_sqlite_code,
}
"""What an exception says by its type: `family.Class`, looked up along its base classes, nearest first.

These are names, so that no library is imported to be recognised. Subclasses without a row follow their base. If one
class can mean several things, its row is a function that looks at the code in the exception."""

CARRIERS = {
    "requests.ConnectionError": "args",
    "urllib3.MaxRetryError": "reason",
    "urllib3.SSLError": "args",
    "urllib.URLError": "reason",
}
"""Where an exception keeps the exception that it stands for, which is judged in its place.

A client that was told to repeat by itself may have sent the request before it was refused. But that setting says that
the request may be repeated: its last error counts, or a refused connection would never count as one."""
DEEPEST_CARRIED = 4

FAMILIES = {"httpx2": "httpx", "httpcore": "httpx", "httpcore2": "httpx"}
"""Packages whose exceptions have the same names as another package's."""

STATUS_ATTRIBUTES = {
    "aiohttp.ClientResponseError": "status",
    "google.APIError": "code",
    "stripe.StripeError": "http_status",
    "urllib.HTTPError": "code",
}
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
"""What the first digit of a status without a row says; any other digit is not a final answer."""


SERVICE_CODES: dict[str, Judgement] = {
    **dict.fromkeys(("Throttling", "ThrottlingException", "ThrottledException", "EC2ThrottledException"), RATE_LIMITED),
    **dict.fromkeys(("RequestThrottled", "RequestThrottledException", "TooManyRequestsException"), RATE_LIMITED),
    **dict.fromkeys(("SlowDown", "RequestLimitExceeded", "BandwidthLimitExceeded"), RATE_LIMITED),
    "ProvisionedThroughputExceededException": RATE_LIMITED,
    "PriorRequestNotComplete": NOT_DONE,
    **dict.fromkeys(("RequestTimeout", "RequestTimeoutException"), NO_ANSWER_IN_TIME),
}
"""What AWS says by a code, mostly with status 400, read in the same way as by botocore's own retries."""


def type_names(error: BaseException) -> list[str]:
    """Return the names of an exception's type and its bases as in the tables, nearest first."""
    return [f"{_family(base)}.{base.__name__}" for base in type(error).__mro__]


def judge_type(error: BaseException) -> Judgement | None:
    """Look up the type, or its nearest known base: first of the exception it carries, then its own."""
    carried = [error]
    while len(carried) < DEEPEST_CARRIED and (inner := _carried(carried[-1])) is not None:
        carried.append(inner)
    return next((found for each in reversed(carried) if (found := _judge_own_type(each))), None)


def _judge_own_type(error: BaseException) -> Judgement | None:
    rules = (TYPES[name] for name in type_names(error) if name in TYPES)
    judged = (rule if isinstance(rule, Judgement) else rule(error) for rule in rules)
    return next((found for found in judged if found is not None), None)


def _carried(error: BaseException) -> BaseException | None:
    where = next((CARRIERS[name] for name in type_names(error) if name in CARRIERS), "")
    held = attribute(error, where)
    inside = held if isinstance(held, tuple) else (held,)
    return next((each for each in inside if isinstance(each, BaseException)), None)


def attribute(owner: object, name: str) -> object:
    """Read an attribute of a foreign object, whose properties may raise; return None if there is none."""
    return call_guarded(lambda: getattr(owner, name, None), lambda _error: None)


def judge_status(status: int) -> Judgement:
    """Look up the status of a reply that was not a success."""
    return STATUSES.get(status) or STATUS_RANGES.get(status // 100, MAYBE_DONE)


def judge_service(error: BaseException) -> Judgement | None:
    """Look up the code that botocore keeps of a reply."""
    if "botocore.ClientError" not in type_names(error):
        return None
    response = attribute(error, "response")
    details = response.get("Error") if isinstance(response, dict) else None
    return SERVICE_CODES.get(str(details.get("Code"))) if isinstance(details, dict) else None


def is_rate_limit(error: BaseException) -> bool:
    """Return whether an exception's kind or code says that it came too often."""
    words = (attribute(error, "error_kind"), attribute(error, "reason_code"))
    found = [judge_kind(word) for word in words if isinstance(word, str)]
    return any(each is not None and each.reason_code == "rate_limited" for each in (*found, judge_service(error)))


def judge_kind(kind: str) -> Judgement | None:
    """Look up a kind: in the tables, in the catalogue, or by its ending (`obsidian_refused`); None says nothing."""
    name = kind_name(kind)
    return known_kind(name) or OWN_KINDS.get(name) or _judge_ending(name)


def kind_name(kind: str) -> str:
    """Return the standard spelling of a kind: `Vault-Locked` and `vault_locked` are the same."""
    return re.sub(r"[^a-z0-9]+", "_", kind.lower()).strip("_")


def known_kind(name: str) -> Judgement | None:
    """Look up a kind that standfast itself knows by its whole name."""
    return KINDS.get(name) or _judge_reason(name)


def _judge_reason(code: str) -> Judgement | None:
    if code not in CATALOGUE:
        return None
    cls = CATALOGUE[code].cls
    return Judgement(cls, Landed.NO if cls is Class.PERMANENT else Landed.MAYBE, code)


def _judge_ending(name: str) -> Judgement | None:
    words = name.split("_")
    endings = ("_".join(words[start:]) for start in range(1, len(words)))
    found = next((KINDS[ending] for ending in endings if ending in KINDS), None)
    # The words before can change what happened (`reply_unavailable`), but hardly whether repeating helps.
    return found and found._replace(landed=Landed.MAYBE)


def _family(base: type) -> str:
    package = str(base.__module__).partition(".")[0]
    return FAMILIES.get(package, package)


def _look_up(table: dict[int, Judgement], code: object) -> Judgement | None:
    return table.get(code) if isinstance(code, int) else None
