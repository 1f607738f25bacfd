"""Forms of ours: read, and known to come from a page that this browser was given."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from standfast.errors import PayloadRejected
from standfast.queue.payload import parse
from standfast.server.api import whole_body
from standfast.server.auth import COOKIE, CSRF_FIELD, csrf_of
from standfast.server.problems import Problem, misfit

MOST_FIELDS = 100
AS_JSON = frozenset({"payload", "result"})
AS_LIST = frozenset({"groups", "queues"})


async def read(request: Request) -> dict[str, str]:
    """Read the fields of a form."""
    raw = await whole_body(request)
    try:
        return dict(parse_qsl(raw.decode("ascii"), max_num_fields=MOST_FIELDS, errors="strict"))
    except ValueError as error:
        raise Problem(400, "not-a-form", "the form cannot be read", "Load the page again and repeat.") from error


def is_ours(request: Request, fields: Mapping[str, str]) -> bool:
    """Tell whether a form comes from a page that was given to this very browser."""
    given = fields.get(CSRF_FIELD, "").encode()
    return bool(request.cookies.get(COOKIE)) and hmac.compare_digest(given, csrf_of(request).encode())


def check_ours(request: Request, fields: Mapping[str, str]) -> None:
    """Refuse a form that somebody else made."""
    if not is_ours(request, fields):
        hint = "Load the page again and repeat; nothing was changed."
        raise Problem(403, "csrf", "the form does not come from a page of ours", hint)


def body(fields: Mapping[str, str], shape: type[msgspec.Struct]) -> Any:
    """Read a form as the API's body of the same verb; an empty field was not given."""
    known = {field.encode_name for field in msgspec.structs.fields(shape)}
    given = {name: _value(name, text) for name, text in fields.items() if name in known and text.strip()}
    if "filter" in known:
        given["filter"] = {name[7:]: text for name, text in fields.items() if name.startswith("filter.") and text}
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as error:
        raise misfit(error, "form") from error


def _value(name: str, text: str) -> Any:
    if name in AS_LIST:
        return [each.strip() for each in text.split(",") if each.strip()]
    if name not in AS_JSON:
        return text.strip()
    try:
        return parse(text.encode(), f"the {name}")
    except PayloadRejected as error:
        raise Problem(422, "payload-rejected", str(error), "Write JSON; nothing was changed.") from error
