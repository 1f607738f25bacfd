"""Which queue a task goes to: `task_routes`, by name, by pattern, or by a function."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

from standfast.errors import ConfigurationError

Routes = Any
"""A dict of patterns, a list of pairs, dicts and functions, or one function; a function may be given by name."""


class Route(NamedTuple):
    """Where a task goes, and its priority there; None leaves that to other settings."""

    queue: str | None = None
    priority: int | None = None


def route_for(routes: Routes, task: str) -> Route:
    """Return the first route that matches a task."""
    for pattern, route in _pairs(routes):
        if pattern is None:
            found = route(task, (), {}, {}, task=None)
        elif _fits(pattern, task):
            found = route
        else:
            continue
        if found is not None:
            return _route(found, task)
    return Route()


def queues_in(routes: Routes) -> set[str]:
    """Return every queue named in the routes; what a function returns is unknown until it is called."""
    found = [_route(route, str(pattern)) for pattern, route in _pairs(routes) if pattern is not None]
    return {each.queue for each in found if each.queue is not None}


def queue_names(task_queues: Any) -> set[str]:
    """Read `task_queues`: names, objects with a `name`, or a dict by name."""
    if isinstance(task_queues, Mapping):
        return set(task_queues)
    return {each if isinstance(each, str) else each.name for each in task_queues or ()}


def _pairs(routes: Routes) -> Iterator[tuple[str | re.Pattern[str] | None, Any]]:
    if routes is None:
        return
    if isinstance(routes, str):
        yield None, partial(_route_by_name, routes)
    elif callable(routes):
        yield None, routes
    elif isinstance(routes, Mapping):
        yield from routes.items()
    else:
        yield from _listed(routes)


def _route_by_name(router: str, *given: Any, **named: Any) -> Any:
    """Call a router that is imported only now: its module may not be importable when the settings are read."""
    return pkgutil.resolve_name(router)(*given, **named)


def _listed(routes: Iterable[Any]) -> Iterator[tuple[str | re.Pattern[str] | None, Any]]:
    for each in routes:
        if isinstance(each, tuple | list) and len(each) == len(("pattern", "route")) and not callable(each[0]):
            yield each[0], each[1]
        else:
            yield from _pairs(each)


def _fits(pattern: str | re.Pattern[str], task: str) -> bool:
    return bool(pattern.match(task)) if isinstance(pattern, re.Pattern) else fnmatchcase(task, pattern)


def _route(given: Any, task: str) -> Route:
    if isinstance(given, str):
        return Route(given)
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"the route of {task} is {given!r}; write a queue, or {{'queue': 'mail'}}")
    unfit = [name for name in given if name not in Route._fields]
    if unfit:
        kept = {name: each for name, each in given.items() if name in Route._fields} or {"queue": "mail"}
        raise ConfigurationError(
            f"the route of {task} has {unfit[0]!r}, which does not map to standfast: a route has a queue and a "
            f"priority, so write {kept!r}"
        )
    queue = given.get("queue")
    return Route(None if queue is None else str(getattr(queue, "name", queue)), given.get("priority"))
