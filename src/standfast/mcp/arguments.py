"""Errors for arguments that do not fit a tool, so that an agent can fix its call: which one, and what is expected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

MOST_UNKNOWN = 5
LONGEST_SHOWN = 80
"""Characters of a value that the error quotes."""
EXPECTED = {
    "string_type": "text",
    "string_too_long": "text of at most {max_length} characters",
    "string_too_short": "text of at least {min_length} characters",
    "dict_type": "a JSON object",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number from {ge}",
    "less_than_equal": "a number up to {le}",
}
"""What an argument should have been, by pydantic's type of error."""


def misfits(tool: str, schema: Mapping[str, Any], found: Iterable[Mapping[str, Any]]) -> str:
    """Say what is wrong with the arguments of a call, and what the tool takes."""
    required = schema.get("required", ())
    taken = [f"{name} (required)" if name in required else name for name in schema.get("properties", {})]
    wrong = "; ".join(dict.fromkeys(_wrong(each) for each in found))
    takes = f"it takes {', '.join(taken)}" if taken else "it takes no arguments"
    return f"the arguments do not fit {tool}, and nothing was done: {wrong}. {takes[:1].upper()}{takes[1:]}."


def unknown_arguments(given: Iterable[str], known: Collection[str]) -> str | None:
    """Name the unknown arguments, each with its nearest known one; None if there are none."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake pays for it, not every call

    def named(argument: str) -> str:
        near = get_close_matches(argument, known, n=1)
        return f"there is no argument {argument!r}" + (f" (did you mean {near[0]!r}?)" if near else "")

    unknown = [named(str(each)) for each in given if each not in known]
    takes = f"it takes {', '.join(known)}" if known else "it takes no arguments"
    return "; ".join([*unknown[:MOST_UNKNOWN], takes]) if unknown else None


def _wrong(misfit: Mapping[str, Any]) -> str:
    name, kind = str(misfit["loc"][0]) if misfit["loc"] else "", misfit["type"]
    if kind == "missing":
        return f"{name} is missing"
    if kind == "extra_forbidden":
        return f"there is no argument {name}"
    expected = EXPECTED.get(kind, "something else").format(**misfit.get("ctx", {}))
    return f"{name} must be {expected}, not {_display(misfit['input'])}"


def _display(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
