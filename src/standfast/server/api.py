"""One request under /api/v1: read it, check who asks and whether they may, perform it, answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from standfast.application import Standfast
from standfast.doors.filters import with_paths
from standfast.errors import PayloadRejected, StandfastError
from standfast.printable import printable
from standfast.server.auth import Gatekeeper, check_right
from standfast.server.problems import Problem, misfit, of_error
from standfast.server.request_headers import header
from standfast.server.route import Answer, Call, Nothing, Route, perform
from standfast.spine.payload import parse

LARGEST_BODY = 1 << 20
"""The largest request body that is read, in bytes; a payload's limit may be lower."""
LARGEST_BULK = 32 << 20
"""The largest bulk request, in bytes; each of its lines may be as long as a request for one job."""
NO_CONTENT = 204
GONE = 400
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
ANSWERED = {"Cache-Control": "no-store"}
_TOLD = ((b"cache-control", b"no-store"), (b"content-type", b"application/json"))
_NOTHING = Nothing()


class PlainResponse(Response):
    """An answer, built without Starlette's work for other kinds of response: most requests are small ones."""

    def __init__(self, answer: Answer) -> None:
        self.status_code = answer.status
        self.background = None
        self.body = b"" if answer.status == NO_CONTENT else msgspec.json.encode(answer.value)
        self.raw_headers = [*_TOLD]
        if answer.status != NO_CONTENT:
            self.raw_headers.append((b"content-length", b"%d" % len(self.body)))
        for name, value in (answer.headers or {}).items():
            self.raw_headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))


def endpoint(sf: Standfast, gate: Gatekeeper, route: Route) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that serves a route."""

    async def serve(request: Request) -> Response:
        try:
            return await _served(sf, gate, route, request)
        except Problem as problem:
            return problem.response()
        except StandfastError as error:
            return of_error(error).response()
        except ClientDisconnect:
            return Response(status_code=GONE)  # the client is gone

    return serve


async def _served(sf: Standfast, gate: Gatekeeper, route: Route, request: Request) -> Response:
    if route.body is not None or route.lines is not None:
        _check_kind(request)
    grant = await gate.grant(request)
    check_right(grant, route.right, route.also)
    query = _no_query(route)
    if request.scope["query_string"]:
        query = read_query(request.query_params.multi_items(), route.query)
    body = await _read_body(request, route)
    call = Call(sf, grant, checked_path(request), query, body, request)
    answer = await perform(route, call)
    return answer.whole or PlainResponse(answer)


async def _read_body(request: Request, route: Route) -> Any:
    """Read the body that a route takes. Lines are returned unparsed: a bad line must not keep the others out."""
    if route.lines is not None:
        return await whole_body(request, LARGEST_BULK)
    return None if route.body is None else fitted(await whole_body(request), route.body)


def _check_kind(request: Request) -> None:
    """Refuse a browser's form: its content is for pages, and not JSON. With a token, any type is fine."""
    if header(request, b"authorization") is None and (header(request, b"content-type") or "").startswith(FORMS):
        raise Problem(415, "not-json", "the body is a form", "Send JSON, with Content-Type: application/json.")


def _no_query(route: Route) -> Any:
    return _NOTHING if route.query is Nothing else route.query()


def read_query(given: Sequence[tuple[str, str]], shape: type[msgspec.Struct]) -> Any:
    """Read a query as a struct; pages use this for their filters, too."""
    named = dict(given)
    if len(named) < len(given):
        twice = next(name for name in named if [each for each, _ in given].count(name) > 1)
        detail = f"the query gives a name twice: {printable(twice)[:50]}"
        raise Problem(422, "invalid-request", detail, "Give each name once.")
    for name, value in given:
        _check_text(f"the query's {printable(name)[:50]}", value)
    try:
        return msgspec.convert(with_paths(named, shape), shape, strict=False)
    except msgspec.ValidationError as error:
        raise misfit(error, "query") from error


def checked_path(request: Request) -> dict[str, str]:
    """Return the parameters of a path, all checked to be printable text."""
    for name, value in request.path_params.items():
        _check_text(name, value)
    return request.path_params


def _check_text(what: str, value: str) -> None:
    if not value.isprintable():
        raise Problem(
            422, "invalid-request", f"{what} contains characters that are not printable", "Send printable text."
        )


async def whole_body(request: Request, largest: int = LARGEST_BODY) -> bytes:
    """Read a body, and stop when it is too large: nothing is parsed before its size is known."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > largest:
            raise too_large(largest)
        more = message.get("more_body", False)
    return b"".join(parts)


def too_large(largest: int = LARGEST_BODY) -> Problem:
    """Report a body that is too large to read."""
    hint = "Send fewer lines at a time." if largest == LARGEST_BULK else "Store the data elsewhere; send its address."
    return Problem(413, "body-too-large", f"a request has at most {largest} bytes", hint)


def fitted(raw: bytes, shape: type[msgspec.Struct], what: str = "body") -> Any:
    """Read a body through the one payload parser, as a struct; an empty body is an empty struct."""
    try:
        found = parse(raw, f"the {what}") if raw.strip() else {}
        return msgspec.convert(found, shape)
    except PayloadRejected as error:
        hint = "Send JSON; nothing was written."
        raise Problem(400, "not-json", str(error), hint) from error
    except msgspec.ValidationError as error:
        raise misfit(error, what) from error
    except UnicodeDecodeError as error:
        raise Problem(400, "not-json", f"the {what} is not UTF-8: {error.reason}", "Send JSON in UTF-8.") from error
