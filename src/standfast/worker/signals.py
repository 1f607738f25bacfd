"""Tells a signal to stop the process from an exception of a handler that only looks like one."""

from __future__ import annotations

import signal
import threading
import traceback
from functools import partial
from types import CodeType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def from_a_signal(error: BaseException) -> bool:
    """Return whether a signal raised this exception in the running code, rather than a handler by itself.

    Python's own Ctrl-C leaves no trace of where it came from; so while it is in force, every KeyboardInterrupt of the
    main thread is taken for a signal.
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
    """Return the code of a signal handler that is written in Python, such as `asyncio.run`'s."""
    function = handler.func if isinstance(handler, partial) else handler
    return getattr(function, "__code__", None)
