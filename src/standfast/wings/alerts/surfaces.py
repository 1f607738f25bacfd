"""Surfaces and routes, as in `[notify]` of the settings file: where alerts go, and which of them."""

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
"""Seconds after the first letter of a cause in which others are counted before the alert is announced."""
SOURCE = "/standfast"
PAIN = "pain"
"""The name of the surface for pain signals."""
KINDS = (NoticeKind.DEAD_LETTER, NoticeKind.HELD, NoticeKind.GAVE_UP)
"""What may be loud: a death, a job that waits for an answer, and a letter whose automatic replay was refused."""


MISSING = "apprise_env in [notify] needs an extra: pip install 'standfast[notify]'"


class Surface(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One place that alerts are sent to. Secrets are never written here: `…_env` names an environment variable."""

    webhook: str | None = None
    webhook_env: str | None = None
    secret_env: str | None = None
    """The secret that signs a webhook, in Standard Webhooks format: `whsec_…`."""
    apprise_env: str | None = None
    """An address of apprise: chat, mail, and some hundred other services."""

    @property
    def ways(self) -> list[str]:
        """The names of the settings that say how it is reached, as far as they are given."""
        named = {"webhook": self.webhook, "webhook_env": self.webhook_env, "apprise_env": self.apprise_env}
        return [way for way, value in named.items() if value]

    def address(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return its address. While the environment variable is not set, the alert waits."""
        return self.webhook or _variable(self.webhook_env or self.apprise_env or "", environment)

    def secret(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """Return the secret that signs its webhooks, if they are signed."""
        return None if self.secret_env is None else _variable(self.secret_env, environment)


class Subscriber(Surface, frozen=True, forbid_unknown_fields=True):
    """A webhook that gets every notice of some kinds and queues, as CloudEvents. A filter left out matches all."""

    kinds: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    """Patterns of names; notices about no queue go to subscribers without patterns."""

    def wants(self, kind: str, queue: str) -> bool:
        """Return whether it gets a notice."""
        return (not self.kinds or kind in self.kinds) and _any(self.queues, queue)


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which alerts go to which surfaces: one pattern of each list must match. A list left out matches all."""

    surfaces: tuple[str, ...]
    queue: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()

    def fits(self, kind: str, queue: str, *reasons: str) -> bool:
        """Return whether an alert goes this way; it is enough that one of its reasons matches."""
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
    """The `source` of events; name each store if one receiver gets events of several."""

    @property
    def speaks(self) -> bool:
        """Whether anything can be announced or carried to anyone."""
        return bool(self.surfaces or self.subscribers or self.pain)

    def routed(self, kind: str, queue: str, *reasons: str) -> list[str]:
        """Return the surfaces an alert goes to: those of every route that matches; without routes, all."""
        if not self.routes:
            return sorted(self.surfaces)
        return sorted({name for route in self.routes if route.fits(kind, queue, *reasons) for name in route.surfaces})

    def surface(self, name: str) -> Surface | None:
        """Return the surface of a name; the surface for pain signals has a name of its own."""
        return self.pain if name == PAIN else self.surfaces.get(name)

    def check_extras(self) -> None:
        """Refuse to begin without a package that a surface needs, instead of failing at the first alert."""
        if any(surface.apprise_env for surface in self.surfaces.values()) and find_spec("apprise") is None:
            raise ConfigurationError(MISSING)


def read(given: Mapping[str, Any], path: str) -> Notify:
    """Read the `[notify]` table."""
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
"""Prefix of subscribers' names where they are listed among surfaces."""


QUEUE = "standfast.notify"
"""The queue that delivers alerts."""
