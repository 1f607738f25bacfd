"""An exception's traceback as it is stored: from the handler down, without values, secrets and control characters."""

from __future__ import annotations

import asyncio
import traceback
from types import TracebackType

from standfast.concurrency.guarded import call_guarded
from standfast.failure.error_place import BOUNDARY
from standfast.printable import visible
from standfast.redact import redacted_text

LONGEST = 16_000
"""How many characters of a traceback are stored."""
HEAD = LONGEST // 4
"""How many of them are from its beginning; the end names the innermost line and the exception."""
MOST_READ = 2 * LONGEST
"""How many characters are searched for secrets; a longer traceback is first cut to this."""
MOST_FRAMES = 50
"""How many frames of each exception are shown, the innermost ones: a recursion has a thousand similar ones."""
OURS = ("standfast.", "asyncio.")
LEFT_OUT = "  [… the middle is left out]\n"


class RemoteTraceback(Exception):
    """The traceback, as text, of an exception raised in another process; it is set as that exception's cause."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def traceback_of(error: BaseException) -> str:
    """Return where an exception was raised, and what it was raised from. This never raises."""
    text = call_guarded(lambda: _written(error), _unreadable)
    return as_kept(text)


def _written(error: BaseException) -> str:
    cause = error.__cause__  # any part of an exception may be a user's code that raises
    return str(cause.args[0]) if isinstance(cause, RemoteTraceback) else _formatted(error)


def is_only_ours(error: BaseException) -> bool:
    """Return whether an attempt was cut off while none of its own lines ran in this process: there is nothing to show.

    The function of an `isolate=True` handler runs in another process; the code here only waited for it.
    """
    if not isinstance(error, asyncio.CancelledError):
        return False
    raised = traceback.walk_tb(_behind_boundary(error.__traceback__))
    behind = [frame.f_globals.get("__name__", "") for frame, _ in raised]
    return bool(behind) and all(name.startswith(OURS) for name in behind)


def as_kept(text: str) -> str:
    """Return a traceback without secrets and control characters, cut to the length that is stored."""
    looked_at = _shortened(text, MOST_READ)
    return _shortened(visible(redacted_text(looked_at, longest=len(looked_at))), LONGEST).rstrip()


def _formatted(error: BaseException) -> str:
    start = _behind_boundary(error.__traceback__)
    found = traceback.TracebackException(type(error), error, start, limit=-MOST_FRAMES, compact=True)
    return "".join(found.format())


def _behind_boundary(raised: TracebackType | None) -> TracebackType | None:
    """Leave out the frames that called the handler, unless there are no others: they are better than nothing."""
    start, at = raised, raised
    while at is not None:
        if at.tb_frame.f_globals.get("__name__") in BOUNDARY:
            start = at.tb_next or start
        at = at.tb_next
    return start


def _shortened(text: str, longest: int) -> str:
    """Cut out whole lines in the middle, so that no secret is cut where it could still be recognised."""
    if len(text) <= longest:
        return text
    head, tail = text[:HEAD].rpartition("\n")[0], text[HEAD - longest :].partition("\n")[2]
    return f"{head}\n{LEFT_OUT}{tail or text[HEAD - longest :]}"


def _unreadable(error: Exception) -> str:
    return f"the traceback could not be read ({type(error).__name__})"
