"""Connects Flask: views get the queue, handlers the application context, and the application its commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, cast
from weakref import WeakKeyDictionary

from flask import Flask, current_app
from werkzeug.local import LocalProxy

from standfast.application import Standfast, default
from standfast.errors import ConfigurationError
from standfast.flask.commands import standfast

EXTENSION = "standfast"
URL = "STANDFAST_URL"
"""The key in `app.config` of the store's address, if no Standfast object is given."""
_apps: WeakKeyDictionary[Standfast, list[Flask]] = WeakKeyDictionary()
"""The application of each queue: the newest, if tests make several."""


def init_app(app: Flask, sf: Standfast | None = None) -> Standfast:
    """Connect an application with a queue: `sf`, or one on the store that `app.config["STANDFAST_URL"]` names.

    Each attempt of each handler runs in its own application context, so `current_app`, `g` and what other extensions
    keep there work as in a request, and are torn down after the attempt. `flask standfast worker` runs the jobs, and
    `flask standfast` has every other command.
    """
    if EXTENSION in app.extensions:
        raise ConfigurationError("init_app was called twice for this application, which has its queue already")
    queue = sf or (Standfast(app.config[URL]) if app.config.get(URL) else default())
    app.extensions[EXTENSION] = queue
    app.cli.add_command(standfast)
    if queue not in _apps:
        queue.wrap_handlers(partial(_in_context, _apps.setdefault(queue, [])))
    _apps[queue][:] = [app]
    return queue


def queue_of(app: Flask) -> Standfast:
    """Return the queue of an application."""
    found = app.extensions.get(EXTENSION)
    if found is None:
        raise ConfigurationError(f"the application {app.name} has no queue; call standfast.flask.init_app(app) first")
    return cast("Standfast", found)


def _in_context(apps: list[Flask], function: Callable[..., Any], *, is_async: bool) -> Callable[..., Any]:
    """Wrap a handler so that it runs in an application context, entered and left in the same thread."""

    @wraps(function)
    def plain(job: Any) -> Any:
        with apps[-1].app_context():
            return function(job)

    @wraps(function)
    async def awaited(job: Any) -> Any:
        with apps[-1].app_context():
            return await function(job)

    return awaited if is_async else plain


current_standfast: Standfast = cast("Standfast", LocalProxy(lambda: queue_of(current_app)))
"""The queue of the current application, in views and handlers."""
