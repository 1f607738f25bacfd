"""What a session is told about its jobs, as values: the session of a job, and which of its ends are worth a message."""

from __future__ import annotations

from typing import Literal, get_args

from standfast.lifecycle import Carried

MessageKind = Literal["retry_success", "retry_exhausted", "submit_done", "submit_failed"]
KINDS: tuple[MessageKind, ...] = get_args(MessageKind)
QUIET: frozenset[str] = frozenset({"retry_success", "submit_done"})
"""The kinds that need no action: listing marks them as read."""
DEFERRED = "deferred_submit"
"""The queue reason of a job whose session was promised a message about its end."""
RESTORED = "restored"
"""The answer to a letter whose automatic replay a restore took back."""


class Origin(Carried, frozen=True):
    """The session of a job, and what happened before its end."""

    session: str
    handler: str
    deferred: bool = False
    """Whether the session was promised a message about its end."""
    tried: bool = False
    """Whether its handler was entered."""
    repeated: bool = False
    """Whether an earlier attempt failed or was cut off, or the job was replayed or was a letter."""
    maybe: bool = False
    """Whether an earlier run, counted or not, may have done it too."""


def kind_of(
    origin: Origin, source: str, target: str, *, superseded: bool = False, replays_by_itself: bool = False
) -> MessageKind | None:
    """Return the kind of message for an end; None if the job succeeded at once or still goes on."""
    match target:
        case "completed" if origin.deferred:
            return "submit_done"
        case "completed":
            return "retry_success" if origin.repeated else None
        case "cancelled" if superseded or not (origin.deferred or origin.tried or source == "held"):
            return None  # its successor has a message; one that never began needs it only if its wait was announced
        case "held" if source == "dead":
            return None  # a person handles the letter, and its death was announced
        case "dead" | "held" if replays_by_itself:
            return None
        case "cancelled" | "dead" | "held":
            return "submit_failed" if origin.deferred else "retry_exhausted"
        case _:
            return None
