"""The traceback of one attempt, as a move carries it."""

from __future__ import annotations

from standfast.lifecycle import Carried


class Traceback(Carried, frozen=True):
    """Where an attempt raised: text that is already redacted and capped."""

    text: str
