"""HTTP jobs: accepted if they may be sent, judged by their replies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from standfast.errors import PayloadRejected
from standfast.failure.classify import of_http
from standfast.failure.retry_after import requested_wait
from standfast.job import HTTP, NewJob
from standfast.outcome import Failed
from standfast.printable import printable
from standfast.rules import QueueRules, seconds
from standfast.spine.claimed_job import ClaimedJob
from standfast.spine.payload import canonical, parse
from standfast.spine.registry import Declaration, Handler
from standfast.typed.door import Door
from standfast.wings.http.destinations import Refused, destinations, known_addresses, refusal
from standfast.wings.http.sender import Sender
from standfast.wings.http.words import HttpRequest, Reply, host_of


class _Url(msgspec.Struct):
    url: str


_read_url = msgspec.json.Decoder(_Url).decode
LONGEST_QUOTE = 500
"""How many characters of a refusing reply the failure's message quotes."""


def built_in(door: Door, sender: Sender) -> Handler:
    """Return the handler that every queue has."""

    async def http(job: ClaimedJob) -> dict[str, Any] | Failed:
        """Send one request. Exceptions on the way are judged where those of every handler are."""
        return judge(await sender.send(job))

    declared = Declaration(queue="", name=HTTP)
    return Handler(http, declared, door, input=HttpRequest, soft=False, identity=lambda given: given.identity)


def request(
    method: str,
    url: str,
    *,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | str | None = None,
) -> dict[str, Any]:
    """Build the payload that a request is stored as; its handler's input checks it. A body of None is no body."""
    given = {
        "method": method.upper() if isinstance(method, str) else method,
        "url": url,
        "headers": dict(headers) if headers else None,
        "body": None if body is None else msgspec.json.decode(canonical(body)),
        "timeout": seconds(timeout),
    }
    return {name: value for name, value in given.items() if value is not None}


def check_key(job: NewJob) -> None:
    """Refuse a key that could not be sent as a header."""
    key = job.idempotency_key
    if job.handler == HTTP and key is not None and not (key.isascii() and key == key.strip()):
        raise PayloadRejected(
            f"idempotency_key={key!r} is sent as a header, which takes ASCII without spaces at its ends; "
            "encode it first; nothing was written"
        )


def leading_inside(jobs: Sequence[NewJob]) -> list[str]:
    """Return the URLs that plainly lead to addresses that are not public, so that their queue must name them."""
    urls = (_read_url(job.payload).url for job in jobs if job.handler == HTTP)
    return [url for url in urls if _refusal(url, ()) is not None]


def check_destinations(queue: str, urls: Iterable[str], rules: QueueRules) -> None:
    """Refuse a private address that the queue does not name. Names are looked up, and vetted, when connecting."""
    for url in urls:
        refused = _refusal(url, rules.destinations)
        if refused is not None:
            raise PayloadRejected(f"{refusal(queue, rules.destinations, refused)}; nothing was written")


def _refusal(url: str, entries: tuple[str, ...]) -> Refused | None:
    host = host_of(url)
    try:
        destinations(entries).vet(host, known_addresses(host))
    except Refused as refused:
        return refused
    return None


def judge(reply: Reply) -> dict[str, Any] | Failed:
    """Turn a reply into the job's result, or into its failure."""
    failed = of_http(reply.status or 0, requested_wait(lambda name: reply.headers.get(name.lower())))
    if failed is None:
        return stored_reply(reply)
    return replace(failed, failure=replace(failed.failure, message=_describe(reply)))


def stored_reply(reply: Reply) -> dict[str, Any]:
    """Return the part of a reply that is stored."""
    result = {"status": reply.status, "headers": reply.headers, "body": _body(reply)}
    return {**result, "_truncated": True} if reply.truncated else result


def _body(reply: Reply) -> Any:
    """Read the body: JSON if it says so and can be kept as such, else text; None if it is empty or compressed."""
    if not reply.body or reply.headers.get("content-encoding", "identity") != "identity":
        return None
    if "json" in reply.headers.get("content-type", "") and not reply.truncated:
        try:
            value = parse(reply.body)
            canonical(value)
        except PayloadRejected:
            return reply.text
        return value
    return reply.text


def _describe(reply: Reply) -> str:
    to = f" to {reply.headers['location']}" if "location" in reply.headers else ""
    words = printable(reply.text[:LONGEST_QUOTE]).strip()
    return f"HTTP {reply.status}{to}: {words}" if words else f"HTTP {reply.status}{to}"
