"""An exception's traceback as it is kept: from the handler down, without values, secrets and control characters."""

from __future__ import annotations

import asyncio
import traceback
from types import TracebackType

from standfast.concurrency.guarded import call_guarded
from standfast.failure.error_place import BOUNDARY
from standfast.printable import visible
from standfast.redact import redacted_text

LONGEST = 16_000
"""Characters of a traceback that are kept."""
HEAD = LONGEST // 4
"""How many of them are its beginning: the end names the innermost line and the exception."""
MOST_READ = 2 * LONGEST
"""Characters in which secrets are looked for; a longer traceback is cut to this first."""
MOST_FRAMES = 50
"""Frames of each exception, the innermost ones: a recursion has a thousand that are alike."""
OURS = ("standfast.", "asyncio.")
LEFT_OUT = "  [… the middle is left out]\n"


class RemoteTraceback(Exception):
    """The traceback of an exception that was raised in another process, as text: it is set as its cause."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def traceback_of(error: BaseException) -> str:
    """Write down where an exception was raised, and what it was raised from; it never raises itself."""
    text = call_guarded(lambda: _written(error), _unreadable)
    return as_kept(text)


def _written(error: BaseException) -> str:
    cause = error.__cause__  # any part of an exception may be code of the user's that raises
    return str(cause.args[0]) if isinstance(cause, RemoteTraceback) else _formatted(error)


def is_only_ours(error: BaseException) -> bool:
    """Tell whether an attempt was cut while none of its own lines ran in this process: there is nothing to show.

    The function of `isolate=True` runs in another process; what stood here only waited for it.
    """
    if not isinstance(error, asyncio.CancelledError):
        return False
    raised = traceback.walk_tb(_behind_boundary(error.__traceback__))
    behind = [frame.f_globals.get("__name__", "") for frame, _ in raised]
    return bool(behind) and all(name.startswith(OURS) for name in behind)


def as_kept(text: str) -> str:
    """Give a traceback without secrets and control characters, and no longer than it is kept."""
    looked_at = _shortened(text, MOST_READ)
    return _shortened(visible(redacted_text(looked_at, longest=len(looked_at))), LONGEST).rstrip()


def _formatted(error: BaseException) -> str:
    start = _behind_boundary(error.__traceback__)
    found = traceback.TracebackException(type(error), error, start, limit=-MOST_FRAMES, compact=True)
    return "".join(found.format())


def _behind_boundary(raised: TracebackType | None) -> TracebackType | None:
    """Leave out the frames that called the handler; where nothing stands behind them, they tell more than nothing."""
    start, at = raised, raised
    while at is not None:
        if at.tb_frame.f_globals.get("__name__") in BOUNDARY:
            start = at.tb_next or start
        at = at.tb_next
    return start


def _shortened(text: str, longest: int) -> str:
    """Cut the middle out at whole lines, so that no secret is cut where it could still be recognised."""
    if len(text) <= longest:
        return text
    head, tail = text[:HEAD].rpartition("\n")[0], text[HEAD - longest :].partition("\n")[2]
    return f"{head}\n{LEFT_OUT}{tail or text[HEAD - longest :]}"


def _unreadable(error: Exception) -> str:
    return f"the traceback could not be read ({type(error).__name__})"
