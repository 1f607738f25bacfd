"""Standfast, the object an application holds: its verbs by meaning, a file for each."""

from standfast.application.standfast import Standfast, default
from standfast.application.wings import store_at

__all__ = ["Standfast", "default", "store_at"]
