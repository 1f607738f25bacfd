"""Is the process told to stop, or did a handler itself raise what only looks like it?"""

from __future__ import annotations

import signal
import threading
import traceback
from functools import partial
from types import CodeType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def from_a_signal(error: BaseException) -> bool:
    """Tell an exception that a signal threw into whatever ran from one that a handler raised by itself.

    Python's own Ctrl-C leaves no trace of where it came from, so where that is in force every KeyboardInterrupt of the
    main thread is taken for one.
    """
    if (
        not isinstance(error, KeyboardInterrupt | SystemExit)
        or threading.current_thread() is not threading.main_thread()
    ):
        return False
    listening = [signal.getsignal(number) for number in SIGNALS]
    if isinstance(error, KeyboardInterrupt) and signal.default_int_handler in listening:
        return True
    passed = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
    return any(_code(handler) in passed for handler in listening)


def _code(handler: object) -> CodeType | None:
    """Give the code of a signal handler that is written in Python, `asyncio.run`'s for one."""
    function = handler.func if isinstance(handler, partial) else handler
    return getattr(function, "__code__", None)
