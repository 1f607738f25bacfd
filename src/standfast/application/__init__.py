"""Standfast, the object an application holds: its verbs grouped by meaning, one file for each group.

The names are imported on first use, because modules of lower layers import parts of this package without the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from standfast.application.standfast import Standfast, default
    from standfast.application.wings import store_at

__all__ = ["Standfast", "default", "store_at"]

_PLACES = {"Standfast": "standfast", "default": "standfast", "store_at": "wings"}

if not TYPE_CHECKING:  # a type checker knows the names above, and must refuse every other

    def __getattr__(name: str) -> Any:
        """Import a public name."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
        return found
