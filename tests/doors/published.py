"""Answers of the API, held to the schemas that its document publishes."""

from __future__ import annotations

import copy
import json
import re
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import httpx2
from jsonschema import Draft202012Validator, FormatChecker

from standfast.server.api_routes import ROUTES
from standfast.server.openapi import document

PROBLEM = "application/problem+json"
JSON = "application/json"
LINES = "application/x-ndjson"
UNDESCRIBED = 300
FORMATS = FormatChecker(formats=())


def is_moment(value: Any) -> bool:
    """Tell whether a text is a moment with a time zone."""
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


FORMATS.checks("date-time", raises=ValueError)(is_moment)


class Operation(NamedTuple):
    """What the document says about one method of one path."""

    method: str
    path: str
    responses: dict[str, Any]


@cache
def published() -> dict[str, Any]:
    """Give the document, strict: a field that a schema does not name is a mistake of the schema."""
    drawn = copy.deepcopy(document(ROUTES))
    for name, schema in drawn["components"]["schemas"].items():
        if "properties" in schema and name != "Problem":
            schema["additionalProperties"] = False
    return drawn


@cache
def operations() -> list[tuple[re.Pattern[str], Operation]]:
    """Give every operation with what its path looks like, plain paths before those with names in them."""
    found = [
        Operation(method.upper(), path, said["responses"])
        for path, methods in published()["paths"].items()
        for method, said in methods.items()
    ]
    found.sort(key=lambda each: each.path.count("{"))
    return [(re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(each.path))), each) for each in found]


def operation_of(method: str, path: str) -> Operation | None:
    """Find what a request is about; None if the document does not name it."""
    return next((each for form, each in operations() if each.method == method and form.fullmatch(path)), None)


def check(answer: httpx2.Response) -> Operation | None:
    """See to it that an answer is as its schema says; give the operation that it belongs to."""
    asked = operation_of(answer.request.method, answer.request.url.path)
    if asked is None or (not answer.is_stream_consumed and not answer.is_closed):
        return None
    media = answer.headers.get("content-type", "").partition(";")[0]
    if answer.status_code >= UNDESCRIBED:
        if media == PROBLEM:
            check_value(answer.json(), {"$ref": "#/components/schemas/Problem"}, str(answer.request.url))
        return asked
    where = f"{asked.method} {asked.path} answered {answer.status_code}"
    assert str(answer.status_code) in asked.responses, f"{where}, which its Route does not name in `answers`"
    content = asked.responses[str(answer.status_code)].get("content")
    if content is None:
        assert not answer.content, f"{where} with a body that its Route does not describe"
    elif media == LINES:
        for line in answer.content.splitlines():
            check_value(json.loads(line), content[LINES]["schema"], where)
    elif JSON in content:
        check_value(answer.json(), content[JSON]["schema"], where)
    return asked


def check_value(value: Any, schema: dict[str, Any], where: str) -> None:
    """Compare one value with a published schema."""
    root = {**schema, "components": published()["components"]}
    validator = Draft202012Validator(root, format_checker=FORMATS)
    problems = [f"{each.json_path}: {each.message[:300]}" for each in validator.iter_errors(value)]
    assert problems == [], f"{where}, and not as its schema (shapes.py of its wing) says: {problems}"
