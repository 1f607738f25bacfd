"""JSON schemas as agents see them: an object at the top, and no more text than a model needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec
from jsonschema import Draft202012Validator

from standfast.concurrency.guarded import call_guarded

Schema = dict[str, Any]

PAYLOAD = "payload"
"""The argument that holds a payload which is not an object."""
MOST_MISFITS = 5
_NAMED = ("properties", "$defs", "patternProperties", "dependentSchemas")
"""Keywords whose keys are the user's names, and whose values are schemas."""
_VALUES = frozenset({"default", "const", "enum", "examples", "example"})
"""Keywords that hold values: keys inside them are data."""
_BOUNDS = frozenset(
    {"default", "maxLength", "minLength", "maximum", "minimum", "exclusiveMinimum", "additionalProperties"}
)
"""What the listing of a built-in tool leaves out: a call that violates one of them gets an error that says so."""
_OTHERS = frozenset(
    {"patternProperties", "unevaluatedProperties", "propertyNames", "allOf", "anyOf", "oneOf", "if", "$ref"}
)
"""Keywords that allow an object to have fields besides its properties."""
_WORDS = frozenset({"description", "default", "examples"})
"""Keywords that a schema can do without."""
_reference = re.compile(r'"#/\$defs/([^"]+)"')


class Input(NamedTuple):
    """What a handler takes, as the arguments of its tool."""

    schema: Schema
    wrapped: bool = False
    """Whether the payload is not an object, and so is passed in an argument of its own."""


def input_of(text: str | None) -> Input:
    """Read the published schema of a handler's input; without one, any object fits."""
    if text is None:
        return Input({"type": "object"})
    found = without_titles(msgspec.json.decode(text))
    defs, top = found.get("$defs", {}), {name: each for name, each in found.items() if name != "$defs"}
    top = _resolved(top, defs)
    wrapped = top.get("type") != "object"
    schema: Schema = {"type": "object", "properties": {PAYLOAD: top}, "required": [PAYLOAD]} if wrapped else top
    used = _used(schema, defs)
    return Input({**schema, "$defs": used} if used else schema, wrapped)


def fields_of(schema: Schema) -> list[str] | None:
    """Return the only fields that an object of this schema may have; None if it may have others.

    A handler's model that ignores unknown fields would ignore a misspelt one, too.
    """
    if "properties" not in schema or schema.get("additionalProperties") or not _OTHERS.isdisjoint(schema):
        return None
    return list(schema["properties"])


def misfit(schema: Schema, arguments: Mapping[str, Any]) -> str | None:
    """Say which arguments do not fit the schema; None if all fit."""
    found = call_guarded(partial(_misfits, schema, arguments), _untold)
    return "; ".join(found[:MOST_MISFITS]) or None


def _misfits(schema: Schema, arguments: Mapping[str, Any]) -> list[str]:
    return [_wrong(each.json_path, each.message) for each in Draft202012Validator(schema).iter_errors(arguments)]


def _untold(_: Exception) -> list[str]:
    """Accept what a user's schema cannot judge: the handler's type will."""
    return []


def without_titles(schema: Any) -> Any:
    """Leave out titles, which libraries derive from names that the schema contains anyway."""
    return without(frozenset({"title"}), schema)


def without_words(schema: Any) -> Any:
    """Leave out keywords that only explain."""
    return without(_WORDS, schema)


def shallow(schema: Schema) -> Schema:
    """Return the names of the arguments, the types of the plain ones, and which are required."""
    fields = {name: {"type": each["type"]} if _is_plain(each) else {} for name, each in _properties(schema).items()}
    return {"type": "object", "properties": fields, **_required(schema)}


def names(schema: Schema) -> Schema:
    """Return the names of the arguments, and which are required."""
    return {"type": "object", "properties": {name: {} for name in _properties(schema)}, **_required(schema)}


def required(schema: Schema) -> Schema:
    """Return the names of the required arguments."""
    return {"type": "object", **_required(schema)}


def without(keywords: frozenset[str], schema: Any) -> Any:
    """Remove keywords from a schema, but no user-defined key with the same name."""
    if isinstance(schema, list):
        return [without(keywords, each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _below(keywords, name, each) for name, each in schema.items() if name not in keywords}


def listed(parameters: Schema) -> Schema:
    """Return the schema of a built-in tool's arguments for the listing: names, types, and which are required."""
    fields = {name: _field(without_titles(each)) for name, each in _properties(parameters).items()}
    return {"type": "object", **({"properties": fields} if fields else {}), **_required(parameters)}


def _properties(schema: Schema) -> dict[str, Schema]:
    found: dict[str, Schema] = schema.get("properties", {})
    return found


def _required(schema: Schema) -> Schema:
    return {"required": schema["required"]} if schema.get("required") else {}


def _is_plain(schema: Schema) -> bool:
    return isinstance(schema.get("type"), str) and schema["type"] not in {"object", "array"}


def _below(keywords: frozenset[str], name: str, value: Any) -> Any:
    if name in _VALUES:
        return value
    if name in _NAMED and isinstance(value, dict):
        return {key: without(keywords, each) for key, each in value.items()}
    return without(keywords, value)


def _resolved(top: Schema, defs: Mapping[str, Schema]) -> Schema:
    """Replace a reference at the top by its definition."""
    match = _reference.fullmatch(f'"{top.get("$ref", "")}"')
    rest = {name: each for name, each in top.items() if name != "$ref"}
    return {**defs[match[1]], **rest} if match and match[1] in defs else top


def _used(schema: Schema, defs: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the definitions that a schema refers to, directly or through others."""
    found: dict[str, Schema] = {}
    pending = [schema]
    while pending:
        text = msgspec.json.encode(pending.pop()).decode()
        for name in _reference.findall(text):
            if name in defs and name not in found:
                found[name] = defs[name]
                pending.append(defs[name])
    return found


def _field(schema: Schema) -> Schema:
    """Return one argument's schema: an optional one need not also allow null."""
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    plain = {**schema, **kinds[0]} if len(kinds) == 1 else schema
    return {name: each for name, each in plain.items() if name not in {*_BOUNDS, "anyOf"}}


def _wrong(path: str, message: str) -> str:
    place = path.removeprefix("$").removeprefix(".")
    return f"{place}: {message}" if place else message
