"""Which queue a task goes to: `task_routes`, by name, by pattern, or by a function."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from standfast.errors import ConfigurationError

Routes = Any
"""A dict of patterns, a list of pairs, dicts and functions, or one function."""


def queue_for(routes: Routes, task: str) -> str | None:
    """Give the queue that the routes name for a task."""
    for pattern, route in _pairs(routes):
        if pattern is None:
            found = route(task, (), {}, {}, task=None)
        elif _fits(pattern, task):
            found = route
        else:
            continue
        if found is not None:
            return _queue(found, task)
    return None


def queues_in(routes: Routes) -> set[str]:
    """Give every queue that the routes name; what a function gives is not known before it is asked."""
    return {_queue(route, str(pattern)) for pattern, route in _pairs(routes) if pattern is not None}


def queue_names(task_queues: Any) -> set[str]:
    """Read `task_queues`: names, objects that have one, or a dict by name."""
    if isinstance(task_queues, Mapping):
        return set(task_queues)
    return {each if isinstance(each, str) else each.name for each in task_queues or ()}


def _pairs(routes: Routes) -> Iterator[tuple[str | re.Pattern[str] | None, Any]]:
    if routes is None:
        return
    if callable(routes):
        yield None, routes
    elif isinstance(routes, Mapping):
        yield from routes.items()
    else:
        yield from _listed(routes)


def _listed(routes: Iterable[Any]) -> Iterator[tuple[str | re.Pattern[str] | None, Any]]:
    for each in routes:
        if isinstance(each, tuple | list) and len(each) == len(("pattern", "route")) and not callable(each[0]):
            yield each[0], each[1]
        else:
            yield from _pairs(each)


def _fits(pattern: str | re.Pattern[str], task: str) -> bool:
    return bool(pattern.match(task)) if isinstance(pattern, re.Pattern) else fnmatchcase(task, pattern)


def _queue(route: Any, task: str) -> str:
    if isinstance(route, str):
        return route
    if isinstance(route, Mapping) and set(route) == {"queue"}:
        return str(getattr(route["queue"], "name", route["queue"]))
    raise ConfigurationError(
        f"the route of {task} is {route!r}: standfast routes by queue alone, so write {{'queue': 'mail'}}"
    )
