"""What a session is told of its jobs, as values: for whom a job is done, and which of its ends are worth a message."""

from __future__ import annotations

from typing import Literal, get_args

from standfast.lifecycle import Carried

MessageKind = Literal["retry_success", "retry_exhausted", "submit_done", "submit_failed"]
KINDS: tuple[MessageKind, ...] = get_args(MessageKind)
QUIET: frozenset[str] = frozenset({"retry_success", "submit_done"})
"""What needs no action: it is read once it was listed."""
DEFERRED = "deferred_submit"
"""The queue reason of a job whose caller was promised to hear how it ends."""


class Origin(Carried, frozen=True):
    """For which session a job is done, and what lies behind it."""

    session: str
    handler: str
    deferred: bool = False
    """Whether its caller was promised to hear how it ends."""
    tried: bool = False
    """Whether its handler was entered."""
    repeated: bool = False
    """Whether an attempt failed or was cut off before, or it was replayed, or it was a letter."""
    maybe: bool = False
    """Whether an earlier run, counted or not, may have done it too."""


def kind_of(
    origin: Origin, source: str, target: str, *, superseded: bool = False, replays_by_itself: bool = False
) -> MessageKind | None:
    """Name the message that an end is worth, if any: silence is for what went well at once, or still goes on."""
    match target:
        case "completed" if origin.deferred:
            return "submit_done"
        case "completed":
            return "retry_success" if origin.repeated else None
        case "cancelled" if superseded or not (origin.deferred or origin.tried or source == "held"):
            return None  # its successor has its own message; what never began needs none, unless its wait was announced
        case "held" if source == "dead":
            return None  # a person handles it, and its death was announced
        case "dead" | "held" if replays_by_itself:
            return None
        case "cancelled" | "dead" | "held":
            return "submit_failed" if origin.deferred else "retry_exhausted"
        case _:
            return None
