"""The application for the command line: `standfast worker standfast.flask.loaded:sf`.

It is the queue of the application that FLASK_APP names, as for Flask's own command line.
"""

from __future__ import annotations

import os

from flask import Flask
from flask.cli import ScriptInfo

from standfast.application import Standfast
from standfast.flask.extension import queue_of

_remembered: list[Standfast] = []


def remember(app: Flask) -> Standfast:
    """Make the queue of an already loaded application `sf`, and return it."""
    _remembered[:] = [queue_of(app)]
    return _remembered[0]


def __getattr__(name: str) -> Standfast:
    if name != "sf":
        raise AttributeError(f"{__name__} has sf and nothing else, not {name}")
    return _remembered[0] if _remembered else remember(ScriptInfo(os.environ.get("FLASK_APP")).load_app())
