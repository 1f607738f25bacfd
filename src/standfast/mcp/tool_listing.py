"""How long the listing of tools may be: a model reads all of it before each of its turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mcp.types import Tool, ToolAnnotations

from standfast.mcp.schemas import names, required, shallow, without_words

LONGEST_LISTING = 5950
"""The characters of a listing with few handlers, as JSON with spaces between its parts."""
ROOM_FOR = 10
ROOM_FOR_MORE = 300
"""This many more characters for each handler beyond `ROOM_FOR`."""
DEFAULTS = {"read_only_hint": False, "destructive_hint": True, "idempotent_hint": False, "open_world_hint": True}
"""What the protocol makes a client assume for omitted hints."""


def explicit(annotations: ToolAnnotations) -> ToolAnnotations | None:
    """Keep every hint."""
    return annotations


def telling(annotations: ToolAnnotations) -> ToolAnnotations | None:
    """Keep only hints that differ from what a client assumes anyway."""
    said = annotations.model_dump(exclude_none=True)
    differs = {name: value for name, value in said.items() if DEFAULTS.get(name) != value}
    return ToolAnnotations(**differs) if differs else None


def nothing(_: dict[str, Any]) -> dict[str, Any]:
    """Say only that the tool takes an object."""
    return {"type": "object"}


class Length(NamedTuple):
    """How much the listing says of each tool."""

    description: int
    """Characters of a docstring's first paragraph."""
    schema: Callable[[dict[str, Any]], dict[str, Any]]
    annotations: Callable[[ToolAnnotations], ToolAnnotations | None] = telling
    key: bool = True
    """Whether it lists the key of a handler's tool, which takes one in any case."""


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
"""From the longest to the shortest. What is left out is in `standfast://handlers`, and is checked all the same."""


def fitting(lists: Callable[[Length], list[Tool]], handlers: int) -> list[Tool]:
    """Return the longest listing that fits this number of handlers; if none does, the shortest."""
    room = LONGEST_LISTING + ROOM_FOR_MORE * max(0, handlers - ROOM_FOR)
    return next((made for length in LENGTHS if size(made := lists(length)) <= room), lists(LENGTHS[-1]))


def size(tools: Iterable[Tool]) -> int:
    """Count the characters of a listing as JSON."""
    return len(json.dumps([each.model_dump(by_alias=True, exclude_none=True, mode="json") for each in tools]))
