"""Which modules have tasks: the `tasks` module of each named package, or of each Django app."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable

from standfast.errors import ConfigurationError

Packages = Iterable[str] | Callable[[], Iterable[str]] | None


def discovered(packages: Packages, related: str) -> list[str]:
    """Return the modules of this name that exist."""
    named = _of_django() if packages is None else packages() if callable(packages) else packages
    modules = [f"{each}.{related}" for each in named]
    return [module for module in modules if importlib.util.find_spec(module) is not None]


def _of_django() -> list[str]:
    try:
        django = importlib.import_module("django")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "autodiscover_tasks() without packages looks through Django's apps, and Django is not installed: name the "
            "packages, as autodiscover_tasks(['shop'])"
        ) from error
    apps = importlib.import_module("django.apps").apps
    if not apps.ready:  # true in a worker; a web process has done it
        django.setup()
    return [each.name for each in apps.get_app_configs()]
