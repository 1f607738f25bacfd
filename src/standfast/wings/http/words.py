"""HTTP jobs as values: the request as it is stored, and the reply as far as it is read.

Every check of a request is here, so that no door accepts one that could not be sent.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from standfast.job import IDEMPOTENT
from standfast.printable import printable
from standfast.wings.http.destinations import literal, plain_name

METHODS = IDEMPOTENT | {"PATCH", "POST"}
LONGEST_URL = 8192
LONGEST_HOST = 253
MOST_HEADERS = 64
LARGEST_HEADERS = 16 * 1024
"""The most characters in all headers together."""
LONGEST_TIMEOUT = 86400.0
USUAL_PORTS = {"http": 80, "https": 443}

NOT_THE_CALLERS = {
    "idempotency-key": "pass idempotency_key=, which is sent as this header",
    "x-standfast-fence": "standfast writes it",
    "x-standfast-attempt": "standfast writes it",
    "host": "it comes from the url",
    "content-length": "it comes from the body",
    "accept-encoding": "replies are kept as they come, uncompressed",
    **dict.fromkeys(
        (
            "connection",
            "expect",
            "keep-alive",
            "proxy-authenticate",
            "proxy-authorization",
            "proxy-connection",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ),
        "it concerns the connection, not the request",
    ),
}
"""Headers that a caller may not give, and why."""

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.IGNORECASE)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")


class HttpRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request. The body keeps the exact text that was stored: what is sent is what was hashed."""

    method: str
    url: str
    headers: dict[str, str] = {}
    body: msgspec.Raw = msgspec.Raw()
    timeout: float | None = None

    def __post_init__(self) -> None:
        """Refuse a request that could not be sent, saying what to change."""
        if self.method not in METHODS:
            raise ValueError(f"method {self.method!r} is unknown; known are {', '.join(sorted(METHODS))}")
        _check_url(self.url)
        _check_headers(self.headers)
        if self.timeout is not None and not 0 < self.timeout <= LONGEST_TIMEOUT:
            raise ValueError(f"timeout must be more than 0 and at most {LONGEST_TIMEOUT:g} seconds")

    @property
    def content_type(self) -> str | None:
        """The content type the caller named."""
        return next((value for name, value in self.headers.items() if name.lower() == "content-type"), None)

    @property
    def content(self) -> bytes | None:
        """The body as it is sent: text as it stands if the caller named its type, everything else as JSON."""
        raw = bytes(self.body)
        if raw in {b"", b"null"}:
            return None
        if raw.startswith(b'"') and self.content_type is not None:
            return msgspec.json.decode(raw, type=str).encode()
        return raw

    @property
    def identity(self) -> str:
        """What a second request with the same key must match: method, url and body."""
        return msgspec.json.encode([self.method, self.url, msgspec.Raw(bytes(self.body) or b"null")]).decode()


class Route(NamedTuple):
    """Whose request it is, where it may lead, and whether it may use a connection that was used before.

    A receiver that closes an idle connection at that moment looks like one that got the request and vanished.
    """

    queue: str
    destinations: tuple[str, ...]
    reuse: bool


class Reply:
    """A reply, filled as it arrives: what is here stays true, whatever happens to the rest."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.truncated = False

    @property
    def refuses(self) -> bool:
        """Whether it already says that this was no success: the rest of it is then only text."""
        return self.status is not None and self.status // 100 != 2  # noqa: PLR2004 - 2xx is success

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8, and NUL, which no store takes, become U+FFFD."""
        return self.body.decode(errors="replace").replace("\0", "\ufffd")


def host_of(url: str) -> str:
    """Return the host that a URL names; empty if it names none that can be read."""
    try:
        return urlsplit(str(url)).hostname or ""
    except ValueError:
        return ""


def origin_of(url: object) -> tuple[str, str, int | None] | None:
    """Return the receiver of a URL: scheme, host and port. None if it cannot be read."""
    try:
        parts = urlsplit(str(url))
        return parts.scheme, plain_name(parts.hostname or ""), parts.port or USUAL_PORTS.get(parts.scheme)
    except ValueError:
        return None


def _check_url(url: str) -> None:
    if len(url) > LONGEST_URL:
        raise ValueError(f"the url has {len(url)} characters where {LONGEST_URL} are allowed; send data in the body")
    if not url.isprintable() or " " in url:
        raise ValueError("the url holds a space or a control character; percent-encode it")
    parts = urlsplit(url)
    if parts.netloc.startswith("[") and ":" not in (parts.hostname or ""):  # older versions of Python accept it
        raise ValueError("square brackets are for IPv6 addresses; write the host without them")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{printable(url)!r} is not an absolute url; write http:// or https://, then a host")
    if "@" in parts.netloc:
        raise ValueError("the url holds a user or password; send an Authorization header instead")
    if parts.port == 0:  # an impossible port is a ValueError of its own
        raise ValueError("port 0 cannot be called; write the receiver's port")
    _check_host(parts.hostname)


def _check_host(host: str) -> None:
    address = literal(host)
    if isinstance(address, IPv4Address) and ":" not in host and host != str(address):
        raise ValueError(f"host {host!r} is {address} in disguise; write that")
    if address is None and (len(host) > LONGEST_HOST or not _HOST.fullmatch(host)):
        raise ValueError(f"host {printable(host)!r} is not a host name; write it in ASCII (xn--… for others)")


def _check_headers(headers: dict[str, str]) -> None:
    if len(headers) > MOST_HEADERS or sum(map(len, (*headers, *headers.values()))) > LARGEST_HEADERS:
        raise ValueError(
            f"{len(headers)} headers are too many or too large; "
            f"allowed are {MOST_HEADERS}, with {LARGEST_HEADERS} characters together"
        )
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("a header is named twice; header names ignore case")
    for name, value in headers.items():
        _check_header(name, value)


def _check_header(name: str, value: str) -> None:
    shown = printable(name)
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"header {shown!r} has a name with characters that no header's name may hold")
    why_not = NOT_THE_CALLERS.get(name.lower())
    if why_not is not None:
        raise ValueError(f"header {shown!r} cannot be given: {why_not}")
    if not _VALUE.fullmatch(value):
        raise ValueError(
            f"header {shown!r} holds a control character, a space at an end, or what is not ASCII; encode its value"
        )
