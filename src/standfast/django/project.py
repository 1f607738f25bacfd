"""The application for the command line: `standfast worker standfast.django.project:sf`.

`sf` is the store of the default backend; any other attribute is the store of the backend with that alias in TASKS.
DJANGO_SETTINGS_MODULE names the settings, as always.
"""

from __future__ import annotations

import django
from django.apps import apps

from standfast.application import Standfast
from standfast.django.backend import backend_named


def __getattr__(name: str) -> Standfast:
    if name.startswith("__"):
        raise AttributeError(name)
    if not apps.ready:
        django.setup()
    return backend_named(None if name == "sf" else name).sf
