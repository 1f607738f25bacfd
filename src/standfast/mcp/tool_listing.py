"""How long the listing of tools may be: a model reads all of it before each of its turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mcp.types import Tool, ToolAnnotations

from standfast.mcp.schemas import names, required, shallow, without_words

LONGEST_LISTING = 5950
"""Characters of a listing with few handlers, written with spaces between its parts."""
ROOM_FOR = 10
ROOM_FOR_MORE = 300
"""So many characters more for each handler beyond so many."""
DEFAULTS = {"read_only_hint": False, "destructive_hint": True, "idempotent_hint": False, "open_world_hint": True}
"""What the protocol has a client assume where nothing is said."""


def explicit(annotations: ToolAnnotations) -> ToolAnnotations | None:
    """Say everything that was derived."""
    return annotations


def telling(annotations: ToolAnnotations) -> ToolAnnotations | None:
    """Say only what a client would not assume anyway."""
    said = annotations.model_dump(exclude_none=True)
    differs = {name: value for name, value in said.items() if DEFAULTS.get(name) != value}
    return ToolAnnotations(**differs) if differs else None


def nothing(_: dict[str, Any]) -> dict[str, Any]:
    """Say only that it takes an object."""
    return {"type": "object"}


class Length(NamedTuple):
    """How much the listing says of each tool."""

    description: int
    """Characters of a docstring's first paragraph."""
    schema: Callable[[dict[str, Any]], dict[str, Any]]
    annotations: Callable[[ToolAnnotations], ToolAnnotations | None] = telling
    key: bool = True
    """Whether it says that a handler's tool takes a key; it does in any case."""


LENGTHS = (
    Length(160, dict, explicit),
    Length(100, without_words),
    Length(60, without_words),
    Length(60, without_words, key=False),
    Length(60, shallow, key=False),
    Length(40, names, key=False),
    Length(40, required, key=False),
    Length(40, nothing, key=False),
)
"""From the longest to the shortest. What is left out stands in `standfast://handlers`, and is checked all the same."""


def fitting(lists: Callable[[Length], list[Tool]], handlers: int) -> list[Tool]:
    """Give the longest listing that is short enough for so many handlers; if none is, the shortest."""
    room = LONGEST_LISTING + ROOM_FOR_MORE * max(0, handlers - ROOM_FOR)
    return next((made for length in LENGTHS if size(made := lists(length)) <= room), lists(LENGTHS[-1]))


def size(tools: Iterable[Tool]) -> int:
    """Count the characters of a listing as JSON."""
    return len(json.dumps([each.model_dump(by_alias=True, exclude_none=True, mode="json") for each in tools]))
