"""Our forms, read as the body of the API operation behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from standfast.doors.filters import PATHS, fields_of, names_of, with_paths
from standfast.errors import ConfigurationError, PayloadRejected
from standfast.server.api import LARGEST_BODY, read_query, whole_body
from standfast.server.auth import CSRF_FIELD, check_ours
from standfast.server.problems import Problem, misfit
from standfast.spine.payload import parse
from standfast.wings.records.view import one_of

MOST_FIELDS = 100
AS_JSON = frozenset({"payload", "result"})
AS_LIST = frozenset({"groups", "queues"})
LONG = AS_JSON | {"text"}
"""Fields with several lines of text."""


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
        given = parse_qsl(raw.decode("ascii"), max_num_fields=MOST_FIELDS, errors="strict")
    except ClientDisconnect as error:
        raise Problem(400, "gone", "the form was not sent whole", "Load the page again and repeat.") from error
    except ValueError as error:
        raise Problem(400, "not-a-form", "the form cannot be read", "Load the page again and repeat.") from error
    fields = dict(given)
    if len(fields) < len(given):  # the last of two filters alone would match more than both
        raise Problem(422, "invalid-request", "the form gives a name twice", "Load the page again and repeat.")
    return fields


async def read_ours(request: Request) -> dict[str, str]:
    """Read the fields of a form; refuse one that another site made."""
    fields = await read(request)
    check_ours(request, fields.get(CSRF_FIELD, ""))
    return fields


def body(fields: Mapping[str, str], shape: type[msgspec.Struct]) -> Any:
    """Read a form as the body of its API operation; an empty field counts as not given."""
    known = {field.encode_name for field in msgspec.structs.fields(shape)}
    given = {name: _value(name, text) for name, text in fields.items() if name in known and text.strip()}
    if "filter" in known:
        given["filter"] = {name[7:]: text for name, text in fields.items() if name.startswith("filter.") and text}
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as error:
        raise misfit(error, "form") from error


def read_filters(given: Iterable[tuple[str, str]], shape: type[msgspec.Struct]) -> dict[str, str]:
    """Read the filters of a page as the API reads them; an empty filter field selects nothing.

    An unknown or unusable filter is refused: without it, a page would show more than was asked for.
    """
    known = names_of(shape)
    chosen = [(name, text.strip()) for name, text in given if text.strip() or name not in known]
    for name, _ in chosen:
        if name not in known and not (name.startswith(PATHS) and "payload" in known):
            raise ConfigurationError.unknown("filter", name[:50], known)
    named = with_paths(dict(chosen), shape)
    for field in fields_of(shape):
        if field.about.choices and field.name in named:
            one_of(field.name, named[field.name], field.about.choices)
    try:
        read_query(chosen, shape)
    except Problem as problem:
        where = "".join(each["pointer"].replace("#/", " ") for each in problem.more.get("errors", ()))
        raise ConfigurationError(f"the filter{where} cannot be used: {problem.detail}") from problem
    return named


def entries(shape: type[msgspec.Struct], fields: Mapping[str, str]) -> list[Entry]:
    """Return the fields of a form as they were filled in."""
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
