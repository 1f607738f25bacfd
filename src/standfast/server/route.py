"""A route as a value: who may call it, what it takes and gives. The API's document is drawn from these."""

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
    whole: Response | None = None
    """Something else than JSON, as it is."""


ACTING = frozenset({Right.OPERATE, Right.APPROVE, Right.ADMINISTER})
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
    lines: type[msgspec.Struct] | None = None
    """What stands on each line of a body of JSON lines; the route reads them itself."""
    answer_line: Any = None
    """The type of each line of the answer, for callers that ask for JSON lines."""
    answer: Any = None
    """The type that the answer has in JSON. Only a route that always answers 204 has none."""
    answers: tuple[int, ...] = (200,)
    """The statuses of what went well; those of refusals are the same for all."""
    also: Right | None = None
    """Another right that is enough; what it reaches is then only one's own."""
    gives: str = "application/json"
    """The media type of what went well."""
    headers: tuple[str, ...] = ()
    """The headers that say something about what it does."""

    @property
    def acts(self) -> bool:
        """Whether it changes what others work with, so that who did it is noted."""
        return self.method != "GET" and self.right in ACTING


async def perform(route: Route, call: Call) -> Answer:
    """Have done what a route does; who did what is in the log, also where no record of its own keeps it."""
    answer = await route.does(call)
    if route.acts:
        log_action(call.grant, f"{route.method} {route.path}", *call.path.values())
    return answer


def log_action(grant: Grant, verb: str, *what: str) -> None:
    """Have the log say who did what."""
    who = (printable(grant.person), printable(grant.name))
    log.info("%s %s: done by %s, with token %s", verb, " ".join(map(printable, what)), *who)
