"""`app.conf`: the Celery settings that apply here, those that hold anyway, and a refusal for the rest."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from standfast.celery import beat
from standfast.celery.settings_of_celery import why_left_out
from standfast.celery.task_routing import queues_in
from standfast.celery.unmapped import PICKLE, SETTINGS, refuse
from standfast.errors import ConfigurationError

DEFAULTS: dict[str, Any] = {
    "broker_url": None,
    "result_backend": None,
    "beat_schedule": None,
    "enable_utc": True,
    "imports": (),
    "include": (),
    "result_expires": 86400,
    "task_always_eager": False,
    "task_default_max_retries": 3,
    "task_default_priority": None,
    "task_default_queue": "celery",
    "task_default_rate_limit": None,
    "task_eager_propagates": False,
    "task_ignore_result": False,
    "task_queues": (),
    "task_routes": None,
    "task_time_limit": None,
    "timezone": "UTC",
    "worker_concurrency": None,
}
"""The settings that are read here, with Celery's defaults."""
HOLDS_ANYWAY: dict[str, tuple[Any, ...]] = {
    "accept_content": (["json"], ("json",), {"json"}, ["application/json"]),
    "broker_connection_retry": (True,),
    "broker_connection_retry_on_startup": (True,),
    "result_accept_content": (["json"], ("json",), {"json"}, None),
    "result_extended": (True, False),
    "result_persistent": (True,),
    "result_serializer": ("json",),
    "task_acks_late": (True,),
    "task_acks_on_failure_or_timeout": (False,),
    "task_create_missing_queues": (False,),
    "task_publish_retry": (True,),
    "task_reject_on_worker_lost": (True,),
    "task_serializer": ("json",),
    "task_store_errors_even_if_ignored": (True,),
    "task_store_eager_result": (False,),
    "task_track_started": (True, False),
    "worker_disable_rate_limits": (False,),
    "worker_hijack_root_logger": (False,),
    "worker_prefetch_multiplier": (1,),
}
"""What standfast does in any case, with the values that mean it; any other value is refused."""
WHY_NOT = {
    "accept_content": PICKLE,
    "result_accept_content": PICKLE,
    "result_serializer": PICKLE,
    "task_serializer": PICKLE,
    "task_acks_late": "a task is never acknowledged before it ran; to have one run at most once, use replay='manual'",
    "task_reject_on_worker_lost": "a task whose worker died runs again; for one that must not, use replay='manual'",
    "task_create_missing_queues": "name the queues that apply_async(queue=...) uses in task_queues",
    "worker_prefetch_multiplier": "a worker takes only what it can start now; leave it out, or set 1",
}


class Conf:
    """Settings by attribute, by key, or by `update`; each is checked when it is set."""

    changes: int
    """How often a setting was changed."""
    _values: dict[str, Any]
    _unread: list[tuple[str, str | None]]

    def __init__(self) -> None:
        object.__setattr__(self, "_values", dict(DEFAULTS))
        object.__setattr__(self, "changes", 0)
        object.__setattr__(self, "_unread", [])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        while self._unread:
            self.read(*self._unread.pop(0))
        if name in self._values:
            return self._values[name]
        raise AttributeError(f"app.conf has no {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        self.update({name: value})

    __getitem__ = __getattr__
    __setitem__ = __setattr__

    def update(self, given: Mapping[str, Any] | None = None, **named: Any) -> None:
        """Set several at once."""
        for name, value in {**(given or {}), **named}.items():
            _check(name, value)
            self._values[name] = value
        object.__setattr__(self, "changes", self.changes + 1)

    def read_later(self, name: str, namespace: str | None) -> None:
        """Read a module or object by its name, but only once a setting is needed: it may not be importable yet."""
        self._unread.append((name, namespace))

    def read(self, source: Any, namespace: str | None = None) -> None:
        """Take settings from an object, a module or the name of one; with a namespace, those with that prefix."""
        found = _load(source) if isinstance(source, str) else source
        self.update(_named(found, f"{namespace}_") if namespace else _lower(found))


def _check(name: str, value: Any) -> None:
    left_out = why_left_out(name)
    unmapped = SETTINGS if left_out is None else {name: left_out, **SETTINGS}
    refuse("setting", [name], unmapped, [*DEFAULTS, *HOLDS_ANYWAY])
    if name in HOLDS_ANYWAY and value not in HOLDS_ANYWAY[name]:
        why = WHY_NOT.get(name, f"only {HOLDS_ANYWAY[name][0]!r} says what standfast does; leave it out")
        raise ConfigurationError(f"setting {name}={value!r} of Celery does not map to standfast: {why}")
    if name == "task_routes":
        queues_in(value)
    if name == "beat_schedule":
        beat.check(value or {})


def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def _named(source: Any, start: str) -> dict[str, Any]:
    names = [name for name in _names(source) if name.startswith(start)]
    return {name.removeprefix(start).lower(): _value(source, name) for name in names}


def _lower(source: Any) -> dict[str, Any]:
    """Return the settings of a `celeryconfig` module: lower-case names, except what it imports or defines."""
    found = {name: _value(source, name) for name in _names(source) if name.islower() and not name.startswith("_")}
    return {name: each for name, each in found.items() if not callable(each) and not isinstance(each, ModuleType)}


def _names(source: Any) -> list[str]:
    return list(source) if isinstance(source, Mapping) else dir(source)


def _value(source: Any, name: str) -> Any:
    return source[name] if isinstance(source, Mapping) else getattr(source, name)
