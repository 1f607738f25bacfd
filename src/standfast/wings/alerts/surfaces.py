"""Surfaces and routes, as `[notify]` of the settings file has them: where alerts go, and which of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import Any

import msgspec

from standfast.errors import ConfigurationError, Transient
from standfast.lifecycle import NoticeKind
from standfast.rules import seconds
from standfast.wings.alerts.words import AlertKind

WINDOW = 300.0
"""Seconds in which letters of one cause are one alert."""
SETTLE = 5.0
"""Seconds after the first letter of a cause in which others are counted before anybody is told."""
SOURCE = "/standfast"
PAIN = "pain"
"""What the surface is called that takes pain signals."""
KINDS = (NoticeKind.DEAD_LETTER, NoticeKind.HELD, NoticeKind.GAVE_UP)
"""What may be loud: a death, something that waits for an answer, and a letter whose automatic replay was refused."""


MISSING = "apprise_env in [notify] needs an extra: pip install 'standfast[notify]'"


class Surface(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One place that alerts are sent to. Secrets are never written here: `…_env` names an environment variable."""

    webhook: str | None = None
    webhook_env: str | None = None
    secret_env: str | None = None
    """What a webhook is signed with, as Standard Webhooks has it: `whsec_…`."""
    apprise_env: str | None = None
    """An address of apprise's: chat, mail, and some hundred others."""

    @property
    def ways(self) -> list[str]:
        """How it is reached, by each way it names."""
        named = {"webhook": self.webhook, "webhook_env": self.webhook_env, "apprise_env": self.apprise_env}
        return [way for way, value in named.items() if value]

    def address(self, environment: Mapping[str, str] = os.environ) -> str:
        """Give where it is; without its variable the alert waits until it is set."""
        return self.webhook or _variable(self.webhook_env or self.apprise_env or "", environment)

    def secret(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """Give what its webhooks are signed with, if they are."""
        return None if self.secret_env is None else _variable(self.secret_env, environment)


class Subscriber(Surface, frozen=True, forbid_unknown_fields=True):
    """A webhook that gets every notice of some kinds and queues, each as a CloudEvent. What is not named is all."""

    kinds: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    """Patterns of names; what is about no queue goes to those who name none."""

    def wants(self, kind: str, queue: str) -> bool:
        """Tell whether it gets a notice."""
        return (not self.kinds or kind in self.kinds) and _any(self.queues, queue)


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which alerts go to which surfaces: patterns, of which one of each list must fit. What is not named fits all."""

    surfaces: tuple[str, ...]
    queue: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()

    def fits(self, kind: str, queue: str, *reasons: str) -> bool:
        """Tell whether an alert goes this way; any of its reasons may fit."""
        fits = _any(self.queue, queue) and _any(self.kind, kind)
        return fits and any(_any(self.reason, each) for each in reasons or ("",))


class Notify(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of `[notify]`."""

    surfaces: dict[str, Surface] = {}
    routes: tuple[Route, ...] = ()
    window: float = WINDOW
    settle: float = SETTLE
    pain: Surface | None = None
    """Where pain signals go: a URL, or a table with `webhook_env` and `secret_env`."""
    subscribers: dict[str, Subscriber] = {}
    source: str = SOURCE
    """What events say they come from; name each store, where one receiver hears of several."""

    @property
    def speaks(self) -> bool:
        """Whether there is anybody to tell anything."""
        return bool(self.surfaces or self.subscribers or self.pain)

    def routed(self, kind: str, queue: str, *reasons: str) -> list[str]:
        """Name the surfaces an alert goes to: those of every route that fits; without routes, all."""
        if not self.routes:
            return sorted(self.surfaces)
        return sorted({name for route in self.routes if route.fits(kind, queue, *reasons) for name in route.surfaces})

    def surface(self, name: str) -> Surface | None:
        """Give the surface of a name; that of pain signals has one of its own."""
        return self.pain if name == PAIN else self.surfaces.get(name)

    def check_extras(self) -> None:
        """Refuse to begin without what a surface needs, rather than when the first alert is due."""
        if any(surface.apprise_env for surface in self.surfaces.values()) and find_spec("apprise") is None:
            raise ConfigurationError(MISSING)


def read(given: Mapping[str, Any], path: str) -> Notify:
    """Read `[notify]` as it is written."""
    try:
        found = msgspec.convert({name: _to_toml(name, value) for name, value in given.items()}, Notify)
        _check(found)
    except (msgspec.ValidationError, ConfigurationError) as error:
        raise ConfigurationError(f"{path} [notify]: {error}") from error
    return found


def _to_toml(name: str, value: Any) -> Any:
    if name in {"window", "settle"}:
        return seconds(value)
    if name == "pain" and isinstance(value, str):
        return {"webhook": value}
    if name == "routes" and isinstance(value, list):
        return [{word: _list(each) for word, each in route.items()} for route in value]
    if name == "subscribers" and isinstance(value, dict):
        return {each: _as_list(table) for each, table in value.items()}
    return value


def _as_list(table: Any) -> Any:
    """Let a single kind or queue be written without a list."""
    if not isinstance(table, dict):
        return table
    return {word: _list(each) if word in {"kinds", "queues"} else each for word, each in table.items()}


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _check(found: Notify) -> None:
    if PAIN in found.surfaces:
        raise ConfigurationError(f"a surface cannot be called {PAIN!r}: that is where pain signals go")
    if found.pain is not None and (len(found.pain.ways) != 1 or found.pain.apprise_env is not None):
        raise ConfigurationError("pain is a URL, or a table with one of webhook and webhook_env")
    for name, surface in found.surfaces.items():
        if len(surface.ways) != 1:
            raise ConfigurationError(f"surface {name!r} needs one of webhook, webhook_env and apprise_env")
        if surface.secret_env is not None and surface.apprise_env is not None:
            raise ConfigurationError(f"surface {name!r} cannot use secret_env: only webhooks are signed")
    for name, subscriber in found.subscribers.items():
        if len(subscriber.ways) != 1 or subscriber.apprise_env is not None:
            raise ConfigurationError(f"subscriber {name!r} needs one of webhook and webhook_env")
        _check_known("kind", subscriber.kinds, tuple(NoticeKind))
    for route in found.routes:
        _check_known("surface", route.surfaces, found.surfaces)
        _check_known("kind", route.kind, (*KINDS, *AlertKind))
    if not 0 < found.window <= 86400 or not 0 <= found.settle <= found.window:  # noqa: PLR2004 - a day
        raise ConfigurationError("window must be up to a day, and settle not more than that")


def _check_known(what: str, named: Sequence[str], known: Any) -> None:
    for name in named:
        if name not in known:
            raise ConfigurationError.unknown(what, name, sorted(known))


def _any(patterns: Sequence[str], value: str) -> bool:
    return not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)


def _variable(variable: str, environment: Mapping[str, str]) -> str:
    value = environment.get(variable)
    if not value:
        raise Transient(
            f"the environment variable {variable} is not set where the worker runs", reason_code="user_action_required"
        )
    return value


SUBSCRIBER = "subscriber "
"""What the names of subscribers begin with where they stand among surfaces."""


QUEUE = "standfast.notify"
"""The queue that carries alerts out."""
