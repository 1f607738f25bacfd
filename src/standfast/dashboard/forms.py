"""Forms of ours: read, each as the body of the API's verb behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from standfast.errors import PayloadRejected
from standfast.server.api import LARGEST_BODY, whole_body
from standfast.server.auth import CSRF_FIELD, check_ours
from standfast.server.problems import Problem, misfit
from standfast.spine.payload import parse

MOST_FIELDS = 100
AS_JSON = frozenset({"payload", "result"})
AS_LIST = frozenset({"groups", "queues"})
LONG = AS_JSON | {"text"}
"""What is written on many lines."""


class Entry(NamedTuple):
    """A field of a form that is shown again, with what was typed."""

    name: str
    text: str
    required: bool
    long: bool


async def read(request: Request, largest: int = LARGEST_BODY) -> dict[str, str]:
    """Read the fields of a form."""
    try:
        raw = await whole_body(request, largest)
        return dict(parse_qsl(raw.decode("ascii"), max_num_fields=MOST_FIELDS, errors="strict"))
    except ClientDisconnect as error:
        raise Problem(400, "gone", "the form was not sent whole", "Load the page again and repeat.") from error
    except ValueError as error:
        raise Problem(400, "not-a-form", "the form cannot be read", "Load the page again and repeat.") from error


async def read_ours(request: Request) -> dict[str, str]:
    """Read the fields of a form; refuse one that another site made."""
    fields = await read(request)
    check_ours(request, fields.get(CSRF_FIELD, ""))
    return fields


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


def entries(shape: type[msgspec.Struct], fields: Mapping[str, str]) -> list[Entry]:
    """Give the fields of a form as they were filled in."""
    known = {each.encode_name: each.required for each in msgspec.structs.fields(shape) if each.encode_name != "filter"}
    return [Entry(name, fields.get(name, ""), needed, name in LONG) for name, needed in known.items()]


def _value(name: str, text: str) -> Any:
    if name in AS_LIST:
        return [each.strip() for each in text.split(",") if each.strip()]
    if name not in AS_JSON:
        return text.strip()
    try:
        return parse(text.encode(), f"the {name}")
    except PayloadRejected as error:
        raise Problem(422, "payload-rejected", str(error), "Write JSON; nothing was changed.") from error
