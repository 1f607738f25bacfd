"""A route as a value: who may call it, what it takes and gives. The API's document is drawn from these."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request

from standfast.access import Grant, Right
from standfast.application import Standfast


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters, or an empty body."""


class Call(NamedTuple):
    """One request, read and allowed."""

    sf: Standfast
    grant: Grant
    path: Mapping[str, str]
    query: Any
    body: Any
    request: Request


class Answer(NamedTuple):
    """What is said to a request."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] | None = None


Does = Callable[[Call], Awaitable[Answer]]


class Route(NamedTuple):
    """One thing the API does."""

    method: str
    path: str
    right: Right
    does: Does
    summary: str
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    answers: tuple[int, ...] = (200,)
    """The statuses of what went well; those of refusals are the same for all."""
    also: Right | None = None
    """Another right that is enough; what it reaches is then only one's own."""
