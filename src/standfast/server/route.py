"""A route as a value: who may call it, what it takes and returns. The OpenAPI document is generated from these."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from standfast.application import Standfast
from standfast.printable import printable
from standfast.wings.access.words import Grant, Right

log = logging.getLogger("standfast.server")


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters, or an empty body."""


class Call(NamedTuple):
    """One request, parsed and authorized."""

    sf: Standfast
    grant: Grant
    path: Mapping[str, str]
    query: Any
    body: Any
    request: Request


class Answer(NamedTuple):
    """The answer to a request."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] | None = None
    whole: Response | None = None
    """A response that is not JSON, sent as it is."""


ACTING = frozenset({Right.OPERATE, Right.APPROVE, Right.ADMINISTER})
Does = Callable[[Call], Awaitable[Answer]]


class Route(NamedTuple):
    """One operation of the API."""

    method: str
    path: str
    right: Right
    does: Does
    summary: str
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    lines: type[msgspec.Struct] | None = None
    """The type of each line in a JSON Lines body; the route itself parses the lines."""
    answer_line: Any = None
    """The type of each line of the answer, for callers that ask for JSON Lines."""
    answer: Any = None
    """The type of the JSON answer. Only a route that always answers 204 has none."""
    answers: tuple[int, ...] = (200,)
    """The statuses of success; those of refusals are the same for all routes."""
    also: Right | None = None
    """Another right that is sufficient, but limited to the caller's own things."""
    gives: str = "application/json"
    """The media type of a successful answer."""
    headers: tuple[str, ...] = ()
    """The request headers that the route reads."""

    @property
    def acts(self) -> bool:
        """Whether it changes what other people work with, so that the log must say who did it."""
        return self.method != "GET" and self.right in ACTING


async def perform(route: Route, call: Call) -> Answer:
    """Perform a route. The log says who did what, also for actions that leave no record of their own."""
    answer = await route.does(call)
    if route.acts:
        log_action(call.grant, f"{route.method} {route.path}", *call.path.values())
    return answer


def log_action(grant: Grant, verb: str, *what: str) -> None:
    """Log who did what."""
    who = (printable(grant.person), printable(grant.name))
    log.info("%s %s: done by %s, with token %s", verb, " ".join(map(printable, what)), *who)
