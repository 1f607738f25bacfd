"""Standfast, the object an application holds: its verbs by meaning, a file for each."""

from standfast.application.standfast import Standfast, default

__all__ = ["Standfast", "default"]
